/**
 * The WebSocket side of the RPC server: which connections there are, what each may cost, and how each ends.
 *
 * @since 0.1.0
 */
import * as Socket from "@effect/platform/Socket"
import type { FromClientEncoded, FromServerEncoded } from "@effect/rpc/RpcMessage"
import * as RpcServer from "@effect/rpc/RpcServer"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Mailbox from "effect/Mailbox"
import type * as WS from "ws"
import { FrameRefused, makeReader } from "./frames.js"

/**
 * What one connection may cost.
 */
export interface Limits {
  readonly maxMessageBytes: number
  readonly maxAttachmentMessageBytes: number
  readonly maxCalls: number
  readonly maxBufferedBytes: number
}

export interface Connections {
  readonly protocol: RpcServer.Protocol["Type"]
  /** Serves one accepted WebSocket until it closes. Whatever the peer sends, it never fails. */
  readonly serve: (ws: WS.WebSocket) => Effect.Effect<void>
  readonly count: Effect.Effect<number>
  /** Waits until every call of every connection has been answered. */
  readonly awaitAnswered: Effect.Effect<void>
  /** Says goodbye to every connection (close code 1001). */
  readonly closeAll: Effect.Effect<void>
}

interface Connection {
  readonly ws: WS.WebSocket
  /** Ids of calls that have not been answered yet. */
  readonly open: Set<string>
}

/**
 * `isCall` tells which calls exist. One that does not is answered alone, as the RPC server would fail every call of its
 * connection instead.
 */
export const make = (limits: Limits, isCall: (tag: string) => boolean): Effect.Effect<Connections> =>
  Effect.gen(function*() {
    const disconnects = yield* Mailbox.make<number>()
    const connections = new Map<number, Connection>()
    const answered = Effect.unsafeMakeLatch(true)
    let unanswered = 0
    let lastId = 0
    let receive!: (clientId: number, message: FromClientEncoded) => Effect.Effect<void>

    const onAnswered = (count: number): void => {
      unanswered -= count
      if (unanswered === 0) answered.unsafeOpen()
    }

    const send = (connection: Connection, response: FromServerEncoded): void => {
      const { ws } = connection
      if (ws.readyState !== ws.OPEN) return
      const text = encode(response)
      if (text === undefined) return
      // A peer that asks and does not read is let go before it fills the memory; it may come back and ask again.
      if (ws.bufferedAmount + text.length > limits.maxBufferedBytes) return ws.terminate()
      ws.send(text)
      if (response._tag === "Exit" && connection.open.delete(response.requestId)) onAnswered(1)
    }

    const protocol = yield* RpcServer.Protocol.make((receive_) => {
      receive = receive_
      return Effect.succeed({
        disconnects,
        send: (clientId, response) =>
          Effect.sync(() => {
            const connection = connections.get(clientId)
            if (connection !== undefined) send(connection, response)
          }),
        end: () => Effect.void,
        clientIds: Effect.sync(() => new Set(connections.keys())),
        initialMessage: Effect.succeedNone,
        supportsAck: true,
        supportsTransferables: false,
        supportsSpanPropagation: true
      })
    })

    const onMessage = (
      id: number,
      connection: Connection,
      message: FromClientEncoded
    ): Effect.Effect<void, FrameRefused> => {
      if (message._tag !== "Request") return receive(id, message)
      if (connection.open.size >= limits.maxCalls) {
        return new FrameRefused({ code: 1008, reason: `more than ${limits.maxCalls} calls at once` })
      }
      if (!isCall(message.tag)) {
        return Effect.sync(() => send(connection, unknownCall(message.id, message.tag)))
      }
      // A second call under an open id waits for the first, in the RPC server.
      if (!connection.open.has(message.id)) {
        connection.open.add(message.id)
        unanswered++
        answered.unsafeClose()
      }
      return receive(id, message)
    }

    const serve = (ws: WS.WebSocket): Effect.Effect<void> => {
      const id = lastId++
      const connection: Connection = { ws, open: new Set() }
      const read = makeReader(limits)
      let refused = false
      return Effect.acquireUseRelease(
        Effect.sync(() => {
          connections.set(id, connection)
          // Errors arrive through `runRaw` while it runs; one that comes later must not end the process.
          ws.on("error", () => {})
        }),
        () =>
          Effect.flatMap(
            Socket.fromWebSocket(Effect.succeed(ws as unknown as globalThis.WebSocket)),
            (socket) =>
              socket.runRaw((data) => {
                if (refused) return
                const messages = read(data)
                if (Either.isLeft(messages)) {
                  refused = true
                  return messages.left
                }
                return Effect.forEach(messages.right, (message) => onMessage(id, connection, message), {
                  discard: true
                })
              })
          ).pipe(
            Effect.catchTags({
              FrameRefused: ({ code, reason }) => Effect.sync(() => ws.close(code, reason)),
              // The peer went away or broke the framing of WebSocket. Both are its right; its calls end below.
              SocketError: () => Effect.sync(() => ws.close())
            })
          ),
        () =>
          Effect.suspend(() => {
            connections.delete(id)
            onAnswered(connection.open.size)
            if (ws.readyState === ws.OPEN) ws.close()
            return disconnects.offer(id)
          })
      )
    }

    return {
      protocol,
      serve,
      count: Effect.sync(() => connections.size),
      awaitAnswered: answered.await,
      closeAll: Effect.sync(() => {
        for (const { ws } of connections.values()) ws.close(1001, "the gateway is shutting down")
      })
    }
  })

const unknownCall = (requestId: string, tag: string): FromServerEncoded => ({
  _tag: "Exit",
  requestId,
  exit: { _tag: "Failure", cause: { _tag: "Die", defect: `There is no call "${tag.slice(0, 100)}"` } }
})

const encode = (response: FromServerEncoded): string | undefined => {
  try {
    return JSON.stringify(response) + "\n"
  } catch {
    // A tool may put anything into its parameters, also what JSON cannot hold. Only that call ends.
    return "requestId" in response
      ? JSON.stringify({
        _tag: "Exit",
        requestId: response.requestId,
        exit: { _tag: "Failure", cause: { _tag: "Die", defect: "The answer cannot be written as JSON" } }
      }) + "\n"
      : undefined
  }
}
