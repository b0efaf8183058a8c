import { assert, describe, it } from "@effect/vitest"
import { Outbox } from "@switchyard/core/Delivery"
import * as Journal from "@switchyard/core/Journal"
import { SessionHost } from "@switchyard/core/SessionHost"
import { Sessions } from "@switchyard/core/Sessions"
import { unknownResult } from "@switchyard/core/Transcript"
import * as TranscriptStore from "@switchyard/core/TranscriptStore"
import type { SessionKey } from "@switchyard/protocol/Ids"
import { ScriptedModel, text, toolCall } from "@switchyard/testkit/ScriptedModel"
import { Context, Effect, Fiber, Layer, TestClock } from "effect"
import * as support from "./support.js"

const key = "s" as SessionKey
const recover = Effect.flatMap(Sessions, (sessions) => sessions.recover)
const failure = (committed: "no" | "unknown") =>
  new TranscriptStore.StoreFailure({ reason: "the disk is full", committed })

describe("recovery", () => {
  it.scoped("a run that was streaming when its process died is interrupted; what waited goes on (2.1, 10.1)", () =>
    Effect.gen(function*() {
      const store = yield* TranscriptStore.makeMemory
      const gate = yield* support.gate
      yield* support.killedWorld(
        store,
        [{ text: "1", gate: gate.wait }],
        Effect.gen(function*() {
          yield* support.submit("a", { idempotencyKey: "a" })
          yield* gate.reached
          yield* support.submit("f", { idempotencyKey: "f", mode: "followup" })
          yield* support.submit("s", { idempotencyKey: "s", mode: "steer" })
        })
      )
      yield* Effect.gen(function*() {
        assert.deepStrictEqual(yield* recover, { sessions: 1 })
        const outcomes: Array<string> = []
        for (const runId of ["a", "f", "s"]) outcomes.push((yield* support.settled(runId)).outcome!)
        assert.deepStrictEqual(outcomes, ["interrupted", "completed", "completed"])
        assert.deepStrictEqual((yield* support.transcript()).map((line) => line.slice(0, 12)), [
          "user: a",
          "note: The pr",
          "user: f",
          "assistant: 2",
          "user: s",
          "assistant: 3"
        ])
      }).pipe(
        Effect.provide(support.world([text("2"), text("3")], {
          store: (yield* support.faultyStore(store)).layer
        }))
      )
    }))

  it.scoped("a message accepted and not yet consumed runs after the restart, once (2.1, 10.1)", () =>
    Effect.gen(function*() {
      const store = yield* TranscriptStore.makeMemory
      const gate = yield* support.gate
      yield* support.killedWorld(
        store,
        [{ text: "other", gate: gate.wait }],
        Effect.gen(function*() {
          yield* support.submit("o", { sessionKey: "busy" })
          yield* gate.reached
          yield* support.submit("a", { idempotencyKey: "a" })
        }),
        { lanes: 1 }
      )
      yield* Effect.gen(function*() {
        yield* recover
        assert.strictEqual((yield* support.settled("a")).outcome, "completed")
        assert.deepStrictEqual(yield* support.transcript(), ["user: a", "assistant: 2"])
        const again = yield* support.submit("a", { idempotencyKey: "a" })
        assert.deepStrictEqual([again.replayed, again.disposition], [true, "started"])
      }).pipe(Effect.provide(support.world(() => text("2"), { store: (yield* support.faultyStore(store)).layer })))
    }))

  it.scoped("an answered abort wins over a crash, also before the run consumed its message (8.3)", () =>
    Effect.gen(function*() {
      const store = yield* TranscriptStore.makeMemory
      const gate = yield* support.gate
      yield* support.killedWorld(
        store,
        [{ text: "other", gate: Effect.uninterruptible(gate.wait) }],
        Effect.gen(function*() {
          const sessions = yield* Sessions
          yield* support.submit("o", { sessionKey: "busy", idempotencyKey: "o" })
          yield* gate.reached
          yield* sessions.abort({ runId: "o" })
        })
      ).pipe(
        Effect.fork,
        Effect.flatMap((fiber) => Effect.zipRight(gate.reached, Effect.as(gate.open, fiber))),
        Effect.flatMap(Fiber.join)
      )
      const rows = yield* store.read("busy" as SessionKey, 0)
      yield* Effect.gen(function*() {
        yield* recover
        assert.strictEqual((yield* support.settled("o")).outcome, "aborted")
      }).pipe(Effect.provide(support.world([], { store: (yield* support.faultyStore(store)).layer })))
      assert.include(rows.map((row) => row.kind), "abort_requested")
    }))

  it.scoped("a crash in delivery settles completed, delivery unknown, and sends nothing again (4.6)", () =>
    Effect.gen(function*() {
      const store = yield* TranscriptStore.makeMemory
      const gate = yield* support.gate
      yield* support.killedWorld(
        store,
        [text("1")],
        Effect.gen(function*() {
          const outbox = yield* Outbox
          yield* outbox.onSend(() => gate.wait)
          yield* support.submit("a", { idempotencyKey: "a", route: { channel: "chat" } })
          yield* gate.reached
        })
      )
      yield* Effect.gen(function*() {
        yield* recover
        const wait = yield* support.settled("a")
        assert.deepStrictEqual([wait.outcome, wait.delivery, wait.reply], ["completed", "unknown", "1"] as never)
        assert.deepStrictEqual(yield* Effect.flatMap(Outbox, (outbox) => outbox.sent), [])
      }).pipe(Effect.provide(support.world([], { store: (yield* support.faultyStore(store)).layer })))
    }))

  it.scoped("a call without a result gets one in what the model sees, and the journal stays (10.2, 10.4)", () =>
    Effect.gen(function*() {
      const store = yield* TranscriptStore.makeMemory
      const gate = yield* support.gate
      yield* support.killedWorld(
        store,
        [toolCall("echo", { text: "x" })],
        Effect.zipRight(support.submit("a", { idempotencyKey: "a" }), gate.reached),
        { tools: support.tools(() => gate.wait) }
      )
      yield* Effect.gen(function*() {
        yield* recover
        yield* support.submit("b", { idempotencyKey: "b" })
        yield* support.settled("b")
        const [call] = yield* Effect.flatMap(ScriptedModel, (model) => model.calls)
        const tool = call!.prompt.content.find((message) => message.role === "tool")!
        assert.deepStrictEqual(tool.content.map(({ isFailure, result }) => [isFailure, result]), [[
          true,
          unknownResult
        ]])
        assert.notInclude((yield* store.read(key, 0)).map((row) => row.kind), "tool_result")
      }).pipe(Effect.provide(support.world([text("2")], { store: (yield* support.faultyStore(store)).layer })))
    }))

  it.scoped("a payload that cannot be read is shown as such, and its message does not run again (10.3)", () =>
    Effect.gen(function*() {
      const store = yield* TranscriptStore.makeMemory
      const rows = Journal.toRows({
        session: key,
        activation: "old",
        generation: 1,
        follows: 0,
        entries: [
          Journal.entry("opened", 0, { sessionId: "id" as never }),
          Journal.entry("accepted", 0, {} as never, { run: "a" as never, mode: "steer", authority: "x" }),
          Journal.entry("started", 0, {} as never, { run: "a" as never }),
          Journal.entry("consumed", 0, {} as never, { run: "a" as never, into: "a" as never }),
          Journal.entry("settled", 0, {} as never, { run: "a" as never }),
          Journal.entry("accepted", 0, {} as never, { run: "b" as never, mode: "steer", authority: "x" })
        ]
      }).map((row) => row.kind === "opened" ? row : { ...row, payload: "{not json" })
      yield* store.append({ session: key, follows: 0, rows })
      yield* Effect.gen(function*() {
        yield* recover
        assert.strictEqual((yield* support.settled("a")).outcome, "failed")
        assert.strictEqual((yield* support.settled("b")).outcome, "completed")
        const history = yield* Effect.flatMap(Sessions, (sessions) => sessions.history({ sessionKey: "s" }))
        assert.deepStrictEqual(history.messages.map(({ role, unreadable }) => [role, unreadable]), [
          ["user", true],
          ["user", undefined],
          ["assistant", undefined]
        ])
      }).pipe(Effect.provide(support.world([text("2")], { store: (yield* support.faultyStore(store)).layer })))
    }))
})

