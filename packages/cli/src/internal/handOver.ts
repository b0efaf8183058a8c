/**
 * What to do when a session belongs to another process: if that is the gateway, the message is for it.
 *
 * @since 0.1.0
 */
import type { SessionBusy } from "@switchyard/protocol/Errors"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type { Agent } from "./converse.js"
import { withClient } from "./remote.js"
import * as Terminal from "./terminal.js"

const isOwnedElsewhere = (error: unknown): error is SessionBusy =>
  typeof error === "object" && error !== null && (error as { readonly _tag?: string })._tag === "SessionBusy" &&
  (error as SessionBusy).reason._tag === "Owner"

/**
 * Talks to the sessions of this process, and to the gateway at `url` if that owns the session.
 */
export const orHandOver = <E, R, E2, R2>(
  here: Effect.Effect<void, E, R>,
  url: Option.Option<string>,
  talk: (agent: Agent) => Effect.Effect<void, E2, R2>
) =>
  Effect.catchIf(here, isOwnedElsewhere, (busy) =>
    withClient(
      url,
      (client) =>
        Effect.gen(function*() {
          const health = yield* Effect.mapError(client.health, () => busy)
          if (busy.reason._tag !== "Owner" || health.pid !== busy.reason.pid) return yield* busy
          yield* Terminal.note(Terminal.dim("A gateway has this session; it gets the message."))
          yield* talk(client)
        }),
      { connectTimeout: Duration.millis(500) }
    ))
