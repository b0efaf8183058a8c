/**
 * A message on its way into a session. On the wire it is wide, so that a malformed request is answered with an
 * {@link InvalidRequest} that names the field; {@link decode} is the one strict reading, shared by every way in.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { InvalidRequest, PayloadTooLarge } from "./Errors.js"
import { RunId, SessionId, SessionKey } from "./Ids.js"
import { Route, Sender } from "./Message.js"

/**
 * What a message does when a run is active: enter it at its next boundary (`steer`), run after it (`followup`), be
 * answered together with its neighbours (`collect`), or end it (`interrupt`).
 *
 * @since 0.1.0
 * @category models
 */
export const QueueMode = Schema.Literal("steer", "followup", "collect", "interrupt")
/**
 * @since 0.1.0
 * @category models
 */
export type QueueMode = typeof QueueMode.Type

// A pattern would need a stack as deep as the data is long.
const isBase64 = (data: string): boolean => {
  if (data.length % 4 !== 0) return false
  const padding = data.endsWith("==") ? 2 : data.endsWith("=") ? 1 : 0
  for (let index = 0; index < data.length - padding; index += 1) {
    const code = data.charCodeAt(index)
    const isDigit = (code >= 65 && code <= 90) || (code >= 97 && code <= 122) || (code >= 47 && code <= 57) ||
      code === 43
    if (!isDigit) return false
  }
  return true
}

/**
 * A file that goes with a message. `data` is base64; `mediaType` is an IANA media type.
 *
 * @since 0.1.0
 * @category models
 */
export const Attachment = Schema.Struct({
  mediaType: Schema.NonEmptyString.pipe(Schema.maxLength(256)),
  data: Schema.String.pipe(Schema.filter((data) => isBase64(data) || "attachment data must be base64")),
  fileName: Schema.optional(Schema.NonEmptyString.pipe(Schema.maxLength(256)))
})
/**
 * @since 0.1.0
 * @category models
 */
export type Attachment = typeof Attachment.Type

/**
 * The longest message text, in UTF-8 bytes.
 *
 * @since 0.1.0
 * @category constants
 */
export const maxTextBytes = 256 * 1024

/**
 * The most bytes that all attachments of a message may have, as base64.
 *
 * @since 0.1.0
 * @category constants
 */
export const maxAttachmentBytes = 8 * 1024 * 1024

/**
 * A submission as it crosses the wire. Every field is optional and unchecked here; {@link decode} checks it.
 *
 * @since 0.1.0
 * @category models
 */
export const SubmitPayload = Schema.Struct({
  sessionKey: Schema.optional(Schema.Unknown),
  sessionId: Schema.optional(Schema.Unknown),
  message: Schema.optional(Schema.Unknown),
  idempotencyKey: Schema.optional(Schema.Unknown),
  mode: Schema.optional(Schema.Unknown),
  attachments: Schema.optional(Schema.Unknown),
  route: Schema.optional(Schema.Unknown),
  sender: Schema.optional(Schema.Unknown),
  clearQueued: Schema.optional(Schema.Unknown),
  debounceMs: Schema.optional(Schema.Unknown),
  timeoutMs: Schema.optional(Schema.Unknown),
  model: Schema.optional(Schema.Unknown)
})
/**
 * @since 0.1.0
 * @category models
 */
export type SubmitPayload = typeof SubmitPayload.Type

/**
 * A submission that was read strictly.
 *
 * `text` holds no NUL and no lone surrogates. `timeoutMs` is the run's deadline in milliseconds, 0 for none; `debounceMs`
 * the quiet window of a `collect` message in milliseconds.
 *
 * @since 0.1.0
 * @category models
 */
export interface Submission {
  readonly sessionKey: SessionKey | undefined
  readonly sessionId: SessionId | undefined
  readonly runId: RunId | undefined
  readonly text: string
  readonly attachments: ReadonlyArray<Attachment>
  readonly mode: QueueMode | undefined
  readonly route: Route | undefined
  readonly sender: Sender | undefined
  readonly clearQueued: boolean
  readonly debounceMs: number | undefined
  readonly timeoutMs: number | undefined
  readonly model: string | undefined
}

const Milliseconds = Schema.Number.pipe(
  Schema.filter((value) =>
    Number.isFinite(value) && value >= 0 || "a duration is a finite number of milliseconds, 0 or more"
  )
)

const fields = {
  sessionKey: Schema.UndefinedOr(SessionKey),
  sessionId: Schema.UndefinedOr(SessionId),
  idempotencyKey: Schema.UndefinedOr(RunId),
  message: Schema.UndefinedOr(Schema.String),
  attachments: Schema.UndefinedOr(Schema.Array(Attachment).pipe(Schema.maxItems(32))),
  mode: Schema.UndefinedOr(QueueMode),
  route: Schema.UndefinedOr(Route),
  sender: Schema.UndefinedOr(Sender),
  clearQueued: Schema.UndefinedOr(Schema.Boolean),
  debounceMs: Schema.UndefinedOr(Milliseconds),
  timeoutMs: Schema.UndefinedOr(Milliseconds),
  model: Schema.UndefinedOr(Schema.NonEmptyString.pipe(Schema.maxLength(256)))
}

