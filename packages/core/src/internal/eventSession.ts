/** @internal */
import { type AgentEvent, isTerminal } from "@switchyard/protocol/AgentEvent"
import { SubscriberTooSlow } from "@switchyard/protocol/Errors"
import type { Cursor, RunId, SessionKey } from "@switchyard/protocol/Ids"
import * as Chunk from "effect/Chunk"
import type { Clock } from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { Position } from "../EventHub.js"

const keptEvents = 1_000
const keptEventsOfRuns = 10_000
const keptAfterSettledNanos = 60_000_000_000n
const followerCapacity = 1_000

/** @internal */
export interface Kept {
  readonly count: number
  readonly event: AgentEvent
  /** For an event that ends a message: the count before its first delta, and that delta's `seq`. */
  readonly messageFrom: number
  readonly firstSeq: number
}

/** @internal */
export interface OpenText {
  readonly runId: RunId
  /** The count before the first delta. */
  readonly from: number
  readonly firstSeq: number
  text: string
}

/** @internal */
export type TextStream = "assistant" | "reasoning"

/** @internal */
export interface Follower {
  readonly runs: Set<RunId> | null
  readonly own: RunId | undefined
  buffer: Array<AgentEvent>
  others: number
  delivered: Cursor | null
  wake: (() => void) | null
  done: boolean
  tooSlow: boolean
}

/** @internal */
export interface Session {
  readonly key: SessionKey
  activation: string
  clock: Clock | null
  position: () => Position
  count: number
  evicted: number
  kept: Array<Kept>
  readonly open: Record<TextStream, OpenText | null>
  readonly seqs: Map<RunId, number>
  /** On the monotonic clock, in nanoseconds. */
  readonly settledAt: Map<RunId, bigint>
  readonly followers: Set<Follower>
}

/** @internal */
export const nowhere = (): Position => ({ lastSeq: 0, activeRunId: null, waiting: [] })

// --- keeping ---

/** @internal */
export const keep = (session: Session, kept: Kept, clock: Clock) => {
  session.kept.push(kept)
  while (session.kept.length > keptEvents) {
    const oldest = session.kept[0]!
    const { runId } = oldest.event
    if (session.kept.length <= keptEventsOfRuns && isFresh(session, runId, clock)) return
    session.kept.shift()
    session.evicted = oldest.count
    if (runId === null || !isTerminal(oldest.event)) continue
    // nothing of this run is left
    session.seqs.delete(runId)
    session.settledAt.delete(runId)
  }
}

const isFresh = (session: Session, runId: RunId | null, clock: Clock): boolean => {
  if (runId === null) return false
  const at = session.settledAt.get(runId)
  return at === undefined || clock.unsafeCurrentTimeNanos() - at < keptAfterSettledNanos
}

// --- cursors: activation, count, and how much of the open texts was there ---

/** @internal */
export interface Place {
  readonly activation: string
  readonly count: number
  readonly assistant: number
  readonly reasoning: number
}

/** @internal */
export const cursorOf = (session: Session): Cursor =>
  `${session.activation}:${session.count}:${session.open.assistant?.text.length ?? 0}:${
    session.open.reasoning?.text.length ?? 0
  }` as Cursor

/** @internal */
export const parse = (cursor: string): Place | null => {
  const parts = cursor.split(":")
  const [activation, ...numbers] = [parts.slice(0, -3).join(":"), ...parts.slice(-3)]
  const [count, assistant, reasoning] = numbers.map(Number)
  return parts.length >= 4 && [count, assistant, reasoning].every((n) => Number.isSafeInteger(n) && n! >= 0)
    ? { activation: activation!, count: count!, assistant: assistant!, reasoning: reasoning! }
    : null
}

// --- followers ---

/** @internal */
export const wants = (follower: Follower, event: AgentEvent): boolean =>
  follower.runs === null || (event.runId !== null && follower.runs.has(event.runId))

/** @internal */
export const offer = (follower: Follower, event: AgentEvent) => {
  if (follower.done || !wants(follower, event)) return
  push(follower, event)
  if (follower.own === undefined || follower.runs === null) return
  if (event.runId === follower.own) {
    if (event.stream === "queue" && (event.data.type === "merged" || event.data.type === "steered")) {
      follower.runs.add(event.data.into)
    }
    if (isTerminal(event)) follower.done = true
  }
}

const isDelta = (event: AgentEvent): boolean =>
  (event.stream === "assistant" || event.stream === "reasoning") && event.data.type === "delta"

/** @internal */
export const push = (follower: Follower, event: AgentEvent) => {
  if (follower.tooSlow) return
  const last = follower.buffer[follower.buffer.length - 1]
  if (
    isDelta(event) && last !== undefined && isDelta(last) && last.stream === event.stream && last.runId === event.runId
  ) {
    follower.buffer[follower.buffer.length - 1] = {
      ...event,
      fromSeq: last.fromSeq ?? last.seq,
      data: { type: "delta", text: (last.data as { text: string }).text + (event.data as { text: string }).text }
    } as AgentEvent
  } else {
    // Deltas that cannot be merged, since others came in between, count like any event.
    follower.others += 1
    if (follower.others > followerCapacity) {
      follower.tooSlow = true
      follower.buffer = []
    }
    if (!follower.tooSlow) follower.buffer.push(event)
  }
  const { wake } = follower
  follower.wake = null
  wake?.()
}

/** @internal */
export const take = (
  follower: Follower
): Effect.Effect<Chunk.Chunk<AgentEvent>, Option.Option<SubscriberTooSlow>> =>
  Effect.async((resume) => {
    const attempt = () => {
      if (follower.buffer.length > 0) {
        const events = follower.buffer
        follower.buffer = []
        follower.others = 0
        follower.delivered = events[events.length - 1]!.cursor
        resume(Effect.succeed(Chunk.unsafeFromArray(events)))
      } else if (follower.tooSlow) {
        resume(Effect.fail(Option.some(new SubscriberTooSlow({ cursor: follower.delivered }))))
      } else if (follower.done) resume(Effect.fail(Option.none()))
      else follower.wake = attempt
    }
    attempt()
    return Effect.sync(() => {
      follower.wake = null
    })
  })

/**
 * Tells a follower where the session stands. Text of a run that it does not follow is not for it.
 *
 * @internal
 */
export const resetEvent = (session: Session, follower: Follower): AgentEvent => {
  const position = session.position()
  const open = session.open.assistant
  return {
    runId: follower.own ?? null,
    sessionKey: session.key,
    seq: 0,
    cursor: cursorOf(session),
    ts: session.clock?.unsafeCurrentTimeMillis() ?? 0,
    stream: "stream",
    data: {
      type: "reset",
      lastSeq: position.lastSeq,
      text: open !== null && (follower.runs === null || follower.runs.has(open.runId)) ? open.text : "",
      activeRunId: position.activeRunId,
      waiting: position.waiting
    }
  }
}
