/**
 * What the store counts.
 *
 * @since 0.1.0
 */
import * as Metric from "effect/Metric"

/**
 * How many statements were committed to the journal. Appends that were joined into one statement count once, so this
 * divided by the number of messages is what a message costs the disk.
 *
 * @since 0.1.0
 * @category metrics
 */
export const commits: Metric.Metric.Counter<number> = Metric.counter("switchyard_store_commits", {
  description: "Statements committed to the journal",
  incremental: true
})

/**
 * How often a statement found the database in use by another process and is tried again.
 *
 * @since 0.1.0
 * @category metrics
 */
export const busy: Metric.Metric.Counter<number> = Metric.counter("switchyard_store_busy", {
  description: "Statements put off because another process was writing",
  incremental: true
})
