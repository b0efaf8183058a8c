import { assert, describe, it } from "@effect/vitest"
import { Sessions } from "@switchyard/core/Sessions"
import { ScriptedModel, text, toolCall } from "@switchyard/testkit/ScriptedModel"
import { Effect } from "effect"
import * as support from "./support.js"

describe("Sessions", () => {
  it.scoped("a message becomes a run, and its reply is in the wait, the events and the history (2.1, 4.3, 6.3)", () =>
    Effect.gen(function*() {
      const accepted = yield* support.submit("hello", { idempotencyKey: "a" })
      assert.strictEqual(accepted.disposition, "started")
      const result = yield* support.settled("a")
      assert.strictEqual(result.status, "ok")
      assert.strictEqual(result.outcome, "completed")
      assert.strictEqual(result.reply, "Hi there.")
      assert.deepStrictEqual(yield* support.transcript(), ["user: hello", "assistant: Hi there."])
      const events = yield* support.events("a")
      assert.deepStrictEqual(events.map(support.name), [
        "queue:accepted",
        "lifecycle:start",
        "assistant:delta",
        "assistant:text",
        "reply:final",
        "lifecycle:end"
      ])
      assert.strictEqual(support.text(events), "Hi there.")
    }).pipe(Effect.provide(support.world([text("Hi ", "there.")]))))

  it.scoped("the model sees tool results and its own calls on the next step (4.4)", () =>
    Effect.gen(function*() {
      yield* support.submit("use it", { idempotencyKey: "a" })
      const result = yield* support.settled("a")
      assert.strictEqual(result.reply, "done")
      assert.deepStrictEqual(yield* support.transcript(), [
        "user: use it",
        "assistant: echo({\"text\":\"x\"})",
        "tool: echo x",
        "assistant: done"
      ])
      const calls = yield* Effect.flatMap(ScriptedModel, (model) => model.calls)
      assert.deepStrictEqual(calls[1]!.prompt.content.map((message) => message.role), [
        "system",
        "user",
        "assistant",
        "tool"
      ])
    }).pipe(Effect.provide(support.world([toolCall("echo", { text: "x" }), text("done")]))))

  it.scoped("an unknown run cannot be waited for, aborted or followed (6.4)", () =>
    Effect.gen(function*() {
      const sessions = yield* Sessions
      for (const effect of [sessions.wait({ runId: "x" }), sessions.abort({ runId: "x" }), support.events("x")]) {
        const error = yield* Effect.flip(effect as Effect.Effect<unknown, { readonly _tag: string }>)
        assert.strictEqual(error._tag, "RunNotFound")
      }
    }).pipe(Effect.provide(support.world([]))))
})