type Fields = { readonly [K in keyof typeof fields]: (typeof fields)[K]["Type"] }

const decoders = Object.fromEntries(
  Object.entries(fields).map(([name, schema]) => [
    name,
    Schema.decodeUnknownEither(schema as Schema.Schema<unknown>)
  ])
) as Record<keyof Fields, (u: unknown) => Either.Either<unknown, ParseResult.ParseError>>

/**
 * The first problem of a parse error in one sentence, without the rejected value.
 *
 * @since 0.1.0
 * @category formatting
 */
export const parseReason = (error: ParseResult.ParseError): string => {
  let issues: ReadonlyArray<ParseResult.ArrayFormatterIssue>
  try {
    issues = ParseResult.ArrayFormatter.formatErrorSync(error)
  } catch {
    // The formatter writes out the whole value, which may be nested too deep for that.
    return "has the wrong shape"
  }
  const issue = issues.find((issue) => !issue.message.startsWith("Expected undefined")) ?? issues[0]
  if (issue === undefined) return "has the wrong shape"
  const at = issue.path.length > 0 ? `${issue.path.join(".")}: ` : ""
  // A formatter quotes what it was given at the end of its sentence; that may be a secret or very long.
  return at + issue.message.replace(/,? actual [\s\S]*$/, "")
}

/**
 * Reads one field strictly. Fails with {@link InvalidRequest}, naming it.
 *
 * @since 0.1.0
 * @category decoding
 */
export const decodeField = <A, I>(
  field: string,
  schema: Schema.Schema<A, I>,
  value: unknown
): Effect.Effect<A, InvalidRequest> =>
  Effect.mapError(
    Schema.decodeUnknown(schema)(value),
    (error) => new InvalidRequest({ field, reason: parseReason(error) })
  )

const lone = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g

const utf8Bytes = (text: string): number => {
  if (text.length * 3 <= maxTextBytes) return text.length
  return new TextEncoder().encode(text).length
}

const hints: Partial<Record<keyof Fields, string>> = {
  mode: "a mode is steer, followup, collect or interrupt",
  clearQueued: "clearQueued is true or false",
  message: "a message is text"
}

/**
 * Reads a submission strictly: every way in (RPC, embedded, command line) goes through here.
 *
 * Fails with {@link InvalidRequest} naming the first wrong field, or {@link PayloadTooLarge}. Text that is empty or only
 * white space is refused unless there are attachments; NUL is refused; lone surrogates become U+FFFD.
 *
 * @since 0.1.0
 * @category decoding
 */
export const decode = (payload: unknown): Effect.Effect<Submission, InvalidRequest | PayloadTooLarge> =>
  Effect.suspend((): Effect.Effect<Submission, InvalidRequest | PayloadTooLarge> => {
    if (typeof payload !== "object" || payload === null) {
      return Effect.fail(new InvalidRequest({ field: "payload", reason: "a submission is an object" }))
    }
    const given = payload as Record<string, unknown>
    const read: Record<string, unknown> = {}
    for (const name of Object.keys(decoders) as Array<keyof Fields>) {
      const value = given[name]
      // null is how many JSON clients write "not given"
      if (value === undefined || value === null) continue
      if (name === "attachments" && Array.isArray(value)) {
        const bytes = value.reduce(
          (sum: number, item: unknown) =>
            sum + (typeof (item as Attachment | null)?.data === "string" ? (item as Attachment).data.length : 0),
          0
        )
        if (bytes > maxAttachmentBytes) {
          return Effect.fail(new PayloadTooLarge({ field: "attachments", bytes, limitBytes: maxAttachmentBytes }))
        }
      }
      const result = decoders[name](value)
      if (Either.isLeft(result)) {
        return Effect.fail(new InvalidRequest({ field: name, reason: hints[name] ?? parseReason(result.left) }))
      }
      read[name] = result.right
    }
    const { attachments = [], clearQueued, idempotencyKey, message = "", ...rest } = read as Partial<Fields>
    if (rest.sessionKey === undefined && rest.sessionId === undefined) {
      return Effect.fail(new InvalidRequest({ field: "sessionKey", reason: "name the session by its key or its id" }))
    }
    if (message.includes("\u0000")) {
      return Effect.fail(new InvalidRequest({ field: "message", reason: "a message must not contain NUL characters" }))
    }
    if (message.trim() === "" && attachments.length === 0) {
      return Effect.fail(new InvalidRequest({ field: "message", reason: "the message is empty" }))
    }
    const bytes = utf8Bytes(message)
    if (bytes > maxTextBytes) {
      return Effect.fail(new PayloadTooLarge({ field: "message", bytes, limitBytes: maxTextBytes }))
    }
    return Effect.succeed({
      sessionKey: rest.sessionKey,
      sessionId: rest.sessionId,
      runId: idempotencyKey,
      text: message.replace(lone, "\ufffd"),
      attachments,
      mode: rest.mode,
      route: rest.route,
      sender: rest.sender,
      clearQueued: clearQueued ?? false,
      debounceMs: rest.debounceMs,
      timeoutMs: rest.timeoutMs,
      model: rest.model
    })
  })
