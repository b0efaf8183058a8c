/**
 * The calls of the gateway, each one call of `Sessions`.
 *
 * @since 0.1.0
 */
import { Sessions } from "@switchyard/core/Sessions"
import { InvalidRequest } from "@switchyard/protocol/Errors"
import type { Health } from "@switchyard/protocol/Session"
import { SwitchyardRpcs } from "@switchyard/protocol/SwitchyardRpcs"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"

export const layer = (options: {
  readonly maxSubscriptions: number
  readonly health: Effect.Effect<Health>
}) =>
  SwitchyardRpcs.toLayer(Effect.gen(function*() {
    const sessions = yield* Sessions
    const subscriptions = new Map<number, number>()

    const subscribe = (clientId: number): Effect.Effect<void, InvalidRequest> =>
      Effect.suspend(() => {
        const count = subscriptions.get(clientId) ?? 0
        if (count >= options.maxSubscriptions) {
          return new InvalidRequest({
            field: "subscriptions",
            reason: `this connection already follows ${count} event streams; end one, or open another connection`
          })
        }
        subscriptions.set(clientId, count + 1)
        return Effect.void
      })

    const unsubscribe = (clientId: number): Effect.Effect<void> =>
      Effect.sync(() => {
        const count = (subscriptions.get(clientId) ?? 1) - 1
        if (count === 0) subscriptions.delete(clientId)
        else subscriptions.set(clientId, count)
      })

    return SwitchyardRpcs.of({
      "agent": (payload) => sessions.submit(payload),
      "agent.wait": (payload) => sessions.wait(payload),
      "agent.abort": (payload) => sessions.abort(payload),
      "agent.events": (payload, { clientId }) =>
        Stream.unwrapScoped(
          Effect.as(
            Effect.acquireRelease(subscribe(clientId), () => unsubscribe(clientId)),
            sessions.events(payload)
          )
        ),
      "sessions.list": (payload) => sessions.list(payload),
      "sessions.get": (payload) => sessions.get(payload),
      "sessions.history": (payload) => sessions.history(payload),
      "sessions.abort": (payload) => sessions.stop(payload),
      "queue.get": (payload) => sessions.queue(payload),
      "health": () => options.health
    })
  }))
