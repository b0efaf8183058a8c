/**
 * The calls of a gateway without a gateway: straight into the sessions of this process.
 *
 * @since 0.1.0
 */
import type { FollowTarget } from "@switchyard/client/Client"
import type { Sessions } from "@switchyard/core/Sessions"
import type { AgentEvent } from "@switchyard/protocol/AgentEvent"
import type { EventsError, SubscriberTooSlow } from "@switchyard/protocol/Errors"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { Agent } from "./converse.js"

/** The longest single wait, in ms. Timers of the platform end at 2^31 ms. */
const longestWait = 3_600_000

export const make = (sessions: Sessions["Type"]): Agent => ({
  submit: (message) => sessions.submit(message),
  abort: (runId) => sessions.abort({ runId }),
  waitFor: (runId, options) =>
    Effect.gen(function*() {
      const timeout = options?.timeout === undefined ? Infinity : Duration.toMillis(options.timeout)
      const start = yield* Clock.currentTimeMillis
      let left = timeout
      while (true) {
        const result = yield* sessions.wait({ runId, timeoutMs: Math.min(left, longestWait) })
        left = timeout - ((yield* Clock.currentTimeMillis) - start)
        if (result.settled || left <= 0) return result
      }
    }),
  follow: (target) => follow(sessions, target)
})

/** A terminal may be slower than a model. It then goes on where it was. */
const follow = (
  sessions: Sessions["Type"],
  target: FollowTarget
): Stream.Stream<AgentEvent, Exclude<EventsError, SubscriberTooSlow>> => {
  let after = target.after
  return sessions.events(target).pipe(
    Stream.tap((event) =>
      Effect.sync(() => {
        after = event.cursor
      })
    ),
    Stream.catchAll((error) =>
      error._tag === "SubscriberTooSlow"
        ? follow(sessions, { ...target, after: after ?? error.cursor ?? undefined })
        : Stream.fail(error)
    )
  )
}
