/**
 * Where the actors of sessions live: opened when first needed, kept while they work, passivated when idle.
 *
 * @since 0.1.0
 */
import { type SessionBusy, StoreUnavailable } from "@switchyard/protocol/Errors"
import type { SessionKey } from "@switchyard/protocol/Ids"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as RcMap from "effect/RcMap"
import * as Runtime from "effect/Runtime"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import { Delivery } from "./Delivery.js"
import { EventHub } from "./EventHub.js"
import { Hooks } from "./Hooks.js"
import { Lanes } from "./Lanes.js"
import { Model } from "./Model.js"
import { Prompts } from "./Prompts.js"
import * as SessionActor from "./SessionActor.js"
import type { SessionRef } from "./SessionRef.js"
import { SessionWriteLock } from "./SessionWriteLock.js"
import { Settings } from "./Settings.js"
import { Tools } from "./Tools.js"
import { TranscriptStore } from "./TranscriptStore.js"

/**
 * @since 0.1.0
 * @category context
 */
export class SessionHost extends Context.Tag("@switchyard/core/SessionHost")<SessionHost, {
  /** The session's actor, activated if need be, and kept at least until the scope closes. */
  readonly open: (
    session: SessionKey
  ) => Effect.Effect<SessionRef, SessionBusy | StoreUnavailable, Scope.Scope>
  /** Opens a session in the background if it has unfinished work, and tries again until that succeeds. */
  readonly keepOpening: (session: SessionKey) => Effect.Effect<void>
  /** The session's actor if it has one now. */
  readonly peek: (session: SessionKey) => Effect.Effect<Option.Option<SessionRef>>
  /** All actors that live now. */
  readonly active: Effect.Effect<ReadonlyArray<SessionRef>>
}>() {}

/**
 * What the layers of this module need.
 *
 * @since 0.1.0
 * @category context
 */
export type Requirements =
  | TranscriptStore
  | Model
  | Tools
  | Hooks
  | Prompts
  | Delivery
  | SessionWriteLock
  | EventHub
  | Lanes

// 0.5, 1, 2, 4, 8, then every 10 s, each a little different so that many do not come at once
const openAgain = Schedule.exponential("500 millis").pipe(
  Schedule.union(Schedule.spaced("10 seconds")),
  Schedule.jittered
)
const maxDefects = 3
const defectWindowMs = 300_000

/**
 * @since 0.1.0
 * @category constructors
 */
