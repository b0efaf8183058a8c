/**
 * The numbers that core works with.
 *
 * @since 0.1.0
 */
import { InvalidConfig } from "@switchyard/protocol/Errors"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/**
 * All durations are milliseconds, on the monotonic clock.
 *
 * @since 0.1.0
 * @category models
 */
export interface Values {
  /** Messages that may stand at a session's door before it refuses. */
  readonly mailboxCapacity: number
  /** Quiet window of a `collect` message that brings none of its own. */
  readonly debounceMs: number
  /** Longest time that a group of `collect` messages stays open. */
  readonly collectMaxWaitMs: number
  /** Deadline of a run that brings none of its own; 0 for none. */
  readonly runTimeoutMs: number
  /** How long a run that was ended may take to settle before it is detached. */
  readonly settleGraceMs: number
  /** How long a tool that cannot be interrupted may hold a run that is ending. */
  readonly abandonGraceMs: number
  /** How long a send may take before its delivery counts as unknown. */
  readonly deliveryTimeoutMs: number
  /** How long an idle session keeps its actor. */
  readonly passivateAfterMs: number
  /** How many waiting steers enter a run at one boundary. */
  readonly steering: "all" | "one"
  /** What a steer does to tools that have not begun: skip them, or let them finish first. */
  readonly steerTools: "skip" | "finish"
}

/**
 * @since 0.1.0
 * @category constants
 */
export const defaults: Values = {
  mailboxCapacity: 256,
  debounceMs: 500,
  collectMaxWaitMs: 10_000,
  runTimeoutMs: 172_800_000,
  settleGraceMs: 15_000,
  abandonGraceMs: 4_000,
  deliveryTimeoutMs: 15_000,
  passivateAfterMs: 300_000,
  steering: "all",
  steerTools: "skip"
}

const choices: { readonly [key: string]: ReadonlyArray<unknown> } = {
  steering: ["all", "one"],
  steerTools: ["skip", "finish"]
}

/**
 * @since 0.1.0
 * @category context
 */
export class Settings extends Context.Reference<Settings>()("@switchyard/core/Settings", {
  defaultValue: (): Values => defaults
}) {}

/**
 * Checks values. Fails with {@link InvalidConfig}, naming the first wrong one: negative, not finite, not a number, or 0
 * where 0 has no meaning.
 *
 * @since 0.1.0
 * @category decoding
 */
export const validate = (values: { readonly [K in keyof Values]?: unknown }): Effect.Effect<Values, InvalidConfig> =>
  Effect.suspend(() => {
    for (const [key, value] of Object.entries(values)) {
      if (value === undefined) continue
      const wrong = (reason: string) => Effect.fail(new InvalidConfig({ key, value: String(value), reason }))
      if (!(key in defaults)) return wrong("there is no such setting")
      const choice = choices[key]
      if (choice !== undefined) {
        if (choice.includes(value)) continue
        return wrong(`it must be ${choice.join(" or ")}`)
      }
      if (typeof value !== "number" || !Number.isFinite(value) || value < 0) {
        return wrong(
          key === "mailboxCapacity"
            ? "it must be a whole number above 0"
            : "it must be a number of milliseconds, 0 or more"
        )
      }
      if (key === "mailboxCapacity" && (value < 1 || !Number.isInteger(value))) {
        return wrong("it must be a whole number above 0")
      }
      if (value === 0 && key !== "runTimeoutMs" && key !== "debounceMs" && key !== "collectMaxWaitMs") {
        return wrong("it must be above 0")
      }
    }
    const given = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined))
    return Effect.succeed({ ...defaults, ...given })
  })

/**
 * Settings that differ from the defaults only where given.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (values: Partial<Values>): Layer.Layer<never, InvalidConfig> =>
  Layer.effectContext(
    Effect.map(validate(values), (checked) => Context.make(Settings, checked) as Context.Context<never>)
  )
