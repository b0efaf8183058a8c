/**
 * The system prompt of a run.
 *
 * @since 0.1.0
 */
import type { RunId, SessionKey } from "@switchyard/protocol/Ids"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/**
 * @since 0.1.0
 * @category context
 */
export class Prompts extends Context.Tag("@switchyard/core/Prompts")<Prompts, {
  readonly system: (run: { readonly sessionKey: SessionKey; readonly runId: RunId }) => Effect.Effect<string>
}>() {}

/**
 * The same text for every run.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerText = (text: string): Layer.Layer<Prompts> =>
  Layer.succeed(Prompts, { system: () => Effect.succeed(text) })

/**
 * A short, neutral prompt.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerDefault: Layer.Layer<Prompts> = layerText(
  "You are an assistant that works in a workspace folder through the tools you are given. " +
    "Use a tool when the answer depends on a file; say so when you do not know."
)
