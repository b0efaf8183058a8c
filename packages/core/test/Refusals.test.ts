import { assert, describe, it } from "@effect/vitest"
import { Sessions } from "@switchyard/core/Sessions"
import * as TranscriptStore from "@switchyard/core/TranscriptStore"
import { text } from "@switchyard/testkit/ScriptedModel"
import { Effect, Fiber, Option, TestClock } from "effect"
import * as support from "./support.js"

const breathe = Effect.repeatN(Effect.yieldNow(), 200)

describe("refused messages", () => {
  it.scoped("a follower of a message that is then refused ends (5.2, 6.4)", () =>
    Effect.gen(function*() {
      const faulty = yield* support.faultyStore()
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        yield* faulty.beforeAppend(() =>
          Effect.zipRight(gate.wait, Effect.fail(new TranscriptStore.StoreFailure({ reason: "x", committed: "no" })))
        )
        const submit = yield* Effect.fork(Effect.either(support.submit("a", { idempotencyKey: "a" })))
        yield* gate.reached
        const follower = yield* support.followRun("a")
        yield* breathe
        yield* gate.open
        assert.strictEqual((yield* Fiber.join(submit))._tag, "Left")
        yield* TestClock.adjust("1 hour")
        yield* breathe
        assert.isTrue(Option.isSome(yield* Fiber.poll(follower)))
      }).pipe(Effect.provide(support.world([text("1")], { store: faulty.layer })))
    }))
  it.scoped("an interrupt that is refused does not stop a run that was just starting (2.5)", () =>
    Effect.gen(function*() {
      const faulty = yield* support.faultyStore()
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        yield* faulty.beforeAppend(({ rows }) =>
          rows.some((row) => row.kind === "accepted" && row.run === "a")
            ? gate.wait
            : rows.some((row) => row.kind === "accepted")
            ? Effect.fail(new TranscriptStore.StoreFailure({ reason: "x", committed: "no" }))
            : Effect.void
        )
        yield* Effect.fork(support.submit("a", { idempotencyKey: "a" }))
        yield* gate.reached
        const i = yield* Effect.fork(Effect.either(support.submit("i", { idempotencyKey: "i", mode: "interrupt" })))
        yield* breathe
        yield* gate.open
        assert.strictEqual((yield* Fiber.join(i))._tag, "Left")
        assert.strictEqual((yield* support.settled("a")).outcome, "completed")
      }).pipe(Effect.provide(support.world([text("1")], { store: faulty.layer })))
    }))
  void Sessions
})
