/**
 * The model, as the run loop sees it: a request in, a stream of parts out. Request and part types are those of
 * `@effect/ai`, so that any of its providers fits.
 *
 * @since 0.1.0
 */
import type * as Prompt from "@effect/ai/Prompt"
import type * as Response from "@effect/ai/Response"
import type * as Tool from "@effect/ai/Tool"
import type { RunId, SessionKey } from "@switchyard/protocol/Ids"
import * as Context from "effect/Context"
import * as Schema from "effect/Schema"
import type * as Stream from "effect/Stream"

/**
 * One part of an answer as it streams.
 *
 * @since 0.1.0
 * @category models
 */
export type ModelPart = Response.StreamPart<Record<string, Tool.Any>>

/**
 * One call of the model. `step` counts from 1 within the run; `model` is what the caller asked for, if anything.
 *
 * @since 0.1.0
 * @category models
 */
export interface ModelRequest {
  readonly sessionKey: SessionKey
  readonly runId: RunId
  readonly step: number
  readonly model: string | null
  readonly prompt: Prompt.Prompt
  readonly tools: ReadonlyArray<Tool.Any>
}

/**
 * The model call failed. `code` is stable (`rate_limit`, `overloaded`, `context_overflow`, `auth`, `unavailable`,
 * `invalid_request`, `unknown`); `retryAfterMs` is what the provider asked for, in milliseconds.
 *
 * @since 0.1.0
 * @category errors
 */
export class ModelError extends Schema.TaggedError<ModelError>()("ModelError", {
  provider: Schema.String,
  code: Schema.Literal(
    "rate_limit",
    "overloaded",
    "context_overflow",
    "auth",
    "unavailable",
    "invalid_request",
    "unknown"
  ),
  reason: Schema.String,
  retryAfterMs: Schema.optional(Schema.Number),
  cause: Schema.optional(Schema.Defect)
}) {
  override get message() {
    return `The model (${this.provider}) failed: ${this.reason}`
  }
}

/**
 * The model port.
 *
 * A stream ends with a `finish` part; one that ends without is treated as cut. Interrupting the stream must end the
 * request. Tool calls run only when the finish reason is `tool-calls`.
 *
 * @since 0.1.0
 * @category context
 */
export class Model extends Context.Tag("@switchyard/core/Model")<Model, {
  /** What `health` and the start-up line call it. */
  readonly name: string
  readonly stream: (request: ModelRequest) => Stream.Stream<ModelPart, ModelError>
}>() {}
