/**
 * One WebSocket that is opened again whenever it is cut, with what there is to know about it.
 *
 * @since 0.1.0
 */
import * as Socket from "@effect/platform/Socket"
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"

export interface Connection {
  readonly socket: Socket.Socket
  /** When to try again: at once-ish after a connection that worked, then ever more patiently. */
  readonly retries: Schedule.Schedule<unknown>
  /** Waits until the socket is open. */
  readonly awaitOpen: Effect.Effect<void>
  readonly wasOpen: () => boolean
  /** Why it is not open, in plain words. */
  readonly reason: () => string
}

export const make = (url: string): Effect.Effect<Connection, never, Socket.WebSocketConstructor> =>
  Effect.map(
    // A gateway says goodbye with a close code; to us each close is a cut, after which to connect again.
    Socket.makeWebSocket(url, { closeCodeIsError: () => true }),
    (socket) => {
      const open = Effect.unsafeMakeLatch(false)
      let attempt = 0
      let wasOpen = false
      let reason = "it has not answered yet"

      const onOpen = Effect.sync(() => {
        attempt = 0
        wasOpen = true
        open.unsafeOpen()
      })
      const onEnd = (cause: Cause.Cause<unknown>) =>
        Effect.sync(() => {
          open.unsafeClose()
          reason = describe(cause)
        })

      return {
        socket: Socket.Socket.of({
          [Socket.TypeId]: Socket.TypeId,
          run: socket.run,
          // The latch opens after the RPC client forgot the last error, and closes before it learns of the next one:
          // who waits for the latch never meets a stale error.
          runRaw: (handler, options) =>
            Effect.onError(
              socket.runRaw(handler, {
                onOpen: options?.onOpen === undefined ? onOpen : Effect.zipRight(options.onOpen, onOpen)
              }),
              onEnd
            ),
          writer: socket.writer
        }),
        retries: Schedule.addDelay(
          Schedule.forever,
          () => Duration.millis(Math.min(100 * 2 ** attempt++, 2_000))
        ),
        awaitOpen: open.await,
        wasOpen: () => wasOpen,
        reason: () => reason
      }
    }
  )

const describe = (cause: Cause.Cause<unknown>): string => {
  const error = Option.getOrUndefined(Cause.failureOption(cause)) ?? Cause.squash(cause)
  if (!Socket.isSocketError(error)) return error instanceof Error ? error.message : String(error)
  if (error.reason === "Close") {
    return error.code === 1001
      ? "it shut down"
      : `the connection was closed${error.closeReason ? `: ${error.closeReason}` : ""}`
  }
  if (error.reason === "OpenTimeout") return "it does not answer in time"
  // The event of a browser says nothing; that of `ws` carries the error of the system.
  const event = error.cause as { readonly message?: string; readonly error?: { readonly code?: string } } | undefined
  const status = /response: (\d+)/.exec(event?.message ?? "")?.[1]
  if (status !== undefined) return `it refused the connection with status ${status}`
  switch (event?.error?.code) {
    case undefined:
    case "ECONNREFUSED":
      return "nothing listens there"
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return "there is no such host"
    default:
      return event?.message ?? "the connection failed"
  }
}
