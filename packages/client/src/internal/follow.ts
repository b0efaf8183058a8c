/**
 * Following events across cut connections.
 *
 * @since 0.1.0
 */
import type * as RpcClient from "@effect/rpc/RpcClient"
import type { RpcClientError } from "@effect/rpc/RpcClientError"
import type * as RpcGroup from "@effect/rpc/RpcGroup"
import type { AgentEvent } from "@switchyard/protocol/AgentEvent"
import { isTerminal } from "@switchyard/protocol/AgentEvent"
import type * as Errors from "@switchyard/protocol/Errors"
import type { SwitchyardRpcs } from "@switchyard/protocol/SwitchyardRpcs"
import * as Cause from "effect/Cause"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import type * as Mailbox from "effect/Mailbox"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { FollowError, FollowTarget, GatewayUnreachable } from "../Client.js"
import { isCut, monotonic } from "./cut.js"

/** An attempt to follow that lasted so long, in ms, was no trouble. */
const healthy = 5_000

export type Rpcs = RpcClient.RpcClient.Flat<RpcGroup.Rpcs<typeof SwitchyardRpcs>, RpcClientError>

/**
 * Pulls from one subscription after another, each beginning where the last one was cut. Each lives in a scope of its own,
 * so a thousand cuts cost no more than one.
 */
export const follow = (
  rpc: Rpcs,
  connected: (troubled: number | undefined) => Effect.Effect<void, GatewayUnreachable>,
  target: FollowTarget
): Stream.Stream<AgentEvent, FollowError> =>
  Stream.fromPull(Effect.map(Effect.scope, (scope) => {
    let after = target.after
    const own = "runId" in target ? target.runId : undefined
    let ended = false
    let troubled: number | undefined
    let current: {
      readonly since: number
      readonly scope: Scope.CloseableScope
      readonly events: Mailbox.ReadonlyMailbox<AgentEvent, Errors.EventsError | RpcClientError>
    } | undefined

    const subscribe = Effect.gen(function*() {
      yield* connected(troubled)
      const child = yield* Scope.fork(scope, ExecutionStrategy.sequential)
      const events = yield* Scope.extend(rpc("agent.events", { ...target, after }, { asMailbox: true }), child)
      return current = { since: yield* monotonic, scope: child, events }
    })

    const unsubscribe = (exit: Exit.Exit<unknown, unknown>) =>
      Effect.suspend(() => {
        if (current === undefined) return Effect.void
        const { scope, since } = current
        current = undefined
        return Effect.zipRight(
          Scope.close(scope, exit),
          Effect.map(monotonic, (now) => {
            if (now - since >= healthy) troubled = undefined
            troubled ??= now
          })
        )
      })

    /** Takes what is new, up to the end of the followed run. */
    const accept = (events: Chunk.Chunk<AgentEvent>): Chunk.Chunk<AgentEvent> => {
      const accepted: Array<AgentEvent> = []
      for (const event of events) {
        accepted.push(event)
        after = event.cursor
        troubled = undefined
        // The gateway may not have ended the subscription before a cut: asking again would repeat this event.
        if (own !== undefined && event.runId === own && isTerminal(event)) {
          ended = true
          break
        }
      }
      return Chunk.unsafeFromArray(accepted)
    }

    return Effect.gen(function*() {
      while (!ended) {
        const { events } = current ?? (yield* Effect.mapError(subscribe, Option.some))
        const exit = yield* Effect.exit(events.takeAll)
        if (Exit.isSuccess(exit)) {
          const [chunk, done] = exit.value
          const accepted = accept(chunk)
          if (done) ended = true
          if (ended) yield* unsubscribe(Exit.void)
          if (Chunk.isNonEmpty(accepted)) return accepted
        } else {
          yield* unsubscribe(exit)
          if (isCut(exit)) continue
          const error = Option.getOrUndefined(Cause.failureOption(exit.cause)) as Errors.EventsError | undefined
          if (error === undefined) return yield* Effect.failCause(exit.cause as Cause.Cause<never>)
          if (error._tag !== "SubscriberTooSlow") return yield* Effect.fail(Option.some(error))
          // What was buffered has been taken by now, so our own cursor is the newer one.
          after ??= error.cursor ?? undefined
        }
      }
      return yield* Effect.fail(Option.none<FollowError>())
    })
  }))
