/** @internal */
import * as QueuePolicy from "../QueuePolicy.js"
import type { ActorGone } from "../SessionRef.js"
import type { AppendError } from "../TranscriptStore.js"

/**
 * One decision on its way into the journal. Those without entries wait for the ones before them, nothing else.
 *
 * @internal
 */
export interface Part {
  readonly event: QueuePolicy.Event
  readonly step: QueuePolicy.Step
  readonly asker: Asker
}

/**
 * Whoever waits for a decision.
 *
 * @internal
 */
export interface Asker {
  readonly resolve: (reply: QueuePolicy.Reply) => void
  readonly reject: (error: AppendError | ActorGone) => void
  /** The decision has to be committed: a fault of the store is not told but tried again until it is over. */
  readonly persistent: boolean
}

/** How long a message may wait for the store before it is refused, in milliseconds. */
const patienceMs = 10_000

/**
 * The decisions of one activation between "decided" and "committed": decided on tentative state, appended in order with
 * one append in flight, stepped again from committed state when one before them failed.
 *
 * Pure bookkeeping: the actor does the appending and says how it went.
 *
 * @internal
 */
export class Appender {
  private parts: Array<Part> = []
  private inFlight = 0
  /** How many of the next parts are appended alone, since they failed together. */
  private alone = 0
  tentative: QueuePolicy.State

  constructor(
    private readonly limits: QueuePolicy.Limits,
    public committed: QueuePolicy.State,
    private readonly onDecided: (part: Part) => void,
    private readonly onCommitted: (part: Part) => void
  ) {
    this.tentative = committed
  }

  get isEmpty(): boolean {
    return this.parts.length === 0
  }

  /** Messages that are decided and not yet committed. */
  get submissions(): number {
    let count = 0
    for (const part of this.parts) if (part.event._tag === "Submit") count += 1
    return count
  }

  offer(event: QueuePolicy.Event, asker: Asker): void {
    const step = QueuePolicy.step(this.limits, this.tentative, event)
    this.tentative = step.state
    const part = { event, step, asker }
    this.onDecided(part)
    if (step.entries.length === 0 && this.parts.length === 0) this.commit(part)
    else this.parts.push(part)
  }

  /** The parts to append next, in one append; empty while one is in flight, or if there is nothing to write. */
  next(maxEntries: number): ReadonlyArray<Part> {
    if (this.inFlight > 0) return []
    this.commitLeadingEmpty()
    let count = 0
    let entries = 0
    while (count < this.parts.length && (count === 0 || entries < maxEntries)) {
      entries += this.parts[count]!.step.entries.length
      count += 1
      if (this.alone > 0) break
    }
    this.inFlight = count
    return this.parts.slice(0, count)
  }

  succeeded(): void {
    const done = this.parts.splice(0, this.inFlight)
    this.inFlight = 0
    if (this.alone > 0) this.alone -= 1
    for (const part of done) this.commit(part)
    this.commitLeadingEmpty()
  }

  /** The append failed and changed nothing. Gives whether the same parts are to be appended again after a while. */
  failed(error: AppendError, mono: number): "again" | "goesOn" {
    const count = this.inFlight
    this.inFlight = 0
    if (count > 1) {
      this.alone = count
      return "goesOn"
    }
    const [part] = this.parts
    if (part === undefined) return "goesOn"
    if (part.asker.persistent && error._tag !== "RunIdTaken") {
      // What stands behind it, and may be refused, does not wait for ever.
      this.refuse((other) => !other.asker.persistent && other.event.mono + patienceMs <= mono, error)
      return "again"
    }
    if (this.alone > 0) this.alone -= 1
    this.refuse((other) => other === part, error)
    return "goesOn"
  }

  // Refuses some of the parts. What was decided behind them was decided as if they stood, and is decided anew.
  private refuse(wanted: (part: Part) => boolean, error: AppendError): void {
    const refused = this.parts.filter(wanted)
    if (refused.length === 0) return
    const kept = this.parts.filter((part) => !refused.includes(part))
    this.parts = []
    this.tentative = this.committed
    for (const part of refused) part.asker.reject(error)
    for (const { asker, event } of kept) this.offer(event, asker)
  }

  /** Gives everything up: each asker is told. What is in flight may still be committed. */
  abandon(error: ActorGone): void {
    const { parts } = this
    this.parts = []
    this.inFlight = 0
    for (const part of parts) part.asker.reject(error)
  }

  private commitLeadingEmpty(): void {
    while (this.parts[0]?.step.entries.length === 0) this.commit(this.parts.shift()!)
  }

  private commit(part: Part): void {
    this.committed = part.step.state
    this.onCommitted(part)
  }
}
