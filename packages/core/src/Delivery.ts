/**
 * How replies leave: to a chat, a mailbox, a webhook. Only runs whose message has a route are delivered.
 *
 * @since 0.1.0
 */
import type { RunId, SessionKey } from "@switchyard/protocol/Ids"
import type { Route } from "@switchyard/protocol/Message"
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/**
 * One reply on its way.
 *
 * @since 0.1.0
 * @category models
 */
export interface OutboundMessage {
  readonly sessionKey: SessionKey
  readonly runId: RunId
  readonly route: Route
  readonly text: string
}

/**
 * The channel refused the message for certain: it did not arrive. The run completes, its delivery is `failed`.
 *
 * @since 0.1.0
 * @category errors
 */
export class DeliveryFailed extends Data.TaggedError("DeliveryFailed")<{ readonly reason: string }> {
  override get message() {
    return `The reply was not delivered: ${this.reason}`
  }
}

/**
 * The delivery port. Success means that the channel confirmed. A send that does not answer within 15 s is `unknown`: it
 * is neither sent again nor reported as sent.
 *
 * @since 0.1.0
 * @category context
 */
export class Delivery extends Context.Tag("@switchyard/core/Delivery")<Delivery, {
  readonly send: (message: OutboundMessage) => Effect.Effect<void, DeliveryFailed>
}>() {}

/**
 * What {@link layerMemory} has sent.
 *
 * @since 0.1.0
 * @category context
 */
export class Outbox extends Context.Tag("@switchyard/core/Delivery/Outbox")<Outbox, {
  readonly sent: Effect.Effect<ReadonlyArray<OutboundMessage>>
  /** Runs inside each send before it is confirmed; a gate or a failure for tests and simulations. */
  readonly onSend: (f: (message: OutboundMessage) => Effect.Effect<void, DeliveryFailed>) => Effect.Effect<void>
}>() {}

/**
 * Keeps what is sent in memory, for reading through {@link Outbox}.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerMemory: Layer.Layer<Delivery | Outbox> = Layer.effectContext(Effect.sync(() => {
  const sent: Array<OutboundMessage> = []
  let onSend: (message: OutboundMessage) => Effect.Effect<void, DeliveryFailed> = () => Effect.void
  return Context.make(Delivery, {
    send: (message) =>
      Effect.zipRight(
        Effect.suspend(() => onSend(message)),
        Effect.sync(() => {
          sent.push(message)
        })
      )
  }).pipe(Context.add(Outbox, {
    sent: Effect.sync(() => sent.slice()),
    onSend: (f) =>
      Effect.sync(() => {
        onSend = f
      })
  }))
}))
