import * as Prompt from "@effect/ai/Prompt"
import { assert, describe, it } from "@effect/vitest"
import { Model, ModelError, type ModelRequest } from "@switchyard/core/Model"
import { RunId, SessionKey } from "@switchyard/protocol/Ids"
import * as Cause from "effect/Cause"
import * as Chunk from "effect/Chunk"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import * as ScriptedModel from "../src/ScriptedModel.js"

const request = (text: string, step = 1): ModelRequest => ({
  sessionKey: SessionKey.make("main"),
  runId: RunId.make("run"),
  step,
  model: null,
  prompt: Prompt.make(text),
  tools: []
})

const ask = (text: string) => Effect.flatMap(Model, (model) => Stream.runCollect(model.stream(request(text))))
const types = (parts: Chunk.Chunk<{ readonly type: string }>) => Chunk.toReadonlyArray(parts).map(({ type }) => type)
const overloaded = new ModelError({ provider: "scripted", code: "overloaded", reason: "busy" })

describe("ScriptedModel", () => {
  it.effect("gives its answers in order and remembers what each call saw", () =>
    Effect.gen(function*() {
      const first = yield* ask("one")
      const second = yield* ask("two")
      assert.deepStrictEqual(types(first), ["tool-call", "finish"])
      assert.deepStrictEqual(types(second), ["text-start", "text-delta", "text-delta", "text-end", "finish"])
      const calls = yield* Effect.flatMap(ScriptedModel.ScriptedModel, ({ calls }) => calls)
      assert.deepStrictEqual(calls.map(({ prompt }) => prompt), [Prompt.make("one"), Prompt.make("two")])
    }).pipe(Effect.provide(
      ScriptedModel.layer([ScriptedModel.toolCall("read", { path: "a" }), ScriptedModel.text("Hel", "lo")])
    )))

  it.effect("streams parts that make the message that they describe", () =>
    Effect.gen(function*() {
      const parts = yield* ask("go")
      const prompt = Prompt.fromResponseParts(Chunk.toReadonlyArray(parts))
      assert.deepStrictEqual(
        prompt.content,
        Prompt.make([{
          role: "assistant",
          content: [
            { type: "reasoning", text: "hm" },
            { type: "text", text: "Looking." },
            { type: "tool-call", id: "call-1-1", name: "list", params: {} },
            { type: "tool-call", id: "mine", name: "read", params: { path: "a" } }
          ]
        }]).content
      )
      const finish = Chunk.unsafeLast(parts)
      assert.isTrue(finish.type === "finish" && finish.reason === "tool-calls" && finish.usage.totalTokens === 5)
    }).pipe(Effect.provide(ScriptedModel.layer([{
      reasoning: "hm",
      text: ["Look", "ing."],
      toolCalls: [{ name: "list", params: {} }, { id: "mine", name: "read", params: { path: "a" } }],
      usage: { inputTokens: 2, outputTokens: 3 }
    }]))))

  it.effect("streams an answer without gates in one chunk", () =>
    Effect.gen(function*() {
      const model = yield* Model
      const chunks = yield* Stream.runCollect(Stream.chunks(model.stream(request("x"))))
      assert.strictEqual(Chunk.size(chunks), 1)
    }).pipe(Effect.provide(ScriptedModel.layer([ScriptedModel.text("a", "b", "c")]))))

  it.effect("answers as a function of the request and of how many came before", () =>
    Effect.gen(function*() {
      yield* ask("x")
      const parts = yield* ask("y")
      assert.deepInclude(Chunk.toReadonlyArray(parts)[1], { type: "text-delta", delta: "1 of run" })
    }).pipe(Effect.provide(
      ScriptedModel.layer(({ runId }, index) => ScriptedModel.text(`${index} of ${runId}`))
    )))

  it.effect("fails after what was said before the error", () =>
    Effect.gen(function*() {
      const model = yield* Model
      const seen: Array<string> = []
      const run = Stream.runForEach(model.stream(request("x")), ({ type }) => Effect.sync(() => seen.push(type)))
      assert.strictEqual(yield* Effect.flip(run), overloaded)
      assert.deepStrictEqual(seen, ["text-start", "text-delta", "text-end"])
      assert.strictEqual(yield* Effect.flip(ask("y")), overloaded)
    }).pipe(Effect.provide(ScriptedModel.layer([{ text: "par", error: overloaded }, ScriptedModel.fail(overloaded)]))))

  it.effect("ends without a finish part when told so", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(types(yield* ask("x")), ["text-start", "text-delta", "text-end"])
    }).pipe(Effect.provide(ScriptedModel.layer([{ text: "cut", finish: "none" }]))))

  it.effect("waits at its gates: before each delta and before the end", () =>
    Effect.gen(function*() {
      const gates = yield* Effect.replicateEffect(Deferred.make<void>(), 3)
      const seen = yield* Queue.unbounded<string>()
      const fiber = yield* Effect.gen(function*() {
        const model = yield* Model
        yield* Stream.runForEach(model.stream(request("x")), (part) =>
          Queue.offer(seen, part.type === "text-delta" ? part.delta : part.type))
      }).pipe(
        Effect.provide(ScriptedModel.layer([{
          text: ["a", "b"],
          gateBetween: (index) =>
            Deferred.await(gates[index]!),
          gate: Deferred.await(gates[2]!)
        }])),
        Effect.fork
      )
      const take = (count: number) => Effect.map(Queue.takeN(seen, count), Chunk.toReadonlyArray)
      assert.deepStrictEqual(yield* take(1), ["text-start"])
      yield* Deferred.succeed(gates[0]!, undefined)
      assert.deepStrictEqual(yield* take(1), ["a"])
      yield* Deferred.succeed(gates[1]!, undefined)
      assert.deepStrictEqual(yield* take(2), ["b", "text-end"])
      assert.isTrue(yield* Queue.isEmpty(seen))
      yield* Deferred.succeed(gates[2]!, undefined)
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(yield* take(1), ["finish"])
    }))

  it.effect("hangs until it is interrupted", () =>
    Effect.gen(function*() {
      const model = yield* Model
      const started = yield* Deferred.make<void>()
      const stream = Stream.tap(model.stream(request("x")), () => Deferred.succeed(started, undefined))
      const fiber = yield* Effect.fork(Stream.runDrain(stream))
      yield* Deferred.await(started)
      assert.isTrue(Option.isNone(yield* Fiber.poll(fiber)))
      assert.isTrue(Exit.isInterrupted(yield* Fiber.interrupt(fiber)))
    }).pipe(Effect.provide(ScriptedModel.layer([{ text: "so far", hang: true }]))))

  it.effect("plays a stream of one's own", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(types(yield* ask("x")), [])
    }).pipe(Effect.provide(ScriptedModel.layer([{ text: "unused", stream: Stream.empty }]))))

  it.effect("dies with the number of the call when the script is over", () =>
    Effect.gen(function*() {
      yield* ask("x")
      const exit = yield* Effect.exit(ask("y"))
      const defect = Exit.isFailure(exit) ? Option.getOrNull(Cause.dieOption(exit.cause)) : null
      assert.include(String(defect), "call 2 (run run, step 1) has no answer; the script has 1")
    }).pipe(Effect.provide(ScriptedModel.layer([ScriptedModel.text("only")]))))
})
