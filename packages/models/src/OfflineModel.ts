/**
 * A model without a model: it follows a small grammar, uses the tools it is given, and says so when it does not
 * understand. It needs no network and no key, and the same prompt always gets the same answer; so it serves for a first
 * look, for tests and for demonstrations. `docs/offline-model.md` has its grammar and its rules.
 *
 * @since 0.1.0
 */
import type * as Prompt from "@effect/ai/Prompt"
import * as Response from "@effect/ai/Response"
import type { ModelPart } from "@switchyard/core/Model"
import { Model } from "@switchyard/core/Model"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as decision from "./internal/offlineDecision.js"
import { type Rule as GrammarRule, rules } from "./internal/offlineGrammar.js"

/**
 * One way of asking: how it is written, an example, and what the model does then.
 *
 * @since 0.1.0
 * @category models
 */
export type Rule = GrammarRule

/**
 * Everything the model understands, as the documentation shows it.
 *
 * @since 0.1.0
 * @category grammar
 */
export const grammar: ReadonlyArray<Rule> = rules

/**
 * Parts that are streamed together, `delayMs` milliseconds after those before.
 *
 * @since 0.1.0
 * @category models
 */
export interface TimedParts {
  readonly delayMs: number
  readonly parts: ReadonlyArray<ModelPart>
}

/**
 * The whole answer of the model to a prompt: one tool call, or the reply. `toolNames` are the tools that it may call.
 * Tokens are counted as a quarter of the characters.
 *
 * @since 0.1.0
 * @category decisions
 */
export const decide = (prompt: Prompt.Prompt, toolNames: Iterable<string>): ReadonlyArray<TimedParts> => {
  const next = decision.decide(prompt, toolNames)
  const finish = (reason: Response.FinishReason, outputCharacters: number) => {
    const inputTokens = Math.ceil(charactersOf(prompt) / 4)
    const outputTokens = Math.ceil(outputCharacters / 4)
    const usage = new Response.Usage({ inputTokens, outputTokens, totalTokens: inputTokens + outputTokens })
    return Response.finishPart({ reason, usage })
  }
  if (next._tag === "Call") {
    const { call: { delayMs, name, params }, id } = next
    const json = JSON.stringify(params)
    return [{
      delayMs,
      parts: [
        Response.toolParamsStartPart({ id, name, providerExecuted: false }),
        Response.toolParamsDeltaPart({ id, delta: json }),
        Response.toolParamsEndPart({ id }),
        // The parameters of tools that are not known statically have type `never`.
        Response.toolCallPart({ id, name, params: params as never, providerExecuted: false }),
        finish("tool-calls", json.length)
      ]
    }]
  }
  const id = "text"
  const timed: Array<{ delayMs: number; parts: Array<ModelPart> }> = [
    { delayMs: 0, parts: [Response.textStartPart({ id })] }
  ]
  let characters = 0
  for (const { delayMs, text } of next.pieces) {
    if (delayMs > 0) timed.push({ delayMs, parts: [] })
    for (const delta of delayMs > 0 ? [text] : deltasOf(text)) {
      timed[timed.length - 1]!.parts.push(Response.textDeltaPart({ id, delta }))
    }
    characters += text.length
  }
  timed[timed.length - 1]!.parts.push(Response.textEndPart({ id }), finish("stop", characters))
  return timed
}

/**
 * Makes the port.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make: Model["Type"] = {
  name: "offline",
  stream: ({ prompt, tools }) =>
    Stream.suspend(() =>
      Stream.flattenChunks(Stream.mapEffect(
        Stream.fromIterable(decide(prompt, tools.map(({ name }) => name))),
        ({ delayMs, parts }) => {
          const chunk = Effect.succeed(Chunk.unsafeFromArray(parts))
          return delayMs === 0 ? chunk : Effect.delay(chunk, delayMs)
        }
      ))
    )
}

/**
 * The offline model.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer: Layer.Layer<Model> = Layer.succeed(Model, make)

/** A few words each, so that a reader sees it stream. */
const deltasOf = (text: string): ReadonlyArray<string> => text.match(/\s*(?:\S+\s*){1,4}/g) ?? [text]

const charactersOf = (prompt: Prompt.Prompt): number => {
  let characters = 0
  for (const message of prompt.content) {
    if (typeof message.content === "string") {
      characters += message.content.length
      continue
    }
    for (const part of message.content) {
      switch (part.type) {
        case "text":
        case "reasoning":
          characters += part.text.length
          break
        case "tool-call":
          characters += JSON.stringify(part.params)?.length ?? 0
          break
        case "tool-result":
          characters += JSON.stringify(part.result)?.length ?? 0
      }
    }
  }
  return characters
}
