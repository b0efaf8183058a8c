/**
 * Reads what a client sends: one JSON message a line.
 *
 * The RPC server trusts the shape of its messages, so a malformed one could end more than its own call. Here each is
 * checked, and anything else is a {@link FrameRefused}, which ends that connection and only that.
 *
 * @since 0.1.0
 */
import type { FromClientEncoded } from "@effect/rpc/RpcMessage"
import * as Data from "effect/Data"
import * as Either from "effect/Either"

/**
 * The connection broke the protocol and is closed with the WebSocket close code `code` and `reason`.
 */
export class FrameRefused extends Data.TaggedError("FrameRefused")<{
  readonly code: 1007 | 1008 | 1009
  readonly reason: string
}> {}

/**
 * Makes the reader of one connection. A message is at most `maxMessageBytes` long, or `maxAttachmentMessageBytes` if it
 * is a submission, which may carry attachments.
 */
export const makeReader = (limits: {
  readonly maxMessageBytes: number
  readonly maxAttachmentMessageBytes: number
}): (data: string | Uint8Array) => Either.Either<ReadonlyArray<FromClientEncoded>, FrameRefused> => {
  const utf8 = new TextDecoder("utf-8", { fatal: true })
  let rest = ""
  return (data) => {
    const messages: Array<FromClientEncoded> = []
    try {
      const searched = rest.length
      rest += typeof data === "string" ? data : utf8.decode(data, { stream: true })
      let start = 0
      for (let end = rest.indexOf("\n", searched); end !== -1; end = rest.indexOf("\n", start)) {
        const size = end - start
        if (size > limits.maxAttachmentMessageBytes) return tooLong
        const message: unknown = JSON.parse(rest.slice(start, end))
        if (!isMessage(message)) return notAMessage
        if (size > limits.maxMessageBytes && !(message._tag === "Request" && message.tag === "agent")) return tooLong
        messages.push(withPayload(message))
        start = end + 1
      }
      rest = rest.slice(start)
      return rest.length > limits.maxAttachmentMessageBytes ? tooLong : Either.right(messages)
    } catch {
      return notAMessage
    }
  }
}

const tooLong = Either.left(new FrameRefused({ code: 1009, reason: "the message is too long" }))
const notAMessage = Either.left(
  new FrameRefused({ code: 1007, reason: "this is not a message of the Switchyard protocol" })
)

// A payload that is not an object would fail its schema, which ends more than its call. An empty one is answered with what
// is missing.
const withPayload = (message: FromClientEncoded): FromClientEncoded =>
  message._tag !== "Request" || message.tag === "health" ||
    (typeof message.payload === "object" && message.payload !== null && !Array.isArray(message.payload))
    ? message
    : { ...message, payload: {} }

const isId = (u: unknown): boolean => typeof u === "string" && /^\d{1,20}$/.test(u)

const isHeaders = (u: unknown): boolean =>
  Array.isArray(u) &&
  u.every((pair: unknown) =>
    Array.isArray(pair) && pair.length === 2 && typeof pair[0] === "string" && typeof pair[1] === "string"
  )

const isMessage = (u: unknown): u is FromClientEncoded => {
  if (typeof u !== "object" || u === null) return false
  const message = u as Record<string, unknown>
  switch (message["_tag"]) {
    case "Request":
      return isId(message["id"]) && typeof message["tag"] === "string" && isHeaders(message["headers"]) &&
        ["traceId", "spanId"].every((name) => message[name] === undefined || typeof message[name] === "string")
    case "Ack":
    case "Interrupt":
      return isId(message["requestId"])
    case "Ping":
    case "Eof":
      return true
    default:
      return false
  }
}
