/**
 * The Node side of the gateway: a listening HTTP server whose sockets are known, so that it can be closed in bounded
 * time.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type * as Scope from "effect/Scope"
import * as Http from "node:http"
import type * as Net from "node:net"

export interface Listener {
  readonly server: Http.Server
  readonly port: number
  /** Stops listening, waits for open sockets at most `timeoutMs`, then destroys them. */
  readonly close: (timeoutMs: number) => Effect.Effect<void>
}

/**
 * Listens until the scope closes. Fails with the error of `node:net`.
 */
export const listen = (options: {
  readonly host: string
  readonly port: number
  readonly maxConnections: number
}): Effect.Effect<Listener, NodeJS.ErrnoException, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.async<Listener, NodeJS.ErrnoException>((resume) => {
      const server = Http.createServer()
      const sockets = new Set<Net.Socket>()
      server.maxConnections = options.maxConnections
      server.on("connection", (socket) => {
        sockets.add(socket)
        socket.once("close", () => sockets.delete(socket))
        // After an upgrade nobody else listens, and a reset would end the process.
        socket.on("error", () => {})
      })
      server.once("error", (error) => resume(Either.left(error)))
      server.listen({ host: options.host, port: options.port }, () => {
        server.removeAllListeners("error")
        // Errors of accepting (too many open files) pass: the next connection may be accepted again.
        server.on("error", () => {})
        resume(Either.right({
          server,
          port: (server.address() as Net.AddressInfo).port,
          close: (timeoutMs) =>
            Effect.async<void>((resume) => {
              server.close(() => resume(Effect.void))
              server.closeIdleConnections()
            }).pipe(
              Effect.interruptible,
              Effect.timeoutOption(timeoutMs),
              Effect.zipRight(Effect.sync(() => {
                for (const socket of sockets) socket.destroy()
              }))
            )
        }))
      })
    }),
    (listener) => listener.close(0)
  )
