/**
 * The front door: what a gateway, a command line or an embedding program calls.
 *
 * @since 0.1.0
 */
import { type AgentEvent, isTerminal } from "@switchyard/protocol/AgentEvent"
import * as Errors from "@switchyard/protocol/Errors"
import type { SessionId } from "@switchyard/protocol/Ids"
import { Cursor, makeRunId, RunId, SessionKey } from "@switchyard/protocol/Ids"
import type { AbortResult, Accepted, StopResult, WaitResult } from "@switchyard/protocol/Run"
import type { HistoryPage, QueueView, SessionInfo, SessionPage } from "@switchyard/protocol/Session"
import * as Submission from "@switchyard/protocol/Submission"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as FiberId from "effect/FiberId"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Authority from "./Authority.js"
import * as EventHub from "./EventHub.js"
import { submissionDigest } from "./internal/digest.js"
import { queueView } from "./internal/queueView.js"
import { pending, terminalEvent, toInfo } from "./internal/views.js"
import * as Journal from "./Journal.js"
import * as Lanes from "./Lanes.js"
import * as QueuePolicy from "./QueuePolicy.js"
import * as RunFacts from "./RunFacts.js"
import * as SessionHost from "./SessionHost.js"
import type { ActorGone, SessionRef } from "./SessionRef.js"
import * as SessionState from "./SessionState.js"
import { Settings } from "./Settings.js"
import * as Transcript from "./Transcript.js"
import type { RunIdTaken, StoreFailure } from "./TranscriptStore.js"
import { TranscriptStore } from "./TranscriptStore.js"

/**
 * Requests are wide (unknown fields); each is read strictly here, so that every way in gives the same errors.
 *
 * @since 0.1.0
 * @category context
 */
export class Sessions extends Context.Tag("@switchyard/core/Sessions")<Sessions, {
  /**
   * Gives a session one message. Answers once it is durable; interrupting the caller then changes nothing. A `signal`
   * that aborts, then or later, aborts the run.
   */
  readonly submit: (
    payload: unknown,
    options?: { readonly authority?: Authority.Authority | undefined; readonly signal?: AbortSignal | undefined }
  ) => Effect.Effect<Accepted, Errors.SubmitError>
  /**
   * Waits until a run settles, at most `timeoutMs` (30 000); 0 answers at once. It does not affect the run, unless
   * `onDisconnect` is `abort`: then a waiter that goes away before the run settled aborts it.
   */
  readonly wait: (request: {
    readonly runId?: unknown
    readonly timeoutMs?: unknown
    readonly onDisconnect?: unknown
  }) => Effect.Effect<WaitResult, Errors.WaitError>
  /** Ends one run, or removes a waiting message. Answers once the wish is durable. */
  readonly abort: (request: { readonly runId?: unknown }) => Effect.Effect<AbortResult, Errors.AbortError>
  /** Ends a session's run, and with `clearQueued` cancels what was submitted before. */
  readonly stop: (request: {
    readonly sessionKey?: unknown
    readonly clearQueued?: unknown
  }) => Effect.Effect<StopResult, Errors.StopError>
  /**
   * Follows a run (ends with its terminal event) or a session (does not end), from a cursor if one is given: first what
   * is kept, then live, with neither gap nor repeat. With `onDisconnect: abort`, a follower of a run that goes away
   * before the run settled aborts it.
   */
  readonly events: (request: {
    readonly runId?: unknown
    readonly sessionKey?: unknown
    readonly after?: unknown
    readonly onDisconnect?: unknown
  }) => Stream.Stream<AgentEvent, Errors.EventsError>
  readonly list: (request: {
    readonly after?: unknown
    readonly limit?: unknown
  }) => Effect.Effect<SessionPage, Errors.ReadError>
  readonly get: (request: { readonly sessionKey?: unknown }) => Effect.Effect<SessionInfo, Errors.ReadError>
  readonly history: (request: {
    readonly sessionKey?: unknown
    readonly after?: unknown
    readonly limit?: unknown
  }) => Effect.Effect<HistoryPage, Errors.ReadError>
  readonly queue: (request: { readonly sessionKey?: unknown }) => Effect.Effect<QueueView, Errors.ReadError>
  /** How many sessions have an actor, and how many runs are active, in this process. */
  readonly counts: Effect.Effect<{ readonly sessions: number; readonly runs: number }>
  /** Opens every session with unsettled work, so that runs of a dead process are closed and waiting messages go on. */
  readonly recover: Effect.Effect<{ readonly sessions: number }, Errors.StoreUnavailable>
  /** Refuses new work from now on, ends active runs (`interrupted`) and waits for them to be settled. */
  readonly drain: Effect.Effect<void>
}>() {}

