import { assert, describe, it } from "@effect/vitest"
import * as Journal from "@switchyard/core/Journal"
import { SessionHost } from "@switchyard/core/SessionHost"
import { Sessions } from "@switchyard/core/Sessions"
import * as TranscriptStore from "@switchyard/core/TranscriptStore"
import { text } from "@switchyard/testkit/ScriptedModel"
import { Effect, Fiber, Option, Scope, TestClock } from "effect"
import * as support from "./support.js"

const guest = { authority: { senderId: "guest", owner: false, scopes: ["write" as const] } }
const breathe = Effect.repeatN(Effect.yieldNow(), 200)

describe("between senders and owners", () => {
  it.scoped("clearQueued of one sender leaves the messages of another (3.8, authority)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        yield* support.submit("a", { idempotencyKey: "a" }, guest)
        yield* gate.reached
        yield* support.submit("f", { idempotencyKey: "f", mode: "followup" })
        yield* support.submit("i", { idempotencyKey: "i", mode: "interrupt", clearQueued: true }, guest)
        assert.strictEqual((yield* support.settled("f")).outcome, "completed")
      }).pipe(Effect.provide(support.world((_, n) => n === 0 ? { text: "1", gate: gate.wait } : text("2"))))
    }))

  it.scoped("a preview does not cut a character", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        const sessions = yield* Sessions
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* gate.reached
        yield* support.submit("x" + "😀".repeat(100), { idempotencyKey: "f", mode: "followup" })
        yield* support.submit("😀".repeat(100), { idempotencyKey: "g", mode: "followup" })
        const view = yield* sessions.queue({ sessionKey: "s" })
        for (const row of view.rows) assert.isTrue(!/[\ud800-\udbff](?![\udc00-\udfff])/.test(row.preview), row.preview)
        yield* gate.open
      }).pipe(Effect.provide(support.world((_, n) => n === 0 ? { text: "1", gate: gate.wait } : text("2"))))
    }))

  it.scoped("a deadline that comes with the last boundary keeps the answer (8.4, 7)", () =>
    Effect.gen(function*() {
      const faulty = yield* support.faultyStore()
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        yield* support.submit("a", { idempotencyKey: "a", timeoutMs: 1_000 })
        yield* gate.reached
        yield* TestClock.adjust("999 millis")
        // both in one turn
        yield* Effect.all([gate.open, TestClock.adjust("1 millis")], { concurrency: 2 })
        const wait = yield* support.settled("a")
        const lines = yield* support.transcript()
        assert.isTrue(lines.some((line) => line.includes("all of it")), `${wait.outcome} ${lines.join(" / ")}`)
      }).pipe(Effect.provide(support.world([{ text: "all of it", gate: gate.wait }], { store: faulty.layer })))
    }))

  it.scoped("an actor that is superseded in an idle process leaves its waiting messages to somebody (3.10)", () =>
    Effect.gen(function*() {
      // the journal has a foreign row (e.g. a robbed lock); the owner that stays must see what waits
      const store = yield* TranscriptStore.makeMemory
      const gate = yield* support.gate
      const faulty = yield* support.faultyStore(store)
      yield* Effect.gen(function*() {
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* gate.reached
        yield* support.submit("f", { idempotencyKey: "f", mode: "followup" })
        const rows = yield* store.read("s" as never, 0)
        // a short-lived foreign owner (say a tool that repairs) wrote one note and left
        yield* store.append({
          session: "s" as never,
          follows: rows.length,
          rows: Journal.toRows({
            session: "s" as never,
            activation: "foreign",
            generation: 9,
            follows: rows.length,
            entries: [Journal.entry("note", 0, { text: "x" })]
          })
        })
        yield* gate.open
        yield* breathe
        yield* TestClock.adjust("1 hour")
        yield* breathe
        const sessions = yield* Sessions
        assert.strictEqual((yield* sessions.wait({ runId: "f", timeoutMs: 0 })).outcome, "completed")
      }).pipe(
        Effect.provide(
          support.world((_, n) => n === 0 ? { text: "1", gate: gate.wait } : text("2"), { store: faulty.layer })
        )
      )
    }))
  void Fiber
  void Option
  void Scope
  void SessionHost
})
