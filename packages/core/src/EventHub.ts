/**
 * Fan-out of what happens in sessions: publishing never waits, followers read at their own speed.
 *
 * Kept for a session: its last 1,000 events that are not deltas (those of a run in progress, or settled less than 60 s
 * ago, up to 10,000), and the open message's text. A follower that comes late, or comes back with a cursor, gets what it
 * missed first; text that it missed comes as one delta, so that to each follower the deltas since the last reset
 * concatenate to exactly the text.
 *
 * A follower that does not keep up has its deltas merged; past 1,000 other events it is closed.
 *
 * @since 0.1.0
 */
import type { AgentEvent } from "@switchyard/protocol/AgentEvent"
import { isTerminal } from "@switchyard/protocol/AgentEvent"
import { SubscriberTooSlow } from "@switchyard/protocol/Errors"
import type { Cursor, RunId, SessionKey } from "@switchyard/protocol/Ids"
import type { WaitResult } from "@switchyard/protocol/Run"
import * as Chunk from "effect/Chunk"
import type { Clock } from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"

/**
 * The part of an event that says what happened.
 *
 * @since 0.1.0
 * @category models
 */
export type Happening = AgentEvent extends infer E
  ? E extends { readonly stream: infer S; readonly data: infer D } ? { readonly stream: S; readonly data: D } : never
  : never

/**
 * What a reset tells a follower about the session as it stands.
 *
 * @since 0.1.0
 * @category models
 */
export interface Position {
  readonly lastSeq: number
  readonly activeRunId: RunId | null
  readonly waiting: ReadonlyArray<RunId>
}

/**
 * One session's events, written by its activation.
 *
 * @since 0.1.0
 * @category models
 */
export interface Channel {
  /** Publishes what happened in a run. Synchronous: followers are never waited for. */
  readonly publish: (runId: RunId | null, happening: Happening) => void
  /** Publishes more text of the open message. */
  readonly delta: (runId: RunId, stream: "assistant" | "reasoning", text: string) => void
  /** Ends the open message: followers get its whole text. Nothing happens if there is none. */
  readonly endMessage: (runId: RunId) => void
  /** Tells those who wait for a run that it is settled. */
  readonly settled: (runId: RunId, result: WaitResult) => void
  /** The activation is over: kept events go, followers stay. */
  readonly close: () => void
}

/**
 * Which events a follower wants. `runId` follows the run, and the run that it is merged into.
 *
 * @since 0.1.0
 * @category models
 */
export interface Following {
  readonly sessionKey: SessionKey
  readonly runId?: RunId | undefined
  readonly after?: Cursor | undefined
}

/**
 * @since 0.1.0
 * @category context
 */
export class EventHub extends Context.Tag("@switchyard/core/EventHub")<EventHub, {
  /** Opens the channel of a session for a new activation. */
  readonly open: (
    sessionKey: SessionKey,
    activation: string,
    clock: Clock,
    position: () => Position
  ) => Channel
  /**
   * Follows events. `ended` is asked once the follower is attached: a result says that the run is settled already, and
   * which terminal event to end with if it is not among the kept ones.
   */
  readonly follow: <E>(
    following: Following,
    ended: Effect.Effect<Option.Option<AgentEvent>, E>
  ) => Stream.Stream<AgentEvent, E | SubscriberTooSlow>
  /** Completes when the run settles in this process. Waits for ever if it never does; interrupt it to leave. */
  readonly awaitSettled: (runId: RunId) => Effect.Effect<WaitResult>
  /** How many channels and followers there are. */
  readonly counts: Effect.Effect<{ readonly channels: number; readonly followers: number; readonly waiters: number }>
}>() {}

const keptEvents = 1_000
const keptEventsOfRuns = 10_000
const keptAfterSettledMs = 60_000
const followerCapacity = 1_000

interface Kept {
  readonly count: number
  readonly event: AgentEvent
  /** For an event that ends a message: the count before its first delta, and that delta's `seq`. */
  readonly messageFrom: number
  readonly firstSeq: number
}

interface OpenText {
  readonly runId: RunId
  /** The count before the first delta. */
  readonly from: number
  readonly firstSeq: number
  text: string
}

type TextStream = "assistant" | "reasoning"

