import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import * as Http from "node:http"
import { WebSocket } from "ws"

/** One plain HTTP request. */
export const request = (options: {
  readonly port: number
  readonly path: string
  readonly method?: string
  readonly headers?: Record<string, string>
}) =>
  Effect.async<{ readonly status: number; readonly body: string }>((resume) => {
    const call = Http.request({ host: "127.0.0.1", agent: false, setHost: false, ...options }, (response) => {
      let body = ""
      response.setEncoding("utf8")
      response.on("data", (text: string) => body += text)
      response.on("end", () => resume(Effect.succeed({ status: response.statusCode ?? 0, body })))
    })
    call.on("error", (error) => resume(Effect.die(error)))
    call.end()
  })

/** A WebSocket as any program may open it. `status` is that of a refused upgrade. */
export const connect = (url: string, headers: Record<string, string> = {}) =>
  Effect.acquireRelease(
    Effect.gen(function*() {
      const socket = new WebSocket(url, { headers })
      const received = yield* Queue.unbounded<{ readonly _tag: string; readonly [name: string]: unknown }>()
      const closed = yield* Deferred.make<{ readonly code: number; readonly reason: string }>()
      const opened = yield* Deferred.make<{ readonly status: number }>()
      socket.on("open", () => Deferred.unsafeDone(opened, Effect.succeed({ status: 101 })))
      socket.on("unexpected-response", (_, response) => {
        Deferred.unsafeDone(opened, Effect.succeed({ status: response.statusCode ?? 0 }))
        response.resume()
      })
      socket.on("error", () => {})
      socket.on("close", (code, reason) => {
        Deferred.unsafeDone(closed, Effect.succeed({ code, reason: reason.toString("utf8") }))
      })
      socket.on("message", (data: Buffer) => {
        for (const line of data.toString("utf8").split("\n")) {
          if (line !== "") received.unsafeOffer(JSON.parse(line))
        }
      })
      const { status } = yield* Deferred.await(opened)
      const sendText = (text: string | Buffer) => Effect.sync(() => socket.send(text))
      return {
        status,
        closed: Deferred.await(closed),
        next: Queue.take(received),
        sendText,
        send: (message: unknown) => sendText(`${JSON.stringify(message)}\n`),
        call: (id: number, tag: string, payload: unknown = {}) =>
          sendText(`${JSON.stringify({ _tag: "Request", id: String(id), tag, payload, headers: [] })}\n`),
        cut: Effect.sync(() => socket.terminate())
      }
    }),
    ({ cut }) => cut
  )

export const success = (message: { readonly _tag: string; readonly [name: string]: unknown }) =>
  (message["exit"] as { readonly value: unknown }).value