const historyRows = 50
/** In characters of what the journal holds. */
const maxPageLength = 4 * 1024 * 1024

const maxWaitForDrain = "35 seconds"

/**
 * @since 0.1.0
 * @category constructors
 */
export const make: Effect.Effect<
  Sessions["Type"],
  never,
  SessionHost.SessionHost | TranscriptStore | EventHub.EventHub
> = Effect.gen(function*() {
  const host = yield* SessionHost.SessionHost
  const store = yield* TranscriptStore
  const hub = yield* EventHub.EventHub
  const settings = yield* Settings
  let draining = false
  // messages that are on their way to the journal
  const underway = new Map<RunId, { readonly sessionKey: SessionKey; readonly over: Deferred.Deferred<void> }>()

  const facts = (runId: RunId) => Effect.map(Effect.mapError(store.findRun(runId), unavailable), RunFacts.fromRows)

  // Asks the session's actor. One that dies meanwhile is opened again: what is asked is safe to ask twice.
  const ask = <A, E>(
    session: SessionKey,
    f: (ref: SessionRef) => Effect.Effect<A, E | ActorGone>
  ): Effect.Effect<A, Exclude<E, ActorGone> | Errors.SessionBusy | Errors.StoreUnavailable> => {
    const open = Effect.scoped(Effect.flatMap(host.open(session), f))
    return Effect.flatMap(host.peek(session), (ref) =>
      (Option.isSome(ref) ? f(ref.value) : open).pipe(
        Effect.catchIf(isGone, () => Effect.retry(open, { times: 3, while: isGone })),
        Effect.catchIf(isGone, () =>
          Effect.fail(new Errors.StoreUnavailable({ reason: "the session stopped unexpectedly" })))
      )) as never
  }

  // --- submitting ---

  const resolve = (submission: Submission.Submission) =>
    Effect.gen(function*() {
      const { sessionId, sessionKey } = submission
      if (sessionId === undefined) return sessionKey!
      const found = yield* Effect.mapError(store.findSessionId(sessionId), unavailable)
      if (Option.isNone(found)) {
        return yield* new Errors.InvalidRequest({ field: "sessionId", reason: "there is no session of this id" })
      }
      if (sessionKey !== undefined && sessionKey !== found.value) {
        return yield* new Errors.InvalidRequest({
          field: "sessionId",
          reason: "it belongs to another session than sessionKey names"
        })
      }
      const summary = yield* Effect.mapError(store.session(found.value), unavailable)
      if (Option.isSome(summary) && summary.value.sessionId !== sessionId) {
        return yield* new Errors.SessionRotated({ sessionId, currentSessionId: summary.value.sessionId })
      }
      return found.value
    })

  // The answer for an id that the journal knows: the same again, or a conflict.
  const replay = (runId: RunId, digest: string, authority: string) =>
    Effect.gen(function*() {
      const known = yield* facts(runId)
      if (known === undefined) return undefined
      if (known.accepted?.digest !== digest || known.authority !== authority) {
        return yield* new Errors.IdempotencyConflict({ runId })
      }
      const summary = yield* Effect.mapError(store.session(known.sessionKey), unavailable)
      const sessionId = Option.match(summary, {
        onNone: () => "" as SessionId,
        onSome: (summary) => summary.sessionId
      })
      return RunFacts.replayed(known, sessionId)
    })

  const submit: Sessions["Type"]["submit"] = (payload, options) => {
    const { signal } = options ?? {}
    return signal === undefined
      ? accept(payload, options)
      : Effect.tap(accept(payload, options), ({ runId }) => Effect.forkDaemon(abortOn(signal, runId)))
  }

  const accept: Sessions["Type"]["submit"] = (payload, options) =>
    Effect.gen(function*() {
      const submission = yield* Submission.decode(payload)
      const sessionKey = yield* resolve(submission)
      const authority = options?.authority ?? Authority.owner(submission.sender?.id ?? "local")
      const runId = submission.runId ?? (yield* makeRunId)
      const digest = submissionDigest(sessionKey, submission)
      const authorityDigest = Authority.digest(authority)
      if (submission.runId !== undefined) {
        const known = yield* replay(runId, digest, authorityDigest)
        if (known !== undefined) return known
      }
      if (draining) return yield* new Errors.GatewayDraining({ retryAfterMs: 1_000 })
      const offer: QueuePolicy.Offer = {
        runId,
        text: submission.text,
        attachments: submission.attachments,
        mode: submission.mode ?? "steer",
        route: submission.route ?? null,
        sender: submission.sender ?? null,
        authority,
        settings: { timeoutMs: submission.timeoutMs ?? null, model: submission.model ?? null },
        debounceMs: submission.debounceMs ?? settings.debounceMs,
        clearQueued: submission.clearQueued,
        digest
      }
      const stops = isStop(submission)
      let sessionId = "" as SessionId
      const arrived = underwayAs(runId, sessionKey)
      const reply = yield* ask(sessionKey, (ref): Effect.Effect<QueuePolicy.Reply, SubmitFailure> => {
        // It may have taken a while to open the session.
        if (draining) return Effect.succeed({ _tag: "Draining" })
        sessionId = ref.sessionId
        return stops ?
          ref.stop({ clearQueued: true, command: offer, answered: arrived.answered })
          : ref.submit(offer, arrived.answered)
      }).pipe(
        Effect.catchTag("RunIdTaken", () => Effect.succeed<QueuePolicy.Reply>({ _tag: "Known" })),
        Effect.ensuring(Effect.sync(arrived.left))
      )
      switch (reply._tag) {
        case "Accepted": {
          const { acceptedAt, disposition } = reply
          return { runId, sessionKey, sessionId, acceptedAt, disposition }
        }
        case "Known": {
          const known = yield* replay(runId, digest, authorityDigest)
          if (known !== undefined) return known
          return yield* new Errors.IdempotencyConflict({ runId })
        }
        case "Draining":
          return yield* new Errors.GatewayDraining({ retryAfterMs: 1_000 })
        default:
          return yield* Effect.dieMessage(`Sessions.submit: unexpected reply ${reply._tag}`)
      }
    })

  // A message is underway until its actor answered, whether or not its caller still waits. If it never got to an actor,
  // until its caller leaves.
  const underwayAs = (runId: RunId, sessionKey: SessionKey) => {
    if (underway.has(runId)) return { answered: undefined, left: () => {} }
    const mine = { sessionKey, over: Deferred.unsafeMake<void>(FiberId.none) }
    underway.set(runId, mine)
    const end = () => {
      underway.delete(runId)
      Deferred.unsafeDone(mine.over, Effect.void)
    }
    let asked = false
    return {
      answered: {
        asked: () => {
          asked = true
        },
        done: end
      },
      left: () => {
        if (!asked) end()
      }
    }
  }

  // --- waiting ---

  const resultOf = (runId: RunId) =>
    Effect.gen(function*() {
      const run = yield* facts(runId)
      if (run === undefined) return yield* new Errors.RunNotFound({ runId })
      if (run.settled !== undefined) return RunFacts.waitResult(runId, { ...run, settled: run.settled })
      if (run.into === undefined) return pending(run)
      const into = yield* facts(run.into)
      return into?.settled === undefined
        ? { ...pending(into ?? run), runId, mergedInto: run.into }
        : RunFacts.waitResult(runId, { ...into, settled: into.settled }, run.into)
    })

  const wait: Sessions["Type"]["wait"] = (request) =>
    Effect.gen(function*() {
      const runId = yield* Submission.decodeField("runId", RunId, request.runId)
      const timeoutMs = yield* Submission.decodeField("timeoutMs", Duration, request.timeoutMs ?? 30_000)
      const onDisconnect = yield* onDisconnectOf(request)
      if (timeoutMs === 0) return yield* resultOf(runId)
      // Listening before looking, so that a run that settles in between is not missed.
      const waiting = Effect.scoped(Effect.gen(function*() {
        const heard = yield* Effect.forkScoped(hub.awaitSettled(runId))
        yield* Effect.yieldNow()
        const now = yield* resultOf(runId)
        if (now.settled) return now
        for (let left = timeoutMs; left > 0; left -= maxSleepMs) {
          const result = yield* Effect.timeoutOption(Effect.flatten(heard.await), Math.min(left, maxSleepMs))
          if (Option.isSome(result)) return result.value
        }
        // Another process may have ended it.
        return yield* resultOf(runId)
      }))
      return yield* onDisconnect === "abort" ? Effect.onInterrupt(waiting, () => abandon(runId)) : waiting
    })

  // --- ending early ---

  const abort: Sessions["Type"]["abort"] = (request) =>
    Effect.gen(function*() {
      const runId = yield* Submission.decodeField("runId", RunId, request.runId)
      const run = yield* facts(runId)
      const session = run?.sessionKey ?? underway.get(runId)?.sessionKey
      if (session === undefined) return yield* new Errors.RunNotFound({ runId })
      if (run?.settled !== undefined) return { runId, status: "settled" as const, outcome: run.settled.outcome }
      const reply = yield* ask(session, (ref) => ref.abort(runId)).pipe(takenIsFatal)
      switch (reply._tag) {
        case "Aborting":
          return { runId, status: "aborting" as const }
        case "Cancelled":
          return { runId, status: "cancelled" as const }
        case "Delivering":
          return { runId, status: "delivering" as const }
        case "Merged":
          return yield* new Errors.AlreadyMerged({ runId, into: reply.into })
        default: {
          const later = yield* facts(runId)
          if (later === undefined) return yield* new Errors.RunNotFound({ runId })
          if (later.settled !== undefined) return { runId, status: "settled" as const, outcome: later.settled.outcome }
          if (later.into !== undefined) {
            const into = yield* facts(later.into)
            if (into?.settled !== undefined) return { runId, status: "settled" as const, outcome: "merged" as const }
            return yield* new Errors.AlreadyMerged({ runId, into: later.into })
          }
          return yield* new Errors.StoreUnavailable({
            reason: "another process has this session now",
            retryAfterMs: 1_000
          })
        }
      }
    })

  const onDisconnectOf = (request: { readonly onDisconnect?: unknown }) =>
    Submission.decodeField("onDisconnect", OnDisconnect, request.onDisconnect ?? "continue")

  // Nobody is there any more to be told that the run was over already, or that it cannot be aborted now.
  const abandon = (runId: RunId) =>
    Effect.catchAll(abort({ runId }), (error) => Effect.logDebug(`A run was not aborted: ${error.message}`))

  const abortOn = (signal: AbortSignal, runId: RunId) =>
    Effect.raceFirst(
      Effect.ignore(wait({ runId, timeoutMs: Number.MAX_SAFE_INTEGER })),
      Effect.zipRight(
        Effect.async<void>((resume) => {
          if (signal.aborted) return resume(Effect.void)
          const aborted = () => resume(Effect.void)
          signal.addEventListener("abort", aborted, { once: true })
          return Effect.sync(() => signal.removeEventListener("abort", aborted))
        }),
        abandon(runId)
      )
    )

  const stop: Sessions["Type"]["stop"] = (request) =>
    Effect.gen(function*() {
      const sessionKey = yield* Submission.decodeField("sessionKey", SessionKey, request.sessionKey)
      const clearQueued = yield* Submission.decodeField("clearQueued", Schema.Boolean, request.clearQueued ?? false)
      const active = yield* host.peek(sessionKey)
      if (Option.isNone(active)) yield* summaryOf(sessionKey)
      const reply = yield* ask(sessionKey, (ref) => ref.stop({ clearQueued, command: null })).pipe(takenIsFatal)
      if (reply._tag !== "Stopped") return yield* Effect.dieMessage(`Sessions.stop: unexpected reply ${reply._tag}`)
      return { sessionKey, aborted: reply.aborted, cancelled: reply.cancelled }
    })

  // --- reading ---

  const summaryOf = (sessionKey: SessionKey) =>
    Effect.flatMap(
      Effect.mapError(store.session(sessionKey), unavailable),
      Option.match({
        onNone: () => Effect.fail(new Errors.SessionNotFound({ session: sessionKey })),
        onSome: (summary) => Effect.succeed(summary)
      })
    )

  const keyOf = (request: { readonly sessionKey?: unknown }) =>
    Submission.decodeField("sessionKey", SessionKey, request.sessionKey)
  const limitOf = (request: { readonly limit?: unknown }) =>
    Submission.decodeField("limit", Limit, request.limit ?? 100)

  const list: Sessions["Type"]["list"] = (request) =>
    Effect.gen(function*() {
      const limit = yield* limitOf(request)
      const after = isGiven(request.after)
        ? yield* Submission.decodeField("after", SessionKey, request.after)
        : undefined
      const page = yield* Effect.mapError(store.sessions({ after, limit: limit + 1 }), unavailable)
      const sessions = page.slice(0, limit).map(toInfo)
      return { sessions, next: page.length > limit ? sessions[sessions.length - 1]!.sessionKey : null }
    })

  const history: Sessions["Type"]["history"] = (request) =>
    Effect.gen(function*() {
      const sessionKey = yield* keyOf(request)
      const limit = yield* limitOf(request)
      let after = yield* Submission.decodeField("after", Schema.NonNegativeInt, request.after ?? 0)
      const { sessionId } = yield* summaryOf(sessionKey)
      const page: Array<HistoryPage["messages"][number]> = []
      let length = 0
      while (true) {
        const rows = yield* Effect.mapError(store.read(sessionKey, after, historyRows), unavailable)
        for (const row of rows) {
          after = row.seq
          const message = Transcript.toHistory(row)
          if (message === undefined) continue
          length += row.payload.length
          // A page is bounded by what it weighs, too. It has at least one message.
          if (page.length === limit || (page.length > 0 && length > maxPageLength)) {
            return { sessionKey, sessionId, messages: page, next: page[page.length - 1]!.seq }
          }
          page.push(message)
        }
        if (rows.length < historyRows) return { sessionKey, sessionId, messages: page, next: null }
      }
    })

  const queue: Sessions["Type"]["queue"] = (request) =>
    Effect.gen(function*() {
      const sessionKey = yield* keyOf(request)
      const active = yield* host.peek(sessionKey)
      if (Option.isSome(active)) return yield* active.value.queue
      const { sessionId } = yield* summaryOf(sessionKey)
      const rows = yield* Effect.mapError(store.read(sessionKey, 0), unavailable)
      const session = SessionState.applyAll(SessionState.empty, rows.map(Journal.fromRow), 0)
      return queueView(sessionKey, QueuePolicy.initial(session, sessionId), false)
    })

  // --- following ---

  const events: Sessions["Type"]["events"] = (request) =>
    Stream.unwrap(Effect.gen(function*() {
      const after = isGiven(request.after) ? yield* Submission.decodeField("after", Cursor, request.after) : undefined
      if (!isGiven(request.runId)) {
        if (!isGiven(request.sessionKey)) {
          return yield* new Errors.InvalidRequest({ field: "runId", reason: "name a run or a session to follow" })
        }
        return hub.follow({ sessionKey: yield* keyOf(request), after }, Effect.succeedNone)
      }
      const runId = yield* Submission.decodeField("runId", RunId, request.runId)
      // A message that is on its way may still be refused.
      const before = underway.get(runId)
      if (before !== undefined) yield* Deferred.await(before.over)
      const run = yield* facts(runId)
      if (run === undefined) return yield* new Errors.RunNotFound({ runId })
      const { sessionKey } = run
      const ended = Effect.gen(function*() {
        const result = yield* resultOf(runId)
        if (!result.settled) return Option.none()
        // An actor that has not told of it yet will.
        const actor = yield* host.peek(sessionKey)
        if (Option.isSome(actor) && actor.value.isUnsettled(runId)) return Option.none()
        return Option.some(terminalEvent(sessionKey, result))
      })
      const followed = hub.follow({ sessionKey, runId, after }, ended)
      if ((yield* onDisconnectOf(request)) === "continue") return followed
      let over = false
      return followed.pipe(
        Stream.tap((event) =>
          Effect.sync(() => {
            if (event.runId === runId && isTerminal(event)) over = true
          })
        ),
        Stream.ensuring(Effect.suspend(() => over ? Effect.void : abandon(runId)))
      )
    }))

  // --- the whole process ---

  const recover: Sessions["Type"]["recover"] = Effect.gen(function*() {
    const open = yield* Effect.mapError(store.open, unavailable)
    yield* Effect.forEach(
      open,
      (session) =>
        Effect.scoped(host.open(session)).pipe(
          Effect.catchAll((error) =>
            Effect.zipRight(
              Effect.logWarning(`Session "${session}" could not be opened: ${error.message}; it is tried again`),
              host.keepOpening(session)
            )
          )
        ),
      { concurrency: 16, discard: true }
    )
    return { sessions: open.length }
  })

  const drain: Sessions["Type"]["drain"] = Effect.suspend(() => {
    draining = true
    return host.active
  }).pipe(
    Effect.flatMap((refs) => Effect.forEach(refs, (ref) => ref.drain, { concurrency: "unbounded", discard: true })),
    Effect.timeoutOption(maxWaitForDrain),
    Effect.flatMap(Option.match({
      onNone: () =>
        Effect.logWarning(`Some runs did not end within ${maxWaitForDrain}; they are closed at the next start`),
      onSome: () => Effect.void
    }))
  )

  return Sessions.of({
    submit,
    wait,
    abort,
    stop,
    events,
    list,
    get: (request) => Effect.map(Effect.flatMap(keyOf(request), summaryOf), toInfo),
    history,
    queue,
    counts: Effect.flatMap(host.active, (refs) =>
      Effect.map(
        Effect.filter(refs, (ref) => ref.isRunning),
        (running) => ({ sessions: refs.length, runs: running.length })
      )),
    recover,
    drain
  })
})

