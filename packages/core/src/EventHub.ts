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
import { type AgentEvent, isTerminal } from "@switchyard/protocol/AgentEvent"
import type { SubscriberTooSlow } from "@switchyard/protocol/Errors"
import type { Cursor, RunId, SessionKey } from "@switchyard/protocol/Ids"
import type { WaitResult } from "@switchyard/protocol/Run"
import type { Clock } from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as EventSession from "./internal/eventSession.js"
import { replay } from "./internal/replay.js"

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

/**
 * @since 0.1.0
 * @category constructors
 */
export const make: Effect.Effect<EventHub["Type"]> = Effect.sync(() => {
  const sessions = new Map<SessionKey, EventSession.Session>()
  const waiters = new Map<RunId, Set<(result: WaitResult) => void>>()

  const sessionOf = (key: SessionKey): EventSession.Session => {
    const known = sessions.get(key)
    if (known !== undefined) return known
    const made: EventSession.Session = {
      key,
      activation: "",
      clock: null,
      position: EventSession.nowhere,
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
  const forgetIfUnused = (session: EventSession.Session) => {
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
    for (const follower of session.followers) {
      if (follower.delivered !== null) EventSession.push(follower, EventSession.resetEvent(session, follower))
    }
    const emit = (runId: RunId | null, happening: Happening): AgentEvent => {
      session.count += 1
      const seq = runId === null ? 0 : (session.seqs.get(runId) ?? 0) + 1
      if (runId !== null) session.seqs.set(runId, seq)
      return {
        runId,
        sessionKey,
        seq,
        cursor: EventSession.cursorOf(session),
        ts: clock.unsafeCurrentTimeMillis(),
        ...happening
      } as AgentEvent
    }
    const deliver = (event: AgentEvent) => {
      for (const follower of session.followers) EventSession.offer(follower, event)
    }
    return {
      publish: (runId, happening) => {
        const event = emit(runId, happening)
        if (runId !== null && isTerminal(event)) session.settledAt.set(runId, clock.unsafeCurrentTimeNanos())
        EventSession.keep(session, { count: session.count, event, messageFrom: -1, firstSeq: 0 }, clock)
        deliver(event)
      },
      delta: (runId, stream, text) => {
        const current = session.open[stream]
        if (current === null) {
          const firstSeq = (session.seqs.get(runId) ?? 0) + 1
          session.open[stream] = { runId, from: session.count, firstSeq, text }
        } else current.text += text
        deliver(emit(runId, { stream, data: { type: "delta", text } }))
      },
      endMessage: (runId) => {
        for (const stream of ["reasoning", "assistant"] as const) {
          const current = session.open[stream]
          if (current === null) continue
          session.open[stream] = null
          const event = emit(runId, { stream, data: { type: "text", text: current.text } })
          const { firstSeq, from } = current
          EventSession.keep(session, { count: session.count, event, messageFrom: from, firstSeq }, clock)
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
        session.open.assistant = null
        session.open.reasoning = null
        forgetIfUnused(session)
      }
    }
  }

  const follow: EventHub["Type"]["follow"] = (following, ended) =>
    Stream.unwrapScoped(Effect.gen(function*() {
      const session = sessionOf(following.sessionKey)
      const follower: EventSession.Follower = {
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
        EventSession.push(follower, terminal.value)
        follower.done = true
      }
      return Stream.repeatEffectChunkOption(EventSession.take(follower))
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
