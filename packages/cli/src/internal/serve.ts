/**
 * `switchyard up` and `switchyard gateway`.
 *
 * @since 0.1.0
 */
import { Model } from "@switchyard/core/Model"
import { Sessions } from "@switchyard/core/Sessions"
import { Gateway } from "@switchyard/gateway/Gateway"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { resolve } from "node:path"
import type { EmbeddedConfig } from "../Runtime.js"
import { chat } from "./chat.js"
import { commandName } from "./commandName.js"
import { type Agent, converse } from "./converse.js"
import { configOf, layerServed } from "./embed.js"
import { orHandOver } from "./handOver.js"
import * as Local from "./local.js"
import type { Embedded } from "./options.js"
import { setAnswering } from "./process.js"
import { check, checkSession } from "./submission.js"
import * as Terminal from "./terminal.js"

/** Serves until it is told to stop. */
export const gateway = (options: Embedded) =>
  Effect.flatMap(configOf(options), (config) =>
    Effect.provide(
      Effect.zipRight(Effect.flatMap(banner(config), Terminal.line), Effect.never),
      layerServed(config, options)
    ))

export const up = (options: Embedded & { readonly message: Option.Option<string>; readonly session: string }) =>
  Effect.flatMap(configOf(options), (config) => {
    const { message } = options
    if (Option.isSome(message)) {
      const submission = { sessionKey: options.session, message: message.value }
      const talk = (agent: Agent) =>
        converse(agent, submission, {
          json: false,
          wait: true,
          timeout: undefined,
          onRun: (runId) => setAnswering(runId !== undefined)
        })
      const served = layerServed(
        config,
        options,
        ({ port }) => Terminal.note(`Port ${port} is in use, so this one listens on another.`)
      )
      const here = Effect.provide(Effect.flatMap(Sessions, (sessions) => talk(Local.make(sessions))), served)
      return Effect.zipRight(check(submission), orHandOver(here, Option.none(), talk))
    }
    const conversation = Effect.provide(
      Effect.gen(function*() {
        yield* Terminal.line(yield* banner(config))
        if (!Terminal.isInteractive()) return yield* Effect.never
        const sessions = yield* Sessions
        yield* chat(Local.make(sessions), options.session)
      }),
      layerServed(config, options)
    )
    return Effect.zipRight(checkSession(options.session), conversation)
  })

const banner = (config: EmbeddedConfig) =>
  Effect.gen(function*() {
    const gateway = yield* Gateway
    const model = yield* Model
    const command = commandName()
    const at = gateway.port === 7420 ? "" : `--url ${gateway.url} `
    return [
      `${Terminal.bold("Switchyard")} listens on ${gateway.url}`,
      "",
      `  state      ${resolve(config.stateDir)}`,
      `  workspace  ${resolve(config.workspace)}`,
      `  model      ${model.name}${
        model.name === "offline" ? " (no provider needed; it knows a few fixed requests)" : ""
      }`,
      "",
      "Try, in another terminal:",
      "",
      `  ${command} agent ${at}--message "how many words are in README.md?"`,
      `  ${command} sessions list ${at}`.trimEnd(),
      `  curl ${gateway.url.replace(/^ws/, "http").replace(/\/rpc$/, "/health")}`,
      ""
    ].join("\n")
  })
