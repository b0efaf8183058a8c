/**
 * `switchyard agent`: one message to a session, here or in a gateway.
 *
 * @since 0.1.0
 */
import type { Message } from "@switchyard/client/Client"
import type { QueueMode } from "@switchyard/protocol/Submission"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { commandName } from "./commandName.js"
import { type Agent, converse } from "./converse.js"
import { refused } from "./failure.js"
import { orHandOver } from "./handOver.js"
import type { Embedded } from "./options.js"
import { setAnswering } from "./process.js"
import { withClient } from "./remote.js"
import { check } from "./submission.js"
import * as Terminal from "./terminal.js"

export interface AgentOptions extends Embedded {
  readonly message: string
  readonly session: string
  readonly mode: Option.Option<QueueMode>
  readonly id: Option.Option<string>
  readonly url: Option.Option<string>
  readonly local: boolean
  readonly noWait: boolean
  readonly json: boolean
  readonly timeout: Option.Option<Duration.Duration>
}

export const agent = (options: AgentOptions) => {
  const message: Message = {
    sessionKey: options.session,
    message: options.message,
    mode: Option.getOrUndefined(options.mode),
    idempotencyKey: Option.getOrUndefined(options.id)
  }
  const timeout = Option.getOrUndefined(options.timeout)
  let run: string | undefined
  const talk = (agent: Agent) =>
    converse(agent, message, {
      json: options.json,
      wait: !options.noWait,
      timeout,
      onRun: (runId) => {
        run = runId
        setAnswering(runId !== undefined)
      }
    })

  if (!options.local) {
    return Effect.onInterrupt(
      Effect.zipRight(check(message), withClient(options.url, talk)),
      () =>
        run === undefined ? Effect.void : Terminal.note(
          `\nThe run goes on; \`${commandName()} wait ${run}\` waits for it, ` +
            `\`${commandName()} abort ${run}\` ends it.`
        )
    )
  }
  if (options.noWait) {
    return Effect.fail(refused("--no-wait needs a gateway: with --local the run would end with this command."))
  }
  const here = Effect.gen(function*() {
    yield* check(message)
    const { configOf, layerServed } = yield* Effect.promise(() => import("./embed.js"))
    const { Sessions } = yield* Effect.promise(() => import("@switchyard/core/Sessions"))
    const { layerEmbedded } = yield* Effect.promise(() => import("../Runtime.js"))
    const Local = yield* Effect.promise(() => import("./local.js"))
    const config = yield* configOf(options)
    return yield* Effect.provide(
      Effect.flatMap(Sessions, (sessions) => talk(Local.make(sessions))),
      Option.isSome(options.port) ? layerServed(config, options) : layerEmbedded(config)
    )
  })
  return orHandOver(here, options.url, talk)
}
