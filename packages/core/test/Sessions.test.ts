import { assert, describe, it } from "@effect/vitest"
import { ModelError } from "@switchyard/core/Model"
import { Sessions } from "@switchyard/core/Sessions"
import type { SessionKey } from "@switchyard/protocol/Ids"
import { ScriptedModel, text, toolCall } from "@switchyard/testkit/ScriptedModel"
import { Effect, Fiber, TestClock } from "effect"
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

  it.scoped("fifty calls at once with one id are one run and fifty equal answers (2.3)", () =>
    Effect.gen(function*() {
      const answers = yield* Effect.all(
        Array.from({ length: 50 }, () => support.submit("hello", { idempotencyKey: "one" })),
        { concurrency: "unbounded" }
      )
      const [first, ...others] = answers
      for (const { replayed: _, ...answer } of others) {
        const { replayed: __, ...same } = first!
        assert.deepStrictEqual(answer, same)
      }
      assert.strictEqual(answers.filter(({ replayed }) => replayed === undefined).length, 1)
      yield* support.settled("one")
      assert.deepStrictEqual(yield* support.transcript(), ["user: hello", "assistant: 1"])
    }).pipe(Effect.provide(support.world([text("1")]))))

  it.scoped("the same id with other text, mode, session or authority is a conflict, also once the run is over (2.3)", () =>
    Effect.gen(function*() {
      yield* support.submit("hello", { idempotencyKey: "one" })
      yield* support.settled("one")
      const guest = { authority: { senderId: "guest", owner: false, scopes: [] } }
      for (
        const again of [
          support.submit("other", { idempotencyKey: "one" }),
          support.submit("hello", { idempotencyKey: "one", mode: "followup" }),
          support.submit("hello", { idempotencyKey: "one", sessionKey: "elsewhere" }),
          support.submit("hello", { idempotencyKey: "one" }, guest)
        ]
      ) {
        assert.strictEqual((yield* Effect.flip(again))._tag, "IdempotencyConflict")
      }
      assert.isTrue((yield* support.submit("hello", { idempotencyKey: "one" })).replayed)
    }).pipe(Effect.provide(support.world([text("1")]))))

  it.scoped("a session may be named by its id; a key that does not agree is refused (2.1)", () =>
    Effect.gen(function*() {
      const { sessionId } = yield* support.submit("a", { idempotencyKey: "a" })
      yield* support.settled("a")
      const byId = yield* support.submit("b", { idempotencyKey: "b", sessionKey: undefined, sessionId })
      assert.deepStrictEqual([byId.sessionKey, byId.sessionId], ["s" as never, sessionId])
      yield* support.settled("b")
      const wrong = yield* Effect.flip(support.submit("c", { sessionKey: "t", sessionId }))
      const unknown = yield* Effect.flip(support.submit("c", { sessionKey: undefined, sessionId: "nope" }))
      assert.deepStrictEqual([wrong._tag, unknown._tag], ["InvalidRequest", "InvalidRequest"])
    }).pipe(Effect.provide(support.world([text("1"), text("2")]))))

  it.scoped("a full mailbox refuses at once, records nothing, and takes messages again later (2.2, 2.5)", () =>
    Effect.gen(function*() {
      const faulty = yield* support.faultyStore()
      yield* Effect.gen(function*() {
        const answers = yield* Effect.all(
          Array.from(
            { length: 40 },
            (_, index) => Effect.either(support.submit(`m${index}`, { idempotencyKey: `m${index}`, mode: "followup" }))
          ),
          { concurrency: "unbounded" }
        )
        const refused = answers.flatMap((answer) => answer._tag === "Left" ? [answer.left] : [])
        const taken = answers.flatMap((answer) => answer._tag === "Right" ? [answer.right.runId] : [])
        assert.isAbove(refused.length, 0)
        for (const error of refused) {
          assert.deepInclude({ ...error }, { _tag: "SessionBusy", retryable: true, retryAfterMs: 100 })
        }
        for (const runId of taken) assert.strictEqual((yield* support.settled(runId)).outcome, "completed")
        const rows = yield* faulty.behind.read("s" as SessionKey, 0)
        assert.strictEqual(rows.filter((row) => row.kind === "accepted").length, taken.length)
        assert.strictEqual((yield* support.submit("later")).disposition, "started")
      }).pipe(Effect.provide(support.world(() => text("x"), { store: faulty.layer, settings: { mailboxCapacity: 8 } })))
    }))

  it.scoped("a caller that goes away after its offer changes nothing (2.1)", () =>
    Effect.gen(function*() {
      const faulty = yield* support.faultyStore()
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        yield* faulty.beforeAppend(() => gate.wait)
        const caller = yield* Effect.fork(support.submit("a", { idempotencyKey: "a" }))
        yield* gate.reached
        yield* Fiber.interrupt(caller)
        yield* gate.open
        const again = yield* Effect.retry(support.settled("a"), {
          while: (error) => error._tag === "RunNotFound",
          times: 100
        })
        assert.strictEqual(again.outcome, "completed")
      }).pipe(Effect.provide(support.world([text("1")], { store: faulty.layer })))
    }))

  it.scoped("a wait that is over says timeout and not settled, 0 answers at once, and neither ends the run (6.1, 6.2, 6.7)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        const sessions = yield* Sessions
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* gate.reached
        assert.deepInclude(yield* sessions.wait({ runId: "a", timeoutMs: 0 }), { status: "timeout", settled: false })
        const wait = yield* Effect.fork(sessions.wait({ runId: "a" }))
        yield* TestClock.adjust("30 seconds")
        assert.deepInclude(yield* Fiber.join(wait), { status: "timeout", settled: false })
        yield* gate.open
        assert.strictEqual((yield* support.settled("a")).outcome, "completed")
        for (const timeoutMs of [-1, Number.NaN, Infinity, "soon"]) {
          const error = yield* Effect.flip(sessions.wait({ runId: "a", timeoutMs }))
          assert.deepInclude({ ...error }, { _tag: "InvalidRequest", field: "timeoutMs" })
        }
      }).pipe(Effect.provide(support.world([{ text: "1", gate: gate.wait }])))
    }))

  it.scoped("a model that fails ends its run with a typed error, keeps the text so far, and the next message runs (3.12)", () =>
    Effect.gen(function*() {
      yield* support.submit("a", { idempotencyKey: "a" })
      const wait = yield* support.settled("a")
      assert.deepStrictEqual([wait.status, wait.outcome, wait.error?.code], ["error", "failed", "model_overloaded"])
      yield* support.submit("b", { idempotencyKey: "b" })
      assert.strictEqual((yield* support.settled("b")).error?.code, "model_unavailable")
      yield* support.submit("c", { idempotencyKey: "c" })
      assert.strictEqual((yield* support.settled("c")).outcome, "completed")
      assert.deepStrictEqual((yield* support.transcript()).filter((line) => !line.startsWith("note")), [
        "user: a",
        "assistant[failed]: half",
        "user: b",
        "assistant[failed]: cut",
        "user: c",
        "assistant: ok"
      ])
    }).pipe(Effect.provide(support.world([
      { text: "half", error: new ModelError({ provider: "p", code: "overloaded", reason: "it is busy" }) },
      { text: "cut", finish: "none" },
      text("ok")
    ]))))

  it.scoped("calls of an answer that was cut by length, or that did not end for tools, are not kept and do not run (4.4)", () =>
    Effect.gen(function*() {
      yield* support.submit("a", { idempotencyKey: "a" })
      yield* support.settled("a")
      yield* support.submit("b", { idempotencyKey: "b" })
      yield* support.settled("b")
      assert.deepStrictEqual(yield* support.transcript(), [
        "user: a",
        "assistant[length]: long",
        "user: b",
        "assistant: stop"
      ])
    }).pipe(Effect.provide(support.world([
      { text: "long", toolCalls: [{ name: "echo", params: { text: "x" } }], finish: "length" },
      { text: "stop", toolCalls: [{ name: "echo", params: { text: "x" } }], finish: "stop" }
    ]))))

  it.scoped("unknown tools, wrong arguments and repeated call ids give error results, and the run goes on (15)", () =>
    Effect.gen(function*() {
      yield* support.submit("a", { idempotencyKey: "a" })
      assert.strictEqual((yield* support.settled("a")).outcome, "completed")
      const lines = yield* support.transcript()
      assert.match(lines[2]!, /^tool: !There is no tool "nope"\. The tools are: echo, alone\.$/)
      assert.match(lines[3]!, /^tool: !Failed to decode tool call parameters/)
      assert.deepStrictEqual(lines.slice(4), ["tool: echo x", "tool: echo y", "assistant: end"])
      const calls = yield* Effect.flatMap(ScriptedModel, (model) => model.calls)
      const results = calls[1]!.prompt.content.flatMap((message) => message.role === "tool" ? message.content : [])
      assert.deepStrictEqual(results.map(({ id }) => id), ["1", "2", "3", "3-2"])
    }).pipe(Effect.provide(support.world([
      {
        toolCalls: [
          { id: "1", name: "nope", params: {} },
          { id: "2", name: "echo", params: { wrong: 1 } },
          { id: "3", name: "echo", params: { text: "x" } },
          { id: "3", name: "echo", params: { text: "y" } }
        ]
      },
      text("end")
    ]))))

  it.scoped("history and lists come in pages (2)", () =>
    Effect.gen(function*() {
      const sessions = yield* Sessions
      for (const id of ["a", "b", "c"]) {
        yield* support.submit(id, { idempotencyKey: id, sessionKey: id })
        yield* support.settled(id)
      }
      const first = yield* sessions.list({ limit: 2 })
      const second = yield* sessions.list({ limit: 2, after: first.next })
      assert.deepStrictEqual([...first.sessions, ...second.sessions].map(({ sessionKey }) => sessionKey as string), [
        "a",
        "b",
        "c"
      ])
      assert.isNull(second.next)
      const one = yield* sessions.history({ sessionKey: "a", limit: 1 })
      const two = yield* sessions.history({ sessionKey: "a", limit: 1, after: one.next })
      assert.deepStrictEqual([...one.messages, ...two.messages].map(support.line), ["user: a", "assistant: x"])
      assert.isNull(two.next)
      const error = yield* Effect.flip(sessions.history({ sessionKey: "nobody" }))
      assert.strictEqual(error._tag, "SessionNotFound")
    }).pipe(Effect.provide(support.world(() => text("x")))))

  it.scoped("an unknown run cannot be waited for, aborted or followed (6.4)", () =>
    Effect.gen(function*() {
      const sessions = yield* Sessions
      for (const effect of [sessions.wait({ runId: "x" }), sessions.abort({ runId: "x" }), support.events("x")]) {
        const error = yield* Effect.flip(effect as Effect.Effect<unknown, { readonly _tag: string }>)
        assert.strictEqual(error._tag, "RunNotFound")
      }
    }).pipe(Effect.provide(support.world([]))))
})