interface Follower {
  readonly runs: Set<RunId> | null
  readonly own: RunId | undefined
  buffer: Array<AgentEvent>
  others: number
  delivered: Cursor | null
  wake: (() => void) | null
  done: boolean
  tooSlow: boolean
}

interface Session {
  readonly key: SessionKey
  activation: string
  clock: Clock | null
  position: () => Position
  count: number
  evicted: number
  kept: Array<Kept>
  readonly open: Record<TextStream, OpenText | null>
  readonly seqs: Map<RunId, number>
  readonly settledAt: Map<RunId, number>
  readonly followers: Set<Follower>
}

const nowhere = (): Position => ({ lastSeq: 0, activeRunId: null, waiting: [] })

/**
 * @since 0.1.0
 * @category constructors
 */
export const make: Effect.Effect<EventHub["Type"]> = Effect.sync(() => {
  const sessions = new Map<SessionKey, Session>()
  const waiters = new Map<RunId, Set<(result: WaitResult) => void>>()

  const sessionOf = (key: SessionKey): Session => {
    const known = sessions.get(key)
    if (known !== undefined) return known
    const made: Session = {
      key,
      activation: "",
      clock: null,
      position: nowhere,
      count: 0,
      evicted: 0,
      kept: [],
      open: { assistant: null, reasoning: null },
      seqs: new Map(),
      settledAt: new Map(),
      followers: new Set()
    }
    sessions.set(key, made)
    return made
  }
  const forgetIfUnused = (session: Session) => {
    if (session.followers.size === 0 && session.activation === "") sessions.delete(session.key)
  }

  const open: EventHub["Type"]["open"] = (sessionKey, activation, clock, position) => {
    const session = sessionOf(sessionKey)
    session.activation = activation
    session.clock = clock
    session.position = position
    session.count = 0
    session.evicted = 0
    session.kept = []
    session.open.assistant = null
    session.open.reasoning = null
    session.seqs.clear()
    session.settledAt.clear()
    // Followers that read events of an earlier activation cannot place what comes next.
    for (const follower of session.followers) if (follower.delivered !== null) push(follower, resetEvent(session))
    const next = (runId: RunId | null) => {
      session.count += 1
      if (runId === null) return 0
      const seq = (session.seqs.get(runId) ?? 0) + 1
      session.seqs.set(runId, seq)
      return seq
    }
    const deliver = (event: AgentEvent) => {
      for (const follower of session.followers) offer(follower, event)
    }
    const publish: Channel["publish"] = (runId, happening) => {
      const seq = next(runId)
      const event = {
        runId,
        sessionKey,
        seq,
        cursor: cursorOf(session),
        ts: clock.unsafeCurrentTimeMillis(),
        ...happening
      } as AgentEvent
      keep(session, { count: session.count, event, messageFrom: -1, firstSeq: 0 })
      deliver(event)
      if (runId !== null && isTerminal(event)) session.settledAt.set(runId, event.ts)
    }
    return {
      publish,
      delta: (runId, stream, text) => {
        const seq = next(runId)
        const current = session.open[stream]
        if (current === null) {
          session.open[stream] = { runId, from: session.count - 1, firstSeq: seq, text }
        } else current.text += text
        deliver({
          runId,
          sessionKey,
          seq,
          cursor: cursorOf(session),
          ts: clock.unsafeCurrentTimeMillis(),
          stream,
          data: { type: "delta", text }
        })
      },
      endMessage: (runId) => {
        for (const stream of ["reasoning", "assistant"] as const) {
          const current = session.open[stream]
          if (current === null) continue
          session.open[stream] = null
          const seq = next(runId)
          const event: AgentEvent = {
            runId,
            sessionKey,
            seq,
            cursor: cursorOf(session),
            ts: clock.unsafeCurrentTimeMillis(),
            stream,
            data: { type: "text", text: current.text }
          }
          keep(session, { count: session.count, event, messageFrom: current.from, firstSeq: current.firstSeq })
          deliver(event)
        }
      },
      settled: (runId, result) => {
        const waiting = waiters.get(runId)
        if (waiting === undefined) return
        waiters.delete(runId)
        for (const resume of waiting) resume(result)
      },
      close: () => {
        if (session.activation !== activation) return
        session.activation = ""
        session.kept = []
        session.evicted = session.count
        forgetIfUnused(session)
      }
    }
  }

  const follow: EventHub["Type"]["follow"] = (following, ended) =>
    Stream.unwrapScoped(Effect.gen(function*() {
      const session = sessionOf(following.sessionKey)
      const follower: Follower = {
        runs: following.runId === undefined ? null : new Set([following.runId]),
        own: following.runId,
        buffer: [],
        others: 0,
        delivered: following.after ?? null,
        wake: null,
        done: false,
        tooSlow: false
      }
      yield* Effect.acquireRelease(
        Effect.sync(() => {
          replay(session, follower, following.after)
          session.followers.add(follower)
        }),
        () =>
          Effect.sync(() => {
            session.followers.delete(follower)
            forgetIfUnused(session)
          })
      )
      const terminal = yield* ended
      if (Option.isSome(terminal) && !follower.done) {
        push(follower, terminal.value)
        follower.done = true
      }
      return Stream.repeatEffectChunkOption(take(follower))
    }))

  return EventHub.of({
    open,
    follow,
    awaitSettled: (runId) =>
      Effect.async<WaitResult>((resume) => {
        const waiting = waiters.get(runId) ?? new Set()
        waiters.set(runId, waiting)
        const mine = (result: WaitResult) => resume(Effect.succeed(result))
        waiting.add(mine)
        return Effect.sync(() => {
          waiting.delete(mine)
          if (waiting.size === 0 && waiters.get(runId) === waiting) waiters.delete(runId)
        })
      }),
    counts: Effect.sync(() => ({
      channels: sessions.size,
      followers: Array.from(sessions.values()).reduce((sum, session) => sum + session.followers.size, 0),
      waiters: waiters.size
    }))
  })
})

