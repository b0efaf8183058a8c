/**
 * Messages as people and models see them. Content parts are those of `@effect/ai` `Prompt`.
 *
 * @since 0.1.0
 */
import * as Prompt from "@effect/ai/Prompt"
import * as Schema from "effect/Schema"
import { RunId } from "./Ids.js"

/**
 * What a user message may hold: text, and files.
 *
 * @since 0.1.0
 * @category models
 */
export const UserPart = Schema.Union(Prompt.TextPart, Prompt.FilePart)
/**
 * @since 0.1.0
 * @category models
 */
export type UserPart = typeof UserPart.Type

/**
 * What any message of a history may hold.
 *
 * @since 0.1.0
 * @category models
 */
export const ContentPart = Schema.Union(
  Prompt.TextPart,
  Prompt.ReasoningPart,
  Prompt.FilePart,
  Prompt.ToolCallPart,
  Prompt.ToolResultPart
)
/**
 * @since 0.1.0
 * @category models
 */
export type ContentPart = typeof ContentPart.Type

/**
 * Who sent a message. It takes part in the authority of the message, so two senders never share a run.
 *
 * @since 0.1.0
 * @category models
 */
export const Sender = Schema.Struct({
  id: Schema.NonEmptyString.pipe(Schema.maxLength(256)),
  name: Schema.optional(Schema.NonEmptyString.pipe(Schema.maxLength(256)))
})
/**
 * @since 0.1.0
 * @category models
 */
export type Sender = typeof Sender.Type

/**
 * Where a reply goes outside of the event stream. Without one, replies are only streamed and stored.
 *
 * @since 0.1.0
 * @category models
 */
export const Route = Schema.Struct({
  channel: Schema.NonEmptyString.pipe(Schema.maxLength(256)),
  to: Schema.optional(Schema.String.pipe(Schema.maxLength(512))),
  accountId: Schema.optional(Schema.String.pipe(Schema.maxLength(256))),
  threadId: Schema.optional(Schema.String.pipe(Schema.maxLength(256))),
  chatType: Schema.optional(Schema.String.pipe(Schema.maxLength(64)))
})
/**
 * @since 0.1.0
 * @category models
 */
export type Route = typeof Route.Type

/**
 * Tokens used, as the provider reported them.
 *
 * @since 0.1.0
 * @category models
 */
export const Usage = Schema.Struct({
  inputTokens: Schema.Finite,
  outputTokens: Schema.Finite
})
/**
 * @since 0.1.0
 * @category models
 */
export type Usage = typeof Usage.Type

/**
 * One message of a session's history. `seq` is its place in the journal; `at` is milliseconds since the epoch.
 * A `note` was written by Switchyard itself, for example after a run that was cut short. `cut` says why an assistant
 * message ends early.
 *
 * @since 0.1.0
 * @category models
 */
export const HistoryMessage = Schema.Struct({
  seq: Schema.Int,
  runId: Schema.NullOr(RunId),
  at: Schema.Finite,
  role: Schema.Literal("user", "assistant", "tool", "note"),
  content: Schema.Array(ContentPart),
  sender: Schema.optional(Sender),
  cut: Schema.optional(Schema.Literal("aborted", "deadline", "failed", "interrupted", "length")),
  unreadable: Schema.optional(Schema.Literal(true))
})
/**
 * @since 0.1.0
 * @category models
 */
export type HistoryMessage = typeof HistoryMessage.Type
