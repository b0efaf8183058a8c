import { assert, describe, it } from "@effect/vitest"
import { Outbox } from "@switchyard/core/Delivery"
import { EventHub } from "@switchyard/core/EventHub"
import * as Journal from "@switchyard/core/Journal"
import * as Lanes from "@switchyard/core/Lanes"
import * as Prompts from "@switchyard/core/Prompts"
import { SessionHost } from "@switchyard/core/SessionHost"
import { Sessions } from "@switchyard/core/Sessions"
import * as TranscriptStore from "@switchyard/core/TranscriptStore"
import type { SessionKey } from "@switchyard/protocol/Ids"
import { ScriptedModel, text, toolCall } from "@switchyard/testkit/ScriptedModel"
import { Deferred, Effect, Exit, Fiber, Layer, Option, Runtime, Stream, TestClock } from "effect"
import * as support from "./support.js"

const key = "s" as SessionKey
const failure = (committed: "no" | "unknown") =>
  new TranscriptStore.StoreFailure({ reason: "the disk is full", committed })
const breathe = Effect.repeatN(Effect.yieldNow(), 200)

describe("what goes wrong around a session", () => {
  it.scoped("an interrupt that was refused (StoreUnavailable) leaves the run alone (2.5, 3.8)", () =>
    Effect.gen(function*() {
      const faulty = yield* support.faultyStore()
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* gate.reached
        yield* faulty.beforeAppend(({ rows }) =>
          rows.some((row) => row.kind === "accepted") ? Effect.fail(failure("no")) : Effect.void
        )
        const error = yield* Effect.flip(support.submit("i", { idempotencyKey: "i", mode: "interrupt" }))
        assert.strictEqual(error._tag, "StoreUnavailable")
        yield* breathe
        yield* gate.open
        const wait = yield* support.settled("a")
        assert.deepStrictEqual([wait.outcome, wait.error], ["completed", undefined] as never)
      }).pipe(Effect.provide(support.world([{ text: "1", gate: gate.wait }], { store: faulty.layer })))
    }))

  it.scoped("while an append is in flight the mailbox refuses what is beyond its capacity (2.2)", () =>
    Effect.gen(function*() {
      const faulty = yield* support.faultyStore()
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        yield* faulty.beforeAppend(() => gate.wait)
        let refused = 0
        for (let n = 0; n < 200; n += 1) {
          yield* Effect.fork(
            Effect.catchTag(support.submit(`m${n}`, { mode: "followup" }), "SessionBusy", () =>
              Effect.sync(() => {
                refused += 1
              }))
          )
          if (n % 4 === 0) yield* breathe
        }
        yield* breathe
        assert.isAbove(refused, 0)
        yield* gate.open
      }).pipe(Effect.provide(support.world(() => text("x"), { store: faulty.layer, settings: { mailboxCapacity: 8 } })))
    }))

  it.scoped("a submission behind a failing append is refused after a while, not held for ever (2.5)", () =>
    Effect.gen(function*() {
      const faulty = yield* support.faultyStore()
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* gate.reached
        yield* faulty.beforeAppend(() => Effect.fail(failure("no")))
        yield* gate.open
        yield* breathe
        const late = yield* Effect.fork(Effect.exit(support.submit("b", { idempotencyKey: "b" })))
        yield* TestClock.adjust("10 minutes")
        const result = yield* Fiber.poll(late)
        assert.isTrue(Option.isSome(result))
      }).pipe(Effect.provide(support.world([{ text: "1", gate: gate.wait }], { store: faulty.layer })))
    }))

  it.scoped("an answer that was complete when the abort came is kept (8.4)", () =>
    Effect.gen(function*() {
      let strike: () => void = () => {}
      yield* Effect.gen(function*() {
        const host = yield* SessionHost
        const runtime = yield* Effect.runtime<never>()
        strike = () => {
          const ref = Option.getOrThrow(Runtime.runSync(runtime)(host.peek(key)))
          Runtime.runFork(runtime)(ref.abort("a" as never))
        }
        yield* support.submit("a", { idempotencyKey: "a" })
        assert.strictEqual((yield* support.settled("a")).outcome, "aborted")
        assert.strictEqual((yield* support.transcript())[1], "assistant[aborted]: all of it")
      }).pipe(Effect.provide(support.world([{ text: "all of it", gate: Effect.sync(() => strike()) }])))
    }))

  it.scoped("a session that could not be opened at recovery goes on once it can be (3.10, 3.11, 10.1)", () =>
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
        })
      )
      let reads = 0
      const flaky = Layer.succeed(TranscriptStore.TranscriptStore, {
        ...store,
        read: (session, after, limit) =>
          Effect.suspend(() => (reads += 1) === 1 ? Effect.fail(failure("no")) : store.read(session, after, limit))
      })
      yield* Effect.gen(function*() {
        const sessions = yield* Sessions
        yield* sessions.recover
        yield* TestClock.adjust("1 hour")
        assert.strictEqual((yield* sessions.wait({ runId: "f", timeoutMs: 0 })).outcome, "completed")
      }).pipe(Effect.provide(support.world([text("2")], { store: flaky })))
    }))

  it.scoped("the deadline ends a run whose preparing hangs (7)", () =>
    Effect.gen(function*() {
      const sessions = yield* Sessions
      yield* support.submit("a", { idempotencyKey: "a", timeoutMs: 60_000 })
      yield* breathe
      yield* TestClock.adjust("61 seconds")
      yield* breathe
      assert.strictEqual((yield* sessions.wait({ runId: "a", timeoutMs: 0 })).outcome, "deadline")
    }).pipe(Effect.provide(hangingPrompts)))

  it.scoped("a send that neither answers nor lets itself be interrupted is unknown after 15 s (4.6)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        const outbox = yield* Outbox
        const sessions = yield* Sessions
        yield* outbox.onSend(() => Effect.uninterruptible(gate.wait))
        yield* support.submit("a", { idempotencyKey: "a", route: { channel: "chat" } })
        yield* gate.reached
        yield* TestClock.adjust("1 hour")
        yield* breathe
        const wait = yield* sessions.wait({ runId: "a", timeoutMs: 0 })
        yield* gate.open
        assert.deepStrictEqual([wait.outcome, wait.delivery], ["completed", "unknown"] as never)
      }).pipe(Effect.provide(support.world([text("1")])))
    }))

  it.scoped("a send that interrupts itself leaves the run completed (4.6)", () =>
    Effect.gen(function*() {
      const outbox = yield* Outbox
      yield* outbox.onSend(() => Effect.interrupt)
      yield* support.submit("a", { idempotencyKey: "a", route: { channel: "chat" } })
      const wait = yield* support.settled("a")
      assert.deepStrictEqual([wait.outcome, wait.delivery], ["completed", "unknown"] as never)
    }).pipe(Effect.provide(support.world([text("1")]))))

  it.scoped("what the model sees has no call id twice (10.2)", () =>
    Effect.gen(function*() {
      yield* support.submit("a", { idempotencyKey: "a" })
      yield* support.settled("a")
      const calls = yield* Effect.flatMap(ScriptedModel, (model) => model.calls)
      const ids = calls[2]!.prompt.content.flatMap((message) =>
        message.role === "assistant"
          ? message.content.flatMap((part) => part.type === "tool-call" ? [part.id] : [])
          : []
      )
      assert.deepStrictEqual(Array.from(new Set(ids)), ids)
    }).pipe(Effect.provide(support.world([
      { toolCalls: [{ id: "call_0", name: "echo", params: { text: "x" } }] },
      { toolCalls: [{ id: "call_0", name: "echo", params: { text: "y" } }] },
      text("end")
    ]))))

  it.scoped("calls with ids 1-2 and 1 are two calls with two results (10.2, 4.3)", () =>
    Effect.gen(function*() {
      yield* support.submit("a", { idempotencyKey: "a" })
      yield* support.settled("a")
      assert.deepStrictEqual((yield* support.transcript()).slice(2), ["tool: echo x", "tool: echo y", "assistant: end"])
    }).pipe(Effect.provide(support.world([
      {
        toolCalls: [{ id: "1-2", name: "echo", params: { text: "x" } }, {
          id: "1",
          name: "echo",
          params: { text: "y" }
        }]
      },
      text("end")
    ]))))

  it.scoped("a signal given with /stop leaves no waiter behind (9.1)", () =>
    Effect.gen(function*() {
      const sessions = yield* Sessions
      const hub = yield* EventHub
      yield* sessions.submit({ sessionKey: "s", message: "/stop" }, { signal: new AbortController().signal })
      yield* breathe
      assert.strictEqual((yield* hub.counts).waiters, 0)
    }).pipe(Effect.provide(support.world([]))))

  it.scoped("a message whose submitter went away during the commit can be aborted (2.1, 8.3)", () =>
    Effect.gen(function*() {
      const faulty = yield* support.faultyStore()
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        const sessions = yield* Sessions
        yield* faulty.beforeAppend(() => gate.wait)
        const caller = yield* Effect.fork(support.submit("a", { idempotencyKey: "a" }))
        yield* gate.reached
        yield* Fiber.interrupt(caller)
        const abort = yield* Effect.fork(Effect.either(sessions.abort({ runId: "a" })))
        yield* breathe
        yield* gate.open
        const result = yield* Fiber.join(abort)
        assert.strictEqual(result._tag, "Right")
      }).pipe(Effect.provide(support.world([text("1")], { store: faulty.layer })))
    }))

  it.scoped("a replay at the door does not make the abort of a started run say cancelled (8.3)", () =>
    Effect.gen(function*() {
      const faulty = yield* support.faultyStore()
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        const sessions = yield* Sessions
        yield* faulty.beforeAppend(() => gate.wait)
        yield* Effect.fork(support.submit("a", { idempotencyKey: "a" }))
        yield* gate.reached
        const both = yield* Effect.fork(Effect.all([
          support.submit("a", { idempotencyKey: "a" }),
          sessions.abort({ runId: "a" })
        ], { concurrency: 2 }))
        yield* breathe
        yield* gate.open
        const [, abort] = yield* Fiber.join(both)
        const { outcome } = yield* support.settled("a")
        assert.deepStrictEqual([abort.status, outcome], ["aborting", "aborted"] as never)
      }).pipe(Effect.provide(support.world([text("1")], { store: faulty.layer })))
    }))

  it.scoped("a replay of /stop does not touch what came after it (2.3, 8.6)", () =>
    Effect.gen(function*() {
      const faulty = yield* support.faultyStore()
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        yield* faulty.beforeAppend(() => gate.wait)
        yield* Effect.fork(support.submit("/stop", { idempotencyKey: "x" }))
        yield* gate.reached
        yield* Effect.fork(support.submit("b", { idempotencyKey: "b" }))
        yield* breathe
        const again = yield* Effect.fork(support.submit("/stop", { idempotencyKey: "x" }))
        yield* breathe
        yield* gate.open
        assert.isTrue((yield* Fiber.join(again)).replayed)
        yield* breathe
        assert.strictEqual((yield* support.settled("b")).outcome, "completed")
      }).pipe(Effect.provide(support.world([text("1")], { store: faulty.layer })))
    }))

  it.effect("a lane is first in, first out (4.1)", () =>
    Effect.gen(function*() {
      const lanes = yield* Lanes.Lanes
      const gate = yield* Deferred.make<void>()
      const order: Array<string> = []
      const withPermit = <A>(effect: Effect.Effect<A>) =>
        Effect.acquireUseRelease(lanes.take, () => effect, (giveBack) => Effect.sync(giveBack))
      const enter = (name: string) => withPermit(Effect.sync(() => order.push(name)))
      yield* Effect.fork(withPermit(Deferred.await(gate)))
      yield* breathe
      const b = yield* Effect.fork(enter("b"))
      yield* breathe
      yield* Deferred.succeed(gate, undefined)
      const c = yield* Effect.fork(enter("c"))
      yield* Fiber.joinAll([b, c])
      assert.deepStrictEqual(order, ["b", "c"])
    }).pipe(Effect.provide(Lanes.layer({ main: 1 }))))

  it.scoped("the members of a run whose abort was answered before a crash do not run (8.3, 3.7)", () =>
    Effect.gen(function*() {
      const store = yield* TranscriptStore.makeMemory
      const gate = yield* support.gate
      const live: Array<unknown> = []
      yield* support.killedWorld(
        store,
        [{ text: "other", gate: Effect.uninterruptible(gate.wait) }],
        Effect.gen(function*() {
          const sessions = yield* Sessions
          yield* support.submit("o", { sessionKey: "busy" })
          yield* gate.reached
          yield* support.submit("c", { idempotencyKey: "c", mode: "collect" })
          yield* support.submit("d", { idempotencyKey: "d", mode: "collect" })
          yield* TestClock.adjust("1 second")
          const error = yield* Effect.flip(sessions.abort({ runId: "c" }))
          live.push(error._tag)
          // the crash comes right behind the commit of the abort
          yield* store.append({
            session: key,
            follows: (yield* store.read(key, 0)).length,
            rows: Journal.toRows({
              session: key,
              activation: "same",
              generation: 1,
              follows: (yield* store.read(key, 0)).length,
              entries: ["c", "d"].map((run) =>
                Journal.entry("abort_requested", 0, { cause: "abort" }, { run: run as never, into: "d" as never })
              )
            })
          })
          yield* gate.open
        }),
        { lanes: 1 }
      )
      assert.deepStrictEqual(live, ["AlreadyMerged"])
      yield* Effect.gen(function*() {
        const sessions = yield* Sessions
        yield* sessions.recover
        yield* TestClock.adjust("1 minute")
        yield* breathe
        assert.strictEqual((yield* support.settled("d")).outcome, "aborted")
        assert.strictEqual((yield* support.settled("c")).outcome, "merged")
      }).pipe(Effect.provide(support.world(() => text("2"), { store: (yield* support.faultyStore(store)).layer })))
    }))

  it.scoped("a follower that comes between the commit of the end and its announcement misses nothing (4.5, 5.2)", () =>
    Effect.gen(function*() {
      const faulty = yield* support.faultyStore()
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        yield* faulty.afterAppend(({ rows }) => rows.some((row) => row.kind === "settled") ? gate.wait : Effect.void)
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* gate.reached
        const follower = yield* support.followRun("a")
        yield* breathe
        yield* gate.open
        const events = yield* Fiber.join(follower)
        assert.include(events.map(support.name), "reply:final")
        assert.deepStrictEqual(events.map(({ seq }) => seq), events.map(({ seq }) => seq).toSorted((a, b) => a - b))
      }).pipe(Effect.provide(support.world([text("1")], { store: faulty.layer })))
    }))

  it.scoped("a wait longer than 2^31 ms waits as long as it says (7.1)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        const sessions = yield* Sessions
        yield* support.submit("a", { idempotencyKey: "a", timeoutMs: 0 })
        yield* gate.reached
        const wait = yield* Effect.fork(sessions.wait({ runId: "a", timeoutMs: 3_000_000_000 }))
        yield* TestClock.adjust("2200000 seconds")
        assert.isTrue(Option.isNone(yield* Fiber.poll(wait)))
      }).pipe(Effect.provide(support.world([{ text: "1", gate: gate.wait }])))
    }))

  it.scoped("a wait that is over says how the run stands then (6)", () =>
    Effect.gen(function*() {
      const one = yield* support.gate
      const two = yield* support.gate
      yield* Effect.gen(function*() {
        const sessions = yield* Sessions
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* one.reached
        yield* support.submit("f", { idempotencyKey: "f", mode: "followup" })
        const wait = yield* Effect.fork(sessions.wait({ runId: "f", timeoutMs: 1000 }))
        yield* breathe
        yield* one.open
        yield* two.reached
        yield* TestClock.adjust("1 second")
        const result = yield* Fiber.join(wait)
        const now = yield* sessions.wait({ runId: "f", timeoutMs: 0 })
        assert.deepStrictEqual(result, now)
      }).pipe(Effect.provide(support.world([{ text: "1", gate: one.wait }, { text: "2", gate: two.wait }])))
    }))

  it.scoped("a late landing of an append told as unknown is not taken for the next one (9.6)", () =>
    Effect.gen(function*() {
      const store = yield* TranscriptStore.makeMemory
      let late: Effect.Effect<void, TranscriptStore.AppendError> | null = null
      let first = true
      const layer = Layer.succeed(TranscriptStore.TranscriptStore, {
        ...store,
        append: (append) =>
          Effect.suspend(() => {
            if (first) {
              first = false
              late = store.append(append)
              return Effect.fail(failure("unknown"))
            }
            if (late === null) return store.append(append)
            const landing = late
            late = null
            return Effect.zipRight(landing, store.append(append))
          })
      })
      yield* Effect.gen(function*() {
        const error = yield* Effect.flip(support.submit("a", { idempotencyKey: "a" }))
        assert.strictEqual(error._tag, "StoreUnavailable")
        const b = yield* Effect.either(support.submit("b", { idempotencyKey: "b" }))
        const rows = yield* store.read(key, 0)
        const there = rows.some((row) => row.kind === "accepted" && row.run === "b")
        assert.deepStrictEqual([b._tag, there], ["Right", true])
      }).pipe(Effect.provide(support.world(() => text("x"), { store: layer })))
    }))

  it("a tool result of undefined is read again as it was written (10.3, 4.3)", () => {
    const entry = Journal.entry("tool_result", 0, {
      message: {
        role: "tool",
        content: [{
          type: "tool-result",
          id: "1",
          name: "t",
          isFailure: false,
          result: undefined,
          providerExecuted: false
        }]
      }
    })
    const [row] = Journal.toRows({ session: key, activation: "a", generation: 1, follows: 0, entries: [entry] })
    assert.isDefined(Journal.fromRow(row!).payload)
  })
})

const hangingPrompts = (() => {
  // the same world with prompts that never come
  return Layer.unwrapScoped(
    Effect.sync(() =>
      support.world([text("1")], { prompts: Layer.succeed(Prompts.Prompts, { system: () => Effect.never }) } as never)
    )
  )
})()
void Exit
void Stream
void toolCall
