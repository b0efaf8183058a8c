/**
 * A Switchyard in this process, set up by options.
 *
 * @since 0.1.0
 */
import * as Gateway from "@switchyard/gateway/Gateway"
import { InvalidConfig } from "@switchyard/protocol/Errors"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { isIPv4 } from "node:net"
import { homedir } from "node:os"
import { isAbsolute, join } from "node:path"
import { type EmbeddedConfig, layerEmbedded } from "../Runtime.js"
import type { Embedded } from "./options.js"

/** The folder for state that the XDG Base Directory Specification names. A relative XDG_STATE_HOME is to be ignored. */
const defaultStateDir = Effect.map(
  Effect.orElseSucceed(Config.option(Config.string("XDG_STATE_HOME")), Option.none),
  (given) =>
    join(Option.getOrElse(Option.filter(given, isAbsolute), () => join(homedir(), ".local", "state")), "switchyard")
)

/** What the options come to. */
export const configOf = (options: Embedded): Effect.Effect<EmbeddedConfig> =>
  Effect.map(
    Option.match(options.stateDir, { onNone: () => defaultStateDir, onSome: Effect.succeed }),
    (stateDir) => ({ stateDir, workspace: options.workspace, model: options.model })
  )

/** As the gateway decides, but before anything is made for it. */
const checkHost = (host: string): Effect.Effect<void, InvalidConfig> =>
  /^(localhost|\[::1\]|::1)$/i.test(host) || (isIPv4(host) && host.startsWith("127."))
    ? Effect.void
    : new InvalidConfig({
      key: "host",
      value: JSON.stringify(host),
      reason: "the gateway has no access tokens yet, so it listens on this machine only; use 127.0.0.1"
    })

/**
 * A gateway over it. If its usual port is taken, and no other was asked for, `onPortInUse` decides whether to take any.
 */
export const layerServed = (
  config: EmbeddedConfig,
  options: Embedded,
  onPortInUse?: ((error: Gateway.PortInUse) => Effect.Effect<void>) | undefined
) => {
  const { host } = options
  const gateway = Option.match(options.port, {
    onSome: (port) => Gateway.layer({ host, port }),
    onNone: () =>
      onPortInUse === undefined ?
        Gateway.layer({ host }) :
        Layer.catchAll(Gateway.layer({ host }), (error) =>
          error._tag === "PortInUse"
            ? Layer.provideMerge(Gateway.layer({ host, port: 0 }), Layer.effectDiscard(onPortInUse(error)))
            : Layer.fail(error))
  })
  return Layer.unwrapEffect(Effect.as(checkHost(host), Layer.provideMerge(gateway, layerEmbedded(config))))
}
