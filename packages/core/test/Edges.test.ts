import { assert, describe, it } from "@effect/vitest"
import { EventHub } from "@switchyard/core/EventHub"
import * as Hooks from "@switchyard/core/Hooks"
import { Sessions } from "@switchyard/core/Sessions"
import * as TranscriptStore from "@switchyard/core/TranscriptStore"
import type { SessionKey } from "@switchyard/protocol/Ids"
import { ScriptedModel, text, toolCall } from "@switchyard/testkit/ScriptedModel"
import { Context, Effect, Fiber, Layer, Option, TestClock } from "effect"
import * as support from "./support.js"

const key = "s" as SessionKey
const breathe = Effect.repeatN(Effect.yieldNow(), 200)

describe("edges", () => {
  it.scoped("a hook that does not let itself be interrupted denies at its limit (11.3)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        const sessions = yield* Sessions
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* gate.reached
        yield* TestClock.adjust("1 hour")
        yield* breathe
        const wait = yield* sessions.wait({ runId: "a", timeoutMs: 0 })
        yield* gate.open
        assert.strictEqual(wait.outcome, "completed")
      }).pipe(Effect.provide(support.world([toolCall("echo", { text: "x" }), text("end")], {
        hooks: Hooks.layer({ before_tool_call: () => Effect.uninterruptible(gate.wait) })
      })))
    }))

  it.scoped("an owner that was robbed does not invent an outcome for a run of the new owner (9.6, 8.3)", () =>
    Effect.gen(function*() {
      const store = yield* TranscriptStore.makeMemory
      const gate = yield* support.gate
      const old = support.world([text("1")], { store: (yield* support.faultyStore(store)).layer })
      const young = support.world([{ text: "2", gate: gate.wait }], {
        store: (yield* support.faultyStore(store)).layer
      })
      yield* Effect.gen(function*() {
        const sessions = yield* Sessions
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* support.settled("a")
        yield* Effect.gen(function*() {
          yield* support.submit("b", { idempotencyKey: "b" })
          yield* gate.reached
          const answer = yield* Effect.either(sessions.abort({ runId: "b" }))
          assert.notDeepEqual(
            answer._tag === "Right" ? { ...answer.right } : {},
            { runId: "b", status: "settled", outcome: "failed" } as never
          )
        }).pipe(Effect.provide(young))
      }).pipe(Effect.provide(old))
    }))

  it.scoped("context of before_prompt_build stands with the run's own message", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        yield* support.submit("other", { sessionKey: "busy", idempotencyKey: "o" })
        yield* gate.reached
        yield* support.submit("own", { idempotencyKey: "a" })
        yield* support.submit("steer", { idempotencyKey: "b" })
        yield* gate.open
        yield* support.settled("a")
        const calls = yield* Effect.flatMap(ScriptedModel, (model) => model.calls)
        const users = calls[1]!.prompt.content.filter((m) => m.role === "user").map((m) =>
          (m.content as ReadonlyArray<{ readonly text?: string }>).map((p) => p.text).join("|")
        )
        assert.deepStrictEqual(users, ["ctx|own", "steer"])
      }).pipe(Effect.provide(support.world([{ text: "one", gate: gate.wait }, text("two")], {
        lanes: 1,
        hooks: Hooks.layer({ before_prompt_build: () => Effect.succeed({ prependContext: "ctx" }) })
      })))
    }))

  it.scoped("an actor that died is rebuilt although its run does not end (9.1)", () =>
    Effect.gen(function*() {
      const faulty = yield* support.faultyStore()
      const gate = yield* support.gate
      let fault = false
      const store = Layer.map(faulty.layer, (context) => {
        const store = Context.get(context, TranscriptStore.TranscriptStore)
        return Context.make(TranscriptStore.TranscriptStore, {
          ...store,
          append: (append) => {
            if (fault) {
              fault = false
              throw new Error("fault")
            }
            return store.append(append)
          }
        })
      })
      yield* Effect.gen(function*() {
        const sessions = yield* Sessions
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* gate.reached
        fault = true
        const b = yield* Effect.fork(Effect.either(support.submit("b", { idempotencyKey: "b", mode: "followup" })))
        yield* breathe
        yield* TestClock.adjust("1 hour")
        yield* breathe
        const wait = yield* sessions.wait({ runId: "a", timeoutMs: 0 })
        const told = yield* Fiber.poll(b)
        yield* gate.open
        assert.deepStrictEqual([wait.outcome, Option.isSome(told)], ["failed", true] as never)
      }).pipe(Effect.provide(support.world((_, index) =>
        index === 0
          ? {
            gateBetween: () => Effect.uninterruptible(gate.wait),
            text: ["x", "y"]
          }
          : text("2"), { store })))
    }))

  it.scoped("run ids that a session has seen do not pile up in the hub (memory)", () =>
    Effect.gen(function*() {
      const hub = yield* EventHub
      const channel = hub.open(key, "act", yield* Effect.clock, () => ({ lastSeq: 0, activeRunId: null, waiting: [] }))
      const note = { stream: "queue", data: { type: "accepted", disposition: "queued" } } as const
      const sizes: Array<number> = []
      const original = Map.prototype.set
      const maps = new Set<Map<unknown, unknown>>()
      Map.prototype.set = function(this: Map<unknown, unknown>, k: unknown, v: unknown) {
        if (typeof k === "string" && /^r\d+$/.test(k)) maps.add(this)
        return original.call(this, k, v)
      } as never
      for (let n = 0; n < 30_000; n += 1) {
        channel.publish(`r${n}` as never, note)
        channel.publish(`r${n}` as never, {
          stream: "lifecycle",
          data: { type: "end", outcome: "completed", endedAt: 0 }
        })
      }
      Map.prototype.set = original
      yield* TestClock.adjust("10 minutes")
      for (let n = 0; n < 20_000; n += 1) channel.publish("z" as never, note)
      for (const map of maps) sizes.push(map.size)
      assert.isTrue(sizes.every((size) => size <= 11_000), sizes.join(" "))
    }).pipe(Effect.provide(support.world([]))))

  it.scoped("two interrupts sent at once with one id, while another session has that id, leave the run alone (2.3)", () =>
    Effect.gen(function*() {
      const faulty = yield* support.faultyStore()
      const gate = yield* support.gate
      const held = yield* support.gate
      yield* Effect.gen(function*() {
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* gate.reached
        // the same id goes into another session first, and its commit is on the way
        yield* faulty.beforeAppend(({ session }) => session === "t" ? held.wait : Effect.void)
        yield* faulty.afterAppend(() => Effect.void)
        const other = yield* Effect.fork(support.submit("k", { sessionKey: "t", idempotencyKey: "k" }))
        yield* held.reached
        const blocked = yield* support.gate
        yield* faulty.beforeAppend(({ session }) => session === "s" ? blocked.wait : Effect.void)
        const mine = yield* Effect.fork(Effect.either(support.submit("i", { idempotencyKey: "k", mode: "interrupt" })))
        yield* blocked.reached
        yield* held.open
        yield* Fiber.join(other)
        yield* blocked.open
        const result = yield* Fiber.join(mine)
        assert.strictEqual(result._tag === "Left" ? result.left._tag : "", "IdempotencyConflict")
        yield* faulty.beforeAppend(() => Effect.void)
        yield* gate.open
        assert.strictEqual((yield* support.settled("a")).outcome, "completed")
      }).pipe(
        Effect.provide(
          support.world((_, index) => index === 0 ? { text: "1", gate: gate.wait } : text("x"), { store: faulty.layer })
        )
      )
    }))
})
