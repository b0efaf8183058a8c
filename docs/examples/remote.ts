import { NodeSocket } from "@effect/platform-node"
import { Client } from "@switchyard/client"
import { Effect, Layer } from "effect"

const ask = (message: string) =>
  Effect.gen(function*() {
    const client = yield* Client.Client
    const { runId } = yield* client.submit({ sessionKey: "first", message })
    const { reply } = yield* client.waitFor(runId)
    return reply
  })

export const program = (url: string) =>
  Effect.provide(
    ask("hello"),
    Layer.provide(Client.layerWebSocket({ url }), NodeSocket.layerWebSocketConstructor)
  )