describe("a store that fails", () => {
  it.scoped("a submission that could not be committed is refused, recorded nowhere, and may be sent again (2.5)", () =>
    Effect.gen(function*() {
      const faulty = yield* support.faultyStore()
      yield* Effect.gen(function*() {
        yield* faulty.beforeAppend(() => Effect.fail(failure("no")))
        const error = yield* Effect.flip(support.submit("a", { idempotencyKey: "a" }))
        assert.deepInclude({ ...error }, { _tag: "StoreUnavailable", retryable: true })
        assert.deepStrictEqual(yield* faulty.behind.read(key, 0), [])
        yield* faulty.beforeAppend(() => Effect.void)
        const accepted = yield* support.submit("a", { idempotencyKey: "a" })
        assert.isUndefined(accepted.replayed)
        assert.strictEqual((yield* support.settled("a")).outcome, "completed")
      }).pipe(Effect.provide(support.world([text("1")], { store: faulty.layer })))
    }))

  it.scoped("from acceptance on, a failing store delays the run and loses nothing (3.11)", () =>
    Effect.gen(function*() {
      const faulty = yield* support.faultyStore()
      yield* Effect.gen(function*() {
        let down = false
        yield* faulty.beforeAppend(() => down ? Effect.fail(failure("no")) : Effect.void)
        yield* faulty.afterAppend(({ rows }) =>
          Effect.sync(() => {
            if (rows.some((row) => row.kind === "accepted")) down = true
          })
        )
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* TestClock.adjust("1 minute")
        assert.deepStrictEqual((yield* faulty.behind.read(key, 0)).map((row) => row.kind), ["opened", "accepted"])
        down = false
        yield* TestClock.adjust("10 seconds")
        assert.strictEqual((yield* support.settled("a")).outcome, "completed")
        assert.deepStrictEqual(yield* support.transcript(), ["user: a", "assistant: 1"])
      }).pipe(Effect.provide(support.world([text("1")], { store: faulty.layer })))
    }))

  it.scoped("an append whose fate is unknown is looked up, and written once (9.6)", () =>
    Effect.gen(function*() {
      const faulty = yield* support.faultyStore()
      yield* Effect.gen(function*() {
        let count = 0
        // every other append is told as unknown: some were written, some not
        yield* faulty.beforeAppend(() => (count += 1) % 3 === 1 ? Effect.fail(failure("unknown")) : Effect.void)
        yield* faulty.afterAppend(() => count % 3 === 2 ? Effect.fail(failure("unknown")) : Effect.void)
        const message = yield* Effect.retry(support.submit("a", { idempotencyKey: "a" }), { times: 3 })
        const result = yield* Effect.fork(support.settled("a"))
        yield* TestClock.adjust("1 minute")
        assert.strictEqual((yield* Fiber.join(result)).outcome, "completed")
        assert.strictEqual(message.runId, "a")
        assert.deepStrictEqual(yield* support.transcript(), [
          "user: a",
          "assistant: echo({\"text\":\"x\"})",
          "tool: echo x",
          "assistant: 1"
        ])
      }).pipe(Effect.provide(support.world([toolCall("echo", { text: "x" }), text("1")], { store: faulty.layer })))
    }))

  it.scoped("an owner that lost its session writes nothing more, and its run says nothing more (9.6)", () =>
    Effect.gen(function*() {
      const store = yield* TranscriptStore.makeMemory
      const gate = yield* support.gate
      const old = support.world((_, index) => index === 0 ? { text: "old", gate: gate.wait } : text("new"), {
        store: (yield* support.faultyStore(store)).layer
      })
      const young = support.world([text("new")], { store: (yield* support.faultyStore(store)).layer })
      yield* Effect.gen(function*() {
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* gate.reached
        // Another process takes the session, as after a lock that was broken.
        yield* Effect.gen(function*() {
          yield* support.submit("b", { idempotencyKey: "b" })
          assert.strictEqual((yield* support.settled("b")).outcome, "completed")
          assert.strictEqual((yield* support.settled("a")).outcome, "interrupted")
        }).pipe(Effect.provide(young))
        const before = yield* store.read(key, 0)
        yield* gate.open
        const host = yield* SessionHost
        // The next message finds the actor gone, activates the session anew and joins the journal's end.
        yield* support.submit("c", { idempotencyKey: "c" })
        assert.strictEqual((yield* support.settled("c")).outcome, "completed")
        const after = yield* store.read(key, 0)
        assert.deepStrictEqual(after.slice(0, before.length), before)
        assert.strictEqual(after.filter((row) => row.kind === "reply").length, 2)
        assert.strictEqual((yield* host.active).length, 1)
      }).pipe(Effect.provide(old))
    }))

  it.scoped("an actor that dies by a fault settles its run failed and is rebuilt, three times in five minutes (9.1)", () =>
    Effect.gen(function*() {
      const faulty = yield* support.faultyStore()
      let faults = 0
      const store = Layer.map(faulty.layer, (context) => {
        const store = Context.get(context, TranscriptStore.TranscriptStore)
        return Context.make(TranscriptStore.TranscriptStore, {
          ...store,
          append: (append) => {
            // not a failure but a fault: it is thrown into the actor
            if (faults > 0 && append.rows.some((row) => row.kind === "reply")) {
              faults -= 1
              throw new Error("fault")
            }
            return store.append(append)
          }
        })
      })
      yield* Effect.gen(function*() {
        faults = 3
        for (const id of ["a", "b", "c"]) {
          yield* support.submit(id, { idempotencyKey: id })
          const wait = yield* support.settled(id)
          assert.deepStrictEqual([wait.outcome, wait.error?.code], ["failed", "internal"] as never)
        }
        yield* support.submit("d", { idempotencyKey: "d" })
        assert.strictEqual((yield* support.settled("d")).outcome, "completed")
        faults = 1
        yield* support.submit("e", { idempotencyKey: "e" })
        const { active } = yield* SessionHost
        yield* Effect.repeat(Effect.zipRight(Effect.yieldNow(), active), { until: (refs) => refs.length === 0 })
        const rests = yield* Effect.flip(support.submit("f"))
        assert.strictEqual(rests._tag, "StoreUnavailable")
        yield* TestClock.adjust("5 minutes")
        yield* support.submit("g", { idempotencyKey: "g" })
        assert.strictEqual((yield* support.settled("e")).outcome, "interrupted")
        assert.strictEqual((yield* support.settled("g")).outcome, "completed")
      }).pipe(Effect.provide(support.world(() => text("1"), { store })))
    }))
})