/**
 * @since 0.1.0
 * @category layers
 */
export const layer: Layer.Layer<EventHub> = Layer.effect(EventHub, make)

// --- keeping ---

const keep = (session: Session, kept: Kept) => {
  session.kept.push(kept)
  if (session.kept.length <= keptEvents) return
  const oldest = session.kept[0]!
  if (session.kept.length <= keptEventsOfRuns && isFresh(session, oldest.event.runId, kept.event.ts)) return
  session.kept.shift()
  session.evicted = oldest.count
}

const isFresh = (session: Session, runId: RunId | null, now: number): boolean => {
  if (runId === null) return false
  const at = session.settledAt.get(runId)
  if (at === undefined) return session.seqs.has(runId)
  if (now - at < keptAfterSettledMs) return true
  session.settledAt.delete(runId)
  session.seqs.delete(runId)
  return false
}

// --- cursors: activation, count, and how much of the open texts was there ---

interface Place {
  readonly activation: string
  readonly count: number
  readonly assistant: number
  readonly reasoning: number
}

const cursorOf = (session: Session): Cursor =>
  `${session.activation}:${session.count}:${session.open.assistant?.text.length ?? 0}:${
    session.open.reasoning?.text.length ?? 0
  }` as Cursor

const parse = (cursor: string): Place | null => {
  const parts = cursor.split(":")
  const [activation, ...numbers] = [parts.slice(0, -3).join(":"), ...parts.slice(-3)]
  const [count, assistant, reasoning] = numbers.map(Number)
  return parts.length >= 4 && [count, assistant, reasoning].every((n) => Number.isSafeInteger(n) && n! >= 0)
    ? { activation: activation!, count: count!, assistant: assistant!, reasoning: reasoning! }
    : null
}

// --- followers ---

const wants = (follower: Follower, event: AgentEvent): boolean =>
  follower.runs === null || (event.runId !== null && follower.runs.has(event.runId))

const offer = (follower: Follower, event: AgentEvent) => {
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

const push = (follower: Follower, event: AgentEvent) => {
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
    if (!isDelta(event)) {
      follower.others += 1
      if (follower.others > followerCapacity) {
        follower.tooSlow = true
        follower.buffer = []
      }
    }
    if (!follower.tooSlow) follower.buffer.push(event)
  }
  const { wake } = follower
  follower.wake = null
  wake?.()
}