export const makeLocal: Effect.Effect<SessionHost["Type"], never, Requirements | Scope.Scope> = Effect.gen(function*() {
  const settings = yield* Settings
  const runtime = yield* Effect.runtime<never>()
  const clock = yield* Effect.clock
  const dependencies = {
    services: {
      settings,
      model: yield* Model,
      tools: yield* Tools,
      hooks: yield* Hooks,
      prompts: yield* Prompts,
      delivery: yield* Delivery,
      lanes: yield* Lanes
    },
    store: yield* TranscriptStore,
    hub: yield* EventHub,
    lock: yield* SessionWriteLock
  }

  // A slot names one life of a session in the map, so that a late release of a dead actor cannot touch its successor.
  interface Slot {
    readonly session: SessionKey
    /** The map makes a second entry if two ask at once for one that is not there. */
    readonly one: Effect.Semaphore
  }
  const slots = new Map<SessionKey, Slot>()
  const refs = new Map<SessionKey, SessionRef>()
  const defects = new Map<SessionKey, Array<number>>()
  // A successor waits here until the finalizers of its predecessor are done.
  const gates = new Map<SessionKey, { readonly semaphore: Effect.Semaphore; users: number }>()

  const enter = (session: SessionKey) =>
    Effect.acquireRelease(
      Effect.suspend(() => {
        const gate = gates.get(session) ?? { semaphore: Effect.unsafeMakeSemaphore(1), users: 0 }
        gates.set(session, gate)
        gate.users += 1
        return Effect.as(
          Effect.onInterrupt(Effect.interruptible(gate.semaphore.take(1)), () => Effect.sync(() => leaveGate(session))),
          gate
        )
      }),
      (gate) => Effect.zipRight(gate.semaphore.release(1), Effect.sync(() => leaveGate(session)))
    )
  const leaveGate = (session: SessionKey) => {
    const gate = gates.get(session)
    if (gate === undefined) return
    gate.users -= 1
    if (gate.users === 0) gates.delete(session)
  }

  const recentDefects = (session: SessionKey) => {
    const since = clock.unsafeCurrentTimeMillis() - defectWindowMs
    const recent = (defects.get(session) ?? []).filter((at) => at > since)
    if (recent.length === 0) defects.delete(session)
    else defects.set(session, recent)
    return recent
  }

  const activate = (slot: Slot): Effect.Effect<SessionRef, SessionBusy | StoreUnavailable, Scope.Scope> =>
    Effect.gen(function*() {
      const { session } = slot
      yield* enter(session)
      const recent = recentDefects(session)
      if (recent.length > maxDefects) {
        return yield* new StoreUnavailable({
          reason:
            `session "${session}" failed ${recent.length} times in the last 5 minutes and rests; its log has the details`,
          retryAfterMs: defectWindowMs
        })
      }
      const ref = yield* SessionActor.make(session, {
        ...dependencies,
        recoverAs: recent.length > 0 ? "failed" : "interrupted",
        // There is nothing to hold once the map has let go of it.
        hold: Effect.flatMap(RcMap.has(map, slot), (has) => has ? Effect.ignore(RcMap.get(map, slot)) : Effect.void),
        died: (reason) =>
          Effect.suspend(() => {
            if (reason === "superseded") return Effect.zipRight(bury(slot), keepOpening(session))
            defects.set(session, [...(defects.get(session) ?? []), clock.unsafeCurrentTimeMillis()])
            // What it left open is closed, and what waits goes on, without waiting for the next message.
            return Effect.zipRight(bury(slot), keepOpening(session))
          })
      })
      refs.set(session, ref)
      yield* Effect.addFinalizer(() =>
        Effect.map(RcMap.has(map, slot), (reused) => {
          if (refs.get(session) === ref) refs.delete(session)
          if (!reused && slots.get(session) === slot) slots.delete(session)
        })
      )
      return ref
    })

  // An activation runs with the host's context, not with that of whoever happened to ask first.
  const inHost = (slot: Slot) =>
    Effect.flatMap(Effect.scope, (scope) =>
      Effect.async<SessionRef, SessionBusy | StoreUnavailable>((resume) => {
        const fiber = Runtime.runFork(runtime)(Scope.extend(activate(slot), scope))
        fiber.addObserver((exit) => resume(exit))
        return fiber.interruptAsFork(fiber.id())
      }))

  // An actor holds itself until it has rested long enough, so the map need not keep time.
  const map = yield* RcMap.make({ lookup: inHost })

  const bury = (slot: Slot) =>
    Effect.suspend(() => {
      if (slots.get(slot.session) === slot) slots.delete(slot.session)
      return Effect.asVoid(Effect.forkDaemon(RcMap.invalidate(map, slot)))
    })

  const open = (
    session: SessionKey
  ): Effect.Effect<SessionRef, SessionBusy | StoreUnavailable, Scope.Scope> =>
    Effect.suspend(() => {
      const slot = slots.get(session) ?? { session, one: Effect.unsafeMakeSemaphore(1) }
      slots.set(session, slot)
      // The map keeps failed lookups; the next caller is to try anew.
      return Effect.tapErrorCause(slot.one.withPermits(1)(RcMap.get(map, slot)), () => bury(slot))
    })

  const hostScope = yield* Effect.scope
  const opening = new Set<SessionKey>()
  // Opens a session in the background, and tries until it is open or has nothing left to do.
  const keepOpening = (session: SessionKey): Effect.Effect<void> =>
    Effect.suspend(() => {
      if (opening.has(session)) return Effect.void
      opening.add(session)
      const attempt = Effect.gen(function*() {
        const summary = yield* dependencies.store.session(session)
        if (Option.isNone(summary) || (summary.value.waiting === 0 && summary.value.activeRun === null)) return
        yield* Effect.scoped(open(session))
      })
      return attempt.pipe(
        Effect.tapError((error) => Effect.logWarning(`Session "${session}" could not be opened: ${error.message}`)),
        Effect.retry(openAgain),
        Effect.ensuring(Effect.sync(() => opening.delete(session))),
        Effect.annotateLogs({ module: "SessionHost", fiber: "keepOpening" }),
        // it may be asked for from where nothing can be interrupted, as a dying actor is
        Effect.interruptible,
        Effect.forkIn(hostScope),
        Effect.asVoid
      )
    })

  return SessionHost.of({
    open,
    keepOpening,
    peek: (session) => Effect.sync(() => Option.fromNullable(refs.get(session))),
    active: Effect.sync(() => Array.from(refs.values()))
  })
})

/**
 * Actors in this process, over whatever store is provided.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerLocal: Layer.Layer<SessionHost, never, Requirements> = Layer.scoped(SessionHost, makeLocal)
