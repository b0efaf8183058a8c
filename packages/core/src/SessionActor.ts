/**
 * One activation of a session: a fiber that owns the session for as long as it lives.
 *
 * Messages come through a bounded mailbox that refuses at once; signals (abort, stop, drain) come through a control port
 * that is read first; the active run asks for its boundaries and reports its end. Each is one step of `QueuePolicy`.
 * What a step decides is committed by the one appender, one append in flight; only then is anyone answered and any run
 * started. The one exception: an abort interrupts its run at once.
 *
 * @since 0.1.0
 */
import type { SessionBusy } from "@switchyard/protocol/Errors"
import { StoreUnavailable } from "@switchyard/protocol/Errors"
import type { SessionId, SessionKey } from "@switchyard/protocol/Ids"
import * as Ids from "@switchyard/protocol/Ids"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { Actor, type Dependencies } from "./internal/actor.js"
import type { SessionRef } from "./SessionRef.js"

/**
 * Activates a session: takes its lock, reads its journal, closes what a dead owner left open, and begins to work. The
 * actor lives until the scope closes.
 *
 * Fails with {@link SessionBusy} if another living process owns the session, and with {@link StoreUnavailable} if its
 * journal cannot be read.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (
  key: SessionKey,
  deps: Dependencies
): Effect.Effect<SessionRef, SessionBusy | StoreUnavailable, Scope.Scope> =>
  Effect.gen(function*() {
    yield* deps.lock.acquire(key)
    const rows = yield* Effect.mapError(
      deps.store.read(key, 0),
      (failure) => new StoreUnavailable({ reason: failure.reason })
    )
    const activation = yield* Ids.uuid
    const freshId = (yield* Ids.uuid) as SessionId
    const clock = yield* Effect.clock
    const actor = new Actor({ key, deps, clock, activation, freshId, rows })
    yield* Effect.addFinalizer(() => Effect.sync(() => actor.close()))
    yield* actor.work.pipe(
      Effect.annotateLogs({ module: "SessionActor", fiber: "actor", session: key }),
      Effect.forkScoped
    )
    return actor.ref
  })
