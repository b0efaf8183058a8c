import { assert, describe, it } from "@effect/vitest"
import * as Hooks from "@switchyard/core/Hooks"
import type { RunId, SessionKey } from "@switchyard/protocol/Ids"
import { ScriptedModel, text, toolCall } from "@switchyard/testkit/ScriptedModel"
import { Context, Deferred, Effect, Fiber, Layer, TestClock } from "effect"
import * as support from "./support.js"

const run = { sessionKey: "s" as SessionKey, runId: "r" as RunId }
const call = { ...run, callId: "c", name: "write", params: { a: 1 } }

const made = (...layers: ReadonlyArray<Layer.Layer<Hooks.Hooks>>) =>
  Effect.scoped(Effect.map(Layer.build(Hooks.merge(...layers)), Context.get(Hooks.Hooks)))

describe("Hooks", () => {
  it.scoped("before_prompt_build changes what the model sees, for its run only (4.2, 11)", () =>
    Effect.gen(function*() {
      yield* support.submit("a", { idempotencyKey: "a" })
      yield* support.settled("a")
      const [request] = yield* Effect.flatMap(ScriptedModel, (model) => model.calls)
      const texts = request!.prompt.content.map((message) =>
        typeof message.content === "string"
          ? message.content
          : message.content.map((part) => part.type === "text" ? part.text : "?").join("|")
      )
      assert.deepStrictEqual(texts, ["before\n\nmine\n\nafter", "look|a|end"])
      assert.deepStrictEqual(yield* support.transcript(), ["user: a", "assistant: 1"])
    }).pipe(Effect.provide(support.world([text("1")], {
      hooks: Hooks.layer({
        before_prompt_build: () =>
          Effect.succeed({
            systemPrompt: "mine",
            prependSystemContext: "before",
            appendSystemContext: "after",
            prependContext: "look",
            appendContext: "end"
          })
      })
    }))))

  it.scoped("before_tool_call denies a call: the model gets the reason, and the tool does not run (11)", () =>
    Effect.gen(function*() {
      yield* support.submit("a", { idempotencyKey: "a" })
      yield* support.settled("a")
      assert.deepStrictEqual((yield* support.transcript()).slice(2), ["tool: !not today", "assistant: 1"])
    }).pipe(Effect.provide(support.world([toolCall("echo", { text: "x" }), text("1")], {
      tools: support.tools(() => Effect.dieMessage("the tool ran")),
      hooks: Hooks.layer({ before_tool_call: () => Effect.succeed({ block: true, reason: "not today" }) })
    }))))

  it.scoped("before_tool_call may change the arguments, and the journal keeps what the model asked for (11)", () =>
    Effect.gen(function*() {
      yield* support.submit("a", { idempotencyKey: "a" })
      yield* support.settled("a")
      assert.deepStrictEqual((yield* support.transcript()).slice(1, 3), [
        "assistant: echo({\"text\":\"x\"})",
        "tool: echo changed"
      ])
    }).pipe(Effect.provide(support.world([toolCall("echo", { text: "x" }), text("1")], {
      hooks: Hooks.layer({ before_tool_call: () => Effect.succeed({ params: { text: "changed" } }) })
    }))))

  it.scoped("agent_end is told of every outcome once the run is settled (11.5)", () =>
    Effect.gen(function*() {
      const told = yield* Deferred.make<string>()
      yield* Effect.gen(function*() {
        yield* support.submit("a", { idempotencyKey: "a" })
        assert.strictEqual(yield* Deferred.await(told), "a completed 2")
      }).pipe(Effect.provide(support.world([text("1")], {
        hooks: Hooks.layer({
          agent_end: ({ messages, outcome, runId }) => Deferred.succeed(told, `${runId} ${outcome} ${messages.length}`)
        })
      })))
    }))

  it.scoped("higher priority first, ties by registration; a block is sticky and stops lower ones (11.1, 11.2)", () =>
    Effect.gen(function*() {
      const order: Array<string> = []
      const guard = (name: string, priority: number, block?: boolean) =>
        Hooks.layer({
          before_tool_call: () =>
            Effect.sync(() => {
              order.push(name)
              return block === undefined ? undefined : { block, reason: name }
            })
        }, { name, priority })
      const hooks = yield* made(guard("a", 0, false), guard("b", 5), guard("c", 0, true), guard("d", -1, false))
      assert.deepStrictEqual(yield* hooks.beforeToolCall(call), { block: true, reason: "c" })
      assert.deepStrictEqual(order, ["b", "a", "c"])
    }))

  it.scoped("a hook that throws, dies or hangs changes nothing, but for a guard, which then denies (11.3)", () =>
    Effect.gen(function*() {
      const bad = [
        () => Effect.fail("no"),
        () => Effect.die(new Error("no")),
        () => {
          throw new Error("no")
        },
        () => Effect.never
      ]
      for (const hook of bad) {
        const hooks = yield* made(
          Hooks.layer({ before_prompt_build: () => Effect.succeed({ prependContext: "kept" }) }),
          Hooks.layer({ before_prompt_build: hook, before_tool_call: hook, agent_end: hook }, { name: "bad" })
        )
        const results = yield* Effect.fork(Effect.all([
          hooks.beforePromptBuild({ ...run, messages: [] }),
          hooks.beforeToolCall(call),
          Effect.as(hooks.agentEnd!({ ...run, outcome: "completed", messages: [] }), "ended")
        ]))
        for (let index = 0; index < 3; index += 1) yield* TestClock.adjust("30 seconds")
        const [prompt, decision, ended] = yield* Fiber.join(results)
        assert.strictEqual(prompt.prependContext, "kept")
        assert.isTrue(decision.block)
        assert.match(decision.reason!, /^The hook "bad"/)
        assert.strictEqual(ended, "ended")
      }
    }))
})