/**
 * The front door over a given host.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerHost: Layer.Layer<
  Sessions,
  never,
  SessionHost.SessionHost | TranscriptStore | EventHub.EventHub
> = Layer.effect(Sessions, make)

/**
 * Everything of core in this process: give it a store, a model, tools, hooks, prompts, a delivery and a lock.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer: Layer.Layer<
  Sessions,
  never,
  Exclude<SessionHost.Requirements, EventHub.EventHub | Lanes.Lanes>
> = layerHost.pipe(
  Layer.provide(SessionHost.layerLocal),
  Layer.provide(EventHub.layer),
  Layer.provide(Lanes.layer())
)

// Timers hold at most this many milliseconds.
const maxSleepMs = 2 ** 31 - 1

const Duration = Schema.Number.pipe(
  Schema.filter((value) => Number.isFinite(value) && value >= 0 || "it must be a number of milliseconds, 0 or more")
)
const OnDisconnect = Schema.Literal("continue", "abort")
const Limit = Schema.Int.pipe(Schema.between(1, 1_000))

const isGiven = (value: unknown): boolean => value !== undefined && value !== null

type SubmitFailure = Errors.SessionBusy | Errors.StoreUnavailable | RunIdTaken | ActorGone

const isGone = (error: unknown): error is ActorGone =>
  typeof error === "object" && error !== null && "_tag" in error && error._tag === "ActorGone"

const unavailable = (failure: StoreFailure) => new Errors.StoreUnavailable({ reason: failure.reason })

// Signals that accept no message cannot meet a taken run id.
const takenIsFatal = <A, E>(effect: Effect.Effect<A, E | RunIdTaken>) =>
  Effect.catchIf(
    effect,
    (error): error is RunIdTaken & typeof error =>
      typeof error === "object" && error !== null && "_tag" in error && error._tag === "RunIdTaken",
    (error) => Effect.die(error)
  )

const isStop = (submission: Submission.Submission): boolean =>
  submission.attachments.length === 0 && submission.text.trim() === "/stop"
