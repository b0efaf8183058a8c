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
        hold: Effect.ignore(RcMap.get(map, slot)), // there is nothing to hold in a map that is closing
        died: (reason) =>
          Effect.suspend(() => {
            if (reason === "superseded") return bury(slot)
            defects.set(session, [...(defects.get(session) ?? []), clock.unsafeCurrentTimeMillis()])
            // What it left open is closed, and what waits goes on, without waiting for the next message.
            const rebuild = Effect.scoped(open(session)).pipe(
              Effect.catchAll((error) => Effect.logWarning(`Session "${session}" was not rebuilt: ${error.message}`))
            )
            return Effect.zipRight(bury(slot), Effect.asVoid(Effect.forkDaemon(rebuild)))
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
      const slot = slots.get(session) ?? { session }
      slots.set(session, slot)
      // The map keeps failed lookups; the next caller is to try anew.
      return Effect.tapErrorCause(RcMap.get(map, slot), () => bury(slot))
    })

  return SessionHost.of({
    open,
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
