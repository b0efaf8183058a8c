/**
 * Keeps two processes from working on one session at once. It spares honest processes the trouble; correctness rests on
 * the fence of the store.
 *
 * @since 0.1.0
 */
import { SessionBusy, type StoreUnavailable } from "@switchyard/protocol/Errors"
import type { SessionKey } from "@switchyard/protocol/Ids"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"

/**
 * @since 0.1.0
 * @category context
 */
export class SessionWriteLock extends Context.Tag("@switchyard/core/SessionWriteLock")<SessionWriteLock, {
  /**
   * Takes the lock until the scope closes. Fails at once with {@link SessionBusy}, naming the holder, if a living
   * process has it, and with {@link StoreUnavailable} if locks cannot be taken at all (a full disk, a lost folder).
   */
  readonly acquire: (session: SessionKey) => Effect.Effect<void, SessionBusy | StoreUnavailable, Scope.Scope>
}>() {}

/**
 * A lock within this process.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerMemory: Layer.Layer<SessionWriteLock> = Layer.sync(SessionWriteLock, () => {
  const held = new Map<SessionKey, number>()
  return {
    acquire: (session) =>
      Effect.acquireRelease(
        Effect.clockWith((clock) =>
          Effect.suspend(() => {
            const since = held.get(session)
            if (since !== undefined) {
              return new SessionBusy({
                sessionKey: session,
                reason: { _tag: "Owner", pid: 0, host: "this process", since }
              })
            }
            held.set(session, clock.unsafeCurrentTimeMillis())
            return Effect.void
          })
        ),
        () => Effect.sync(() => held.delete(session))
      )
  }
})
