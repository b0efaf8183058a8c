/**
 * A model that answers from a script and remembers what it was asked.
 *
 *     ScriptedModel.layer([ScriptedModel.toolCall("read", { path: "a.txt" }), ScriptedModel.text("It says hello.")])
 *
 * @since 0.1.0
 */
import * as Response from "@effect/ai/Response"
import type { ModelError, ModelPart, ModelRequest } from "@switchyard/core/Model"
import { Model } from "@switchyard/core/Model"
import * as Chunk from "effect/Chunk"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"

/**
 * One tool call of an answer. Without an `id` it gets one that is unique among the calls of the model.
 *
 * @since 0.1.0
 * @category models
 */
export interface ScriptedToolCall {
  readonly id?: string
  readonly name: string
  readonly params: unknown
}

/**
 * What the model does when it is called once: reasoning, then text, then tool calls, then `error` or the finish part.
 *
 * `finish` defaults to `tool-calls` with tool calls and `stop` without; `"none"` ends the stream without a finish part,
 * as a cut connection does. Usage is 0 tokens unless given.
 *
 * @since 0.1.0
 * @category models
 */
export interface Answer {
  /** An array is streamed as one delta each. */
  readonly text?: string | ReadonlyArray<string>
  readonly reasoning?: string | ReadonlyArray<string>
  readonly toolCalls?: ReadonlyArray<ScriptedToolCall>
  readonly finish?: Response.FinishReason | "none"
  readonly usage?: { readonly inputTokens: number; readonly outputTokens: number }
  /** Fails with it instead of finishing. */
  readonly error?: ModelError
  /** Is awaited after everything else was streamed, before the end. */
  readonly gate?: Effect.Effect<void>
  /** Is awaited before the text delta with this index, from 0. */
  readonly gateBetween?: (delta: number) => Effect.Effect<void>
  /** Never ends, after everything else was streamed. */
  readonly hang?: true
  /** Replaces everything above. */
  readonly stream?: Stream.Stream<ModelPart, ModelError>
}

/**
 * Answers in the order in which the model is called, or a function of the request and its index from 0. A call that no
 * answer is left for is a defect.
 *
 * @since 0.1.0
 * @category models
 */
export type Answers = ReadonlyArray<Answer> | ((request: ModelRequest, index: number) => Answer)

/**
 * What the model was asked.
 *
 * @since 0.1.0
 * @category context
 */
export class ScriptedModel extends Context.Tag("@switchyard/testkit/ScriptedModel")<ScriptedModel, {
  /** Every request whose stream was started, oldest first. */
  readonly calls: Effect.Effect<ReadonlyArray<ModelRequest>>
}>() {}

/**
 * Answers with text.
 *
 * @since 0.1.0
 * @category constructors
 */
export const text = (...deltas: ReadonlyArray<string>): Answer => ({ text: deltas })

/**
 * Asks for one tool call.
 *
 * @since 0.1.0
 * @category constructors
 */
export const toolCall = (name: string, params: unknown): Answer => toolCalls([{ name, params }])

/**
 * Asks for several tool calls at once.
 *
 * @since 0.1.0
 * @category constructors
 */
export const toolCalls = (calls: ReadonlyArray<ScriptedToolCall>): Answer => ({ toolCalls: calls })

/**
 * Fails before it says anything.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fail = (error: ModelError): Answer => ({ error })

/**
 * Says nothing and never ends.
 *
 * @since 0.1.0
 * @category constructors
 */
export const never: Answer = { hang: true }

/**
 * The model and its memory. Without gates an answer is streamed in one chunk.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (answers: Answers): Layer.Layer<Model | ScriptedModel> =>
  Layer.effectContext(Effect.sync(() => {
    const calls: Array<ModelRequest> = []
    return Context.make(Model, {
      name: "scripted",
      stream: (request) =>
        Stream.suspend(() => {
          const index = calls.push(request) - 1
          const answer = typeof answers === "function" ? answers(request, index) : answers[index]
          return answer === undefined
            ? Stream.dieMessage(
              `ScriptedModel.stream: call ${index + 1} (run ${request.runId}, step ${request.step}) has no answer; ` +
                `the script has ${answers.length}`
            )
            : play(answer, index)
        })
    }).pipe(Context.add(ScriptedModel, { calls: Effect.sync(() => calls.slice()) }))
  }))

const play = (answer: Answer, index: number): Stream.Stream<ModelPart, ModelError> => {
  if (answer.stream !== undefined) return answer.stream
  const reasoning = deltasOf(answer.reasoning)
  const text = deltasOf(answer.text)
  const calls = answer.toolCalls ?? []
  const before: Array<ModelPart> = reasoning.length === 0 ? [] : [
    Response.reasoningStartPart({ id: "reasoning" }),
    ...reasoning.map((delta) => Response.reasoningDeltaPart({ id: "reasoning", delta })),
    Response.reasoningEndPart({ id: "reasoning" })
  ]
  if (text.length > 0) before.push(Response.textStartPart({ id: "text" }))
  const deltas = text.map((delta) => Response.textDeltaPart({ id: "text", delta }))
  const after: Array<ModelPart> = text.length > 0 ? [Response.textEndPart({ id: "text" })] : []
  for (const [position, call] of calls.entries()) {
    after.push(Response.toolCallPart({
      id: call.id ?? `call-${index + 1}-${position + 1}`,
      name: call.name,
      // The parameters of tools that are not known statically have type `never`.
      params: call.params as never,
      providerExecuted: false
    }))
  }
  const finish = answer.finish ?? (calls.length > 0 ? "tool-calls" : "stop")
  const last: Array<ModelPart> = finish === "none" || answer.error !== undefined || answer.hang === true ? [] : [
    Response.finishPart({ reason: finish, usage: usageOf(answer) })
  ]
  const end = answer.hang === true ?
    Stream.never
    : answer.error !== undefined ?
    Stream.fail(answer.error)
    : Stream.empty
  const { gate, gateBetween } = answer
  if (gate === undefined && gateBetween === undefined) {
    return Stream.concat(Stream.fromChunk(Chunk.unsafeFromArray([...before, ...deltas, ...after, ...last])), end)
  }
  const gated = gateBetween === undefined
    ? Stream.fromChunk<ModelPart>(Chunk.unsafeFromArray(deltas))
    : Stream.mapEffect(
      Stream.fromIterable(deltas.entries()),
      ([position, delta]) => Effect.as(gateBetween(position), delta as ModelPart)
    )
  return Stream.fromChunk(Chunk.unsafeFromArray(before)).pipe(
    Stream.concat(gated),
    Stream.concat(Stream.fromChunk(Chunk.unsafeFromArray(after))),
    Stream.concat(gate === undefined ? Stream.empty : Stream.drain(Stream.fromEffect(gate))),
    Stream.concat(Stream.fromChunk(Chunk.unsafeFromArray(last))),
    Stream.concat(end)
  )
}

const deltasOf = (text: string | ReadonlyArray<string> | undefined): ReadonlyArray<string> =>
  text === undefined ? [] : typeof text === "string" ? [text] : text

const usageOf = ({ usage = { inputTokens: 0, outputTokens: 0 } }: Answer) =>
  new Response.Usage({ ...usage, totalTokens: usage.inputTokens + usage.outputTokens })
