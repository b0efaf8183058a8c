import { assert, describe, it } from "@effect/vitest"
import { Outbox } from "@switchyard/core/Delivery"
import { EventHub } from "@switchyard/core/EventHub"
import { SessionHost } from "@switchyard/core/SessionHost"
import { Sessions } from "@switchyard/core/Sessions"
import { TranscriptStore } from "@switchyard/core/TranscriptStore"
import type { SessionKey } from "@switchyard/protocol/Ids"
import { ScriptedModel, text, toolCall, toolCalls } from "@switchyard/testkit/ScriptedModel"
import { Deferred, Effect, Fiber, Layer, Stream, Supervisor, TestClock } from "effect"
import * as support from "./support.js"

const abort = (runId: string) => Effect.flatMap(Sessions, (sessions) => sessions.abort({ runId }))

const kinds = Effect.gen(function*() {
  const store = yield* TranscriptStore
  return (yield* store.read("s" as SessionKey, 0)).map((row) => row.kind)
})

describe("ending early", () => {
  it.scoped("an abort is answered once its entry is committed; the partial text is kept and marked (8.3, 8.4)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* gate.reached
        assert.deepStrictEqual(yield* abort("a"), { runId: "a", status: "aborting" } as never)
        assert.include(yield* kinds, "abort_requested")
        const wait = yield* support.settled("a")
        assert.strictEqual(wait.status, "error")
        assert.strictEqual(wait.outcome, "aborted")
        assert.strictEqual(wait.error?.code, "aborted")
        yield* support.submit("b", { idempotencyKey: "b" })
        assert.strictEqual((yield* support.settled("b")).outcome, "completed")
        assert.deepStrictEqual((yield* support.transcript()).slice(1, 4), [
          "assistant[aborted]: half ",
          "note: The previous run was stopped before it finished. Its work may be partial.",
          "user: b"
        ])
        const calls = yield* Effect.flatMap(ScriptedModel, (model) => model.calls)
        assert.deepStrictEqual(calls[1]!.prompt.content.map((message) => message.role), [
          "system",
          "user",
          "assistant",
          "user",
          "user"
        ])
      }).pipe(Effect.provide(support.world([
        { text: ["half ", "rest"], gateBetween: (index) => index === 0 ? Effect.void : gate.wait },
        text("ok")
      ])))
    }))

  it.scoped("an abort during tools interrupts them, and every open call gets a result (8.2, 8.4)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      const interrupted = yield* Deferred.make<void>()
      yield* Effect.gen(function*() {
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* gate.reached
        yield* abort("a")
        yield* support.settled("a")
        yield* Deferred.await(interrupted)
        assert.deepStrictEqual((yield* support.transcript()).slice(2, 4), [
          "tool: echo fast",
          "tool: !Aborted: the run was stopped before this call finished. It may have taken effect in part."
        ])
      }).pipe(Effect.provide(support.world([
        toolCalls([{ name: "echo", params: { text: "slow" } }, { name: "echo", params: { text: "fast" } }])
      ], {
        tools: support.tools((text) =>
          text === "slow"
            ? Effect.onInterrupt(gate.wait, () => Deferred.succeed(interrupted, undefined))
            : Effect.void
        )
      })))
    }))

  it.scoped("an abort of a waiting message removes it; of a settled run it answers the outcome (8.3)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* gate.reached
        yield* support.submit("f", { idempotencyKey: "f", mode: "followup" })
        assert.deepStrictEqual(yield* abort("f"), { runId: "f", status: "cancelled" } as never)
        assert.strictEqual((yield* support.settled("f")).outcome, "cancelled")
        yield* gate.open
        yield* support.settled("a")
        const before = yield* kinds
        assert.deepStrictEqual(yield* abort("a"), { runId: "a", status: "settled", outcome: "completed" } as never)
        assert.deepStrictEqual(yield* abort("f"), { runId: "f", status: "settled", outcome: "cancelled" } as never)
        assert.deepStrictEqual(yield* kinds, before)
        assert.deepStrictEqual(yield* support.transcript(), ["user: a", "assistant: 1"])
      }).pipe(Effect.provide(support.world([{ text: "1", gate: gate.wait }])))
    }))

  it.scoped("before a steer is consumed its abort cancels it; after, it is AlreadyMerged (3.4)", () =>
    Effect.gen(function*() {
      const first = yield* support.gate
      const second = yield* support.gate
      yield* Effect.gen(function*() {
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* first.reached
        yield* support.submit("s", { idempotencyKey: "s" })
        yield* support.submit("t", { idempotencyKey: "t" })
        assert.strictEqual((yield* abort("s")).status, "cancelled")
        yield* first.open
        yield* second.reached
        const error = yield* Effect.flip(abort("t"))
        assert.strictEqual(error._tag, "AlreadyMerged")
        yield* second.open
        yield* support.settled("a")
        assert.deepStrictEqual((yield* support.transcript()).filter((line) => line.startsWith("user")), [
          "user: a",
          "user: t"
        ])
      }).pipe(Effect.provide(support.world([{ text: "1", gate: first.wait }, { text: "2", gate: second.wait }])))
    }))

  it.scoped("/stop cancels what waits, then the run, and later messages run (2.7, 8.6)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* gate.reached
        yield* support.submit("f", { idempotencyKey: "f", mode: "followup" })
        // at the door when the stop comes: covered, and cancelled
        const [, stop] = yield* Effect.all([
          support.submit("g", { idempotencyKey: "g", mode: "followup" }),
          support.submit("/stop", { idempotencyKey: "x" })
        ], { concurrency: 2 })
        assert.strictEqual(stop.disposition, "command")
        yield* support.submit("b", { idempotencyKey: "b" })
        const outcomes: Array<string> = []
        for (const runId of ["a", "f", "g", "x", "b"]) outcomes.push((yield* support.settled(runId)).outcome!)
        assert.deepStrictEqual(outcomes, ["aborted", "cancelled", "cancelled", "completed", "completed"])
        assert.match((yield* support.settled("x")).reply!, /^Stopped the run; 1 waiting/)
        const again = yield* support.submit("/stop", { idempotencyKey: "x" })
        assert.isTrue(again.replayed)
      }).pipe(Effect.provide(support.world([{ text: "1", gate: gate.wait }, text("2")])))
    }))

  it.scoped("sessions.abort without clearQueued leaves what waits (8.6)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        const sessions = yield* Sessions
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* gate.reached
        yield* support.submit("f", { idempotencyKey: "f", mode: "followup" })
        const result = yield* sessions.stop({ sessionKey: "s" })
        assert.deepStrictEqual([result.aborted, result.cancelled], ["a", []] as never)
        assert.strictEqual((yield* support.settled("f")).outcome, "completed")
      }).pipe(Effect.provide(support.world([{ text: "1", gate: gate.wait }, text("2")])))
    }))

  it.scoped("a caller that goes away aborts its run only if it asked for that (8.1)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        const sessions = yield* Sessions
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* gate.reached
        const leave = <A, E>(effect: Effect.Effect<A, E>) =>
          Effect.gen(function*() {
            const fiber = yield* Effect.fork(effect)
            yield* Effect.repeatN(Effect.yieldNow(), 50)
            yield* Fiber.interrupt(fiber)
          })
        yield* leave(sessions.wait({ runId: "a" }))
        yield* leave(Stream.runDrain(sessions.events({ runId: "a" })))
        assert.isFalse((yield* sessions.wait({ runId: "a", timeoutMs: 0 })).settled)
        yield* leave(sessions.wait({ runId: "a", onDisconnect: "abort" }))
        assert.strictEqual((yield* support.settled("a")).outcome, "aborted")
        yield* support.submit("b", { idempotencyKey: "b" })
        yield* leave(Stream.runDrain(sessions.events({ runId: "b", onDisconnect: "abort" })))
        assert.strictEqual((yield* support.settled("b")).outcome, "aborted")
      }).pipe(Effect.provide(support.world(() => ({ text: "1", gate: gate.wait }))))
    }))

  it.scoped("an AbortSignal given with the message aborts its run, whenever it comes (8.1)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        const sessions = yield* Sessions
        const later = new AbortController()
        yield* sessions.submit({ sessionKey: "s", message: "a", idempotencyKey: "a" }, { signal: later.signal })
        yield* gate.reached
        later.abort()
        assert.strictEqual((yield* support.settled("a")).outcome, "aborted")
        yield* sessions.submit({ sessionKey: "s", message: "b", idempotencyKey: "b" }, { signal: AbortSignal.abort() })
        assert.strictEqual((yield* support.settled("b")).outcome, "aborted")
      }).pipe(Effect.provide(support.world(() => ({ text: "1", gate: gate.wait }))))
    }))

  it.scoped("a run that does not end within the grace is detached, and writes and says nothing more (8, 9.6)", () =>
    Effect.gen(function*() {
      const late = yield* support.gate
      yield* Effect.gen(function*() {
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* late.reached
        yield* abort("a")
        yield* TestClock.adjust("14 seconds")
        assert.isFalse(
          (yield* Effect.flatMap(Sessions, (sessions) => sessions.wait({ runId: "a", timeoutMs: 0 }))).settled
        )
        yield* TestClock.adjust("1 seconds")
        assert.strictEqual((yield* support.settled("a")).outcome, "aborted")
        const before = yield* kinds
        const told = (yield* support.events("a")).length
        yield* late.open
        yield* Effect.yieldNow()
        yield* support.submit("b", { idempotencyKey: "b" })
        yield* support.settled("b")
        assert.deepStrictEqual((yield* kinds).slice(before.length), [
          "accepted",
          "started",
          "consumed",
          "reply",
          "settled"
        ])
        assert.strictEqual((yield* support.events("a")).length, told)
      }).pipe(Effect.provide(support.world((_, index) =>
        index === 0
          // a model that neither ends nor lets itself be interrupted
          ? { gateBetween: () => Effect.uninterruptible(late.wait), text: ["late", "r"] }
          : text("2")
      )))
    }))

  it.scoped("an uninterruptible tool holds a stopping run for the abandon grace at most; its result is discarded (7)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* gate.reached
        yield* abort("a")
        yield* TestClock.adjust("4 seconds")
        assert.strictEqual((yield* support.settled("a")).outcome, "aborted")
        yield* gate.open
        assert.match((yield* support.transcript())[2]!, /^tool: !Aborted/)
      }).pipe(Effect.provide(support.world([toolCall("echo", { text: "x" })], {
        tools: support.tools(() => Effect.uninterruptible(gate.wait))
      })))
    }))

  it.scoped("the run deadline ends a run as deadline, keeps its text, and counts from preparing (7, 6.2)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        yield* support.submit("a", { idempotencyKey: "a", timeoutMs: 60_000 })
        yield* gate.reached
        yield* TestClock.adjust("59 seconds")
        assert.isFalse(
          (yield* Effect.flatMap(Sessions, (sessions) => sessions.wait({ runId: "a", timeoutMs: 0 }))).settled
        )
        yield* TestClock.adjust("1 seconds")
        const wait = yield* support.settled("a")
        assert.deepStrictEqual([wait.status, wait.settled, wait.outcome], ["timeout", true, "deadline"] as never)
        assert.strictEqual((yield* support.transcript())[1], "assistant[deadline]: half ")
      }).pipe(Effect.provide(support.world([
        { text: ["half ", "rest"], gateBetween: (index) => index === 0 ? Effect.void : gate.wait }
      ])))
    }))

  it.scoped("a deadline longer than 2^31 ms holds, and 0 is none (7.1)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      const forever = yield* support.gate
      yield* Effect.gen(function*() {
        yield* support.submit("a", { idempotencyKey: "a", timeoutMs: 3_000_000_000 })
        yield* gate.reached
        yield* support.submit("z", { sessionKey: "other", idempotencyKey: "z", timeoutMs: 0 })
        yield* forever.reached
        yield* TestClock.adjust("2999999 seconds")
        const wait = (runId: string) => Effect.flatMap(Sessions, (sessions) => sessions.wait({ runId, timeoutMs: 0 }))
        assert.isFalse((yield* wait("a")).settled)
        yield* TestClock.adjust("1 seconds")
        assert.strictEqual((yield* support.settled("a")).outcome, "deadline")
        yield* TestClock.adjust("9999999 seconds")
        assert.isFalse((yield* wait("z")).settled)
      }).pipe(
        Effect.provide(support.world((_, index) => ({ text: "x", gate: index === 0 ? gate.wait : forever.wait })))
      )
    }))

  it.scoped("a send that does not answer is unknown after 15 s, and the run completes (4.6)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        const outbox = yield* Outbox
        yield* outbox.onSend(() => gate.wait)
        yield* support.submit("a", { idempotencyKey: "a", route: { channel: "chat" } })
        yield* gate.reached
        assert.deepStrictEqual(yield* abort("a"), { runId: "a", status: "delivering" } as never)
        yield* TestClock.adjust("15 seconds")
        const wait = yield* support.settled("a")
        assert.deepStrictEqual([wait.outcome, wait.delivery], ["completed", "unknown"] as never)
      }).pipe(Effect.provide(support.world([text("1")])))
    }))

  it.scoped("after passivation no actor and no channel is left, and the next message works (9.1)", () =>
    Effect.gen(function*() {
      const host = yield* SessionHost
      const hub = yield* EventHub
      yield* support.submit("a", { idempotencyKey: "a" })
      yield* support.settled("a")
      yield* TestClock.adjust("299 seconds")
      assert.strictEqual((yield* host.active).length, 1)
      yield* TestClock.adjust("2 seconds")
      assert.strictEqual((yield* host.active).length, 0)
      assert.deepStrictEqual(yield* hub.counts, { channels: 0, followers: 0, waiters: 0 })
      yield* support.submit("b", { idempotencyKey: "b" })
      assert.strictEqual((yield* support.settled("b")).outcome, "completed")
      assert.deepStrictEqual(yield* support.transcript(), ["user: a", "assistant: 1", "user: b", "assistant: 2"])
      const calls = yield* Effect.flatMap(ScriptedModel, (model) => model.calls)
      assert.strictEqual(calls[1]!.prompt.content.length, 4)
    }).pipe(Effect.provide(support.world([text("1"), text("2")]))))

  it.scoped("after passivation no fiber of the actor is left (9.1)", () =>
    Effect.gen(function*() {
      const supervisor = yield* Supervisor.track
      const alive = Effect.map(supervisor.value, (fibers) => fibers.length)
      yield* Effect.gen(function*() {
        const before = yield* alive
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* support.settled("a")
        assert.isAbove(yield* alive, before)
        yield* TestClock.adjust("301 seconds")
        assert.strictEqual(yield* alive, before)
      }).pipe(Effect.provide(support.world([text("1")]).pipe(Layer.provideMerge(Supervisor.addSupervisor(supervisor)))))
    }))

  it.scoped("a run longer than the passivation time keeps its actor (9.1)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* gate.reached
        yield* TestClock.adjust("1 hour")
        yield* gate.open
        assert.strictEqual((yield* support.settled("a")).outcome, "completed")
      }).pipe(Effect.provide(support.world([{ text: "1", gate: gate.wait }])))
    }))

  it.scoped("a drain refuses new work, ends runs as interrupted and leaves what waits (8.7, 10.1)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        const sessions = yield* Sessions
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* gate.reached
        yield* support.submit("f", { idempotencyKey: "f", mode: "followup" })
        yield* sessions.drain
        assert.strictEqual((yield* support.settled("a")).outcome, "interrupted")
        assert.isFalse((yield* sessions.wait({ runId: "f", timeoutMs: 0 })).settled)
        const error = yield* Effect.flip(support.submit("b"))
        assert.strictEqual(error._tag, "GatewayDraining")
      }).pipe(Effect.provide(support.world([{ text: "1", gate: gate.wait }])))
    }))
})
