import * as Socket from "@effect/platform/Socket"
import * as NodeSocket from "@effect/platform-node/NodeSocket"
import * as Client from "@switchyard/client/Client"
import type { Sessions } from "@switchyard/core/Sessions"
import * as Gateway from "@switchyard/gateway/Gateway"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { fakeSessions } from "./fakeSessions.js"

/** A gateway over given `Sessions`, on a port of its own unless one is given. */
export const startGateway = (given: Partial<Sessions["Type"]>, port = 0) =>
  Effect.map(
    Layer.build(
      Layer.provide(Gateway.layer({ port, closeTimeout: Duration.millis(50) }), fakeSessions(given))
    ),
    Context.get(Gateway.Gateway)
  )

/** A client of which `cut` breaks every connection without a word, as a network does. */
export const startClient = (config: Partial<Client.ClientConfig>) =>
  Effect.gen(function*() {
    const open = new Set<globalThis.WebSocket>()
    let connections = 0
    const context = yield* Layer.build(
      Client.layerWebSocket(config).pipe(
        Layer.provide(Layer.effect(
          Socket.WebSocketConstructor,
          Effect.map(Socket.WebSocketConstructor, (construct) => (url: string) => {
            const socket = construct(url)
            connections++
            open.add(socket)
            socket.addEventListener("close", () => open.delete(socket))
            return socket
          })
        )),
        Layer.provide(NodeSocket.layerWebSocketConstructor)
      )
    )
    return {
      client: Context.get(context, Client.Client),
      connections: () => connections,
      cut: Effect.sync(() => {
        for (const socket of open) (socket as unknown as { terminate: () => void }).terminate()
      })
    }
  })