const take = (
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

// Brings a new follower up to now.
const replay = (session: Session, follower: Follower, after: Cursor | undefined) => {
  const place = after === undefined ? null : parse(after)
  const lost = after !== undefined &&
    (place === null || place.activation !== session.activation || place.count > session.count ||
      place.count < session.evicted)
  if (lost) {
    push(follower, resetEvent(session))
    follower.others = 0
    attachToMerged(session, follower)
    return
  }
  const from: Place = place ?? { activation: session.activation, count: 0, assistant: 0, reasoning: 0 }
  const texts = textsOf(session)
  // How much of each text the follower has, once it has what came before `count`.
  const have = new Map(
    texts.map((text) => [text, text.from < from.count && from.count < text.to ? from[text.stream] : 0])
  )
  // Text that belongs before an event comes before it, so that a cut between any two loses nothing.
  const catchUp = (count: number, offsets: { readonly [K in TextStream]: number } | null) => {
    for (const text of texts) {
      if (text.to <= from.count || text.from >= count || text.to < count) continue
      if (follower.runs !== null && !follower.runs.has(text.runId)) continue
      const had = have.get(text)!
      const upTo = offsets === null || text.to === count ? text.text.length : offsets[text.stream]
      if (upTo <= had) continue
      have.set(text, upTo)
      const place = { assistant: 0, reasoning: 0, ...offsets, [text.stream]: upTo }
      push(follower, {
        runId: text.runId,
        sessionKey: session.key,
        seq: text.lastSeq,
        ...(had === 0 ? { fromSeq: text.firstSeq } : {}),
        cursor: `${session.activation}:${count - 1}:${place.assistant}:${place.reasoning}` as Cursor,
        ts: session.clock?.unsafeCurrentTimeMillis() ?? 0,
        stream: text.stream,
        data: { type: "delta", text: text.text.slice(had, upTo) }
      })
    }
  }
  // What is replayed is bounded by what is kept, and does not count against the follower.
  follower.others = Number.NEGATIVE_INFINITY
  for (const { count, event } of session.kept) {
    if (count <= from.count) {
      // what happened before still says which runs belong to this one
      if (event.runId === follower.own && event.stream === "queue" && "into" in event.data) {
        follower.runs?.add(event.data.into)
      }
      continue
    }
    catchUp(count, parse(event.cursor))
    offer(follower, event)
  }
  catchUp(session.count + 1, null)
  follower.others = 0
}

interface Text {
  readonly stream: TextStream
  readonly runId: RunId
  readonly from: number
  readonly to: number
  readonly text: string
  readonly firstSeq: number
  readonly lastSeq: number
}

// The texts that followers may still miss: those of kept messages, and the open ones.
const textsOf = (session: Session): ReadonlyArray<Text> => {
  const texts: Array<Text> = []
  for (const { count, event, firstSeq, messageFrom } of session.kept) {
    if ((event.stream !== "assistant" && event.stream !== "reasoning") || event.data.type !== "text") continue
    texts.push({
      stream: event.stream,
      runId: event.runId!,
      from: messageFrom,
      to: count,
      text: event.data.text,
      firstSeq,
      lastSeq: event.seq - 1
    })
  }
  for (const stream of ["reasoning", "assistant"] as const) {
    const open = session.open[stream]
    if (open === null) continue
    const lastSeq = session.seqs.get(open.runId) ?? open.firstSeq
    texts.push({ ...open, stream, to: Number.POSITIVE_INFINITY, lastSeq })
  }
  return texts
}

const attachToMerged = (session: Session, follower: Follower) => {
  for (const { event } of session.kept) {
    if (event.runId !== follower.own) continue
    if (event.stream === "queue" && "into" in event.data) follower.runs?.add(event.data.into)
    if (isTerminal(event)) offer(follower, event)
  }
}

const resetEvent = (session: Session): AgentEvent => {
  const position = session.position()
  return {
    runId: null,
    sessionKey: session.key,
    seq: 0,
    cursor: cursorOf(session),
    ts: session.clock?.unsafeCurrentTimeMillis() ?? 0,
    stream: "stream",
    data: {
      type: "reset",
      lastSeq: position.lastSeq,
      text: session.open.assistant?.text ?? "",
      activeRunId: position.activeRunId,
      waiting: position.waiting
    }
  }
}
