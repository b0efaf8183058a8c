import { assert, describe, it } from "@effect/vitest"
import * as EventHub from "@switchyard/core/EventHub"
import type { AgentEvent } from "@switchyard/protocol/AgentEvent"
import type { Cursor, RunId, SessionKey } from "@switchyard/protocol/Ids"
import { Chunk, Effect, Exit, FastCheck, Fiber, Option, Scope, Stream, TestClock } from "effect"
import * as support from "./support.js"

const session = "s" as SessionKey
const run = "r" as RunId
const position = () => ({ lastSeq: 7, activeRunId: run, waiting: [] })

const opened = (activation = "one") =>
  Effect.gen(function*() {
    const hub = yield* EventHub.EventHub
    return hub.open(session, activation, yield* Effect.clock, position)
  })

const end = {
  stream: "lifecycle",
  data: { type: "end", outcome: "completed", endedAt: 0 }
} as const satisfies EventHub.Happening

const progress = (text: string): EventHub.Happening => ({
  stream: "tool",
  data: { type: "update", callId: "c", name: "t", text }
})

// Follows in the background into a list, until the scope closes.
const follow = (following: Partial<EventHub.Following> = {}) =>
  Effect.gen(function*() {
    const hub = yield* EventHub.EventHub
    const seen: Array<AgentEvent> = []
    yield* hub.follow({ sessionKey: session, ...following }, Effect.succeedNone).pipe(
      Stream.runForEachChunk((events) =>
        Effect.sync(() => {
          for (const event of events) seen.push(event)
        })
      ),
      Effect.forkScoped
    )
    yield* settle
    return { seen }
  })

// Lets every fiber that can go on do so.
const settle = Effect.repeatN(Effect.yieldNow(), 30)

describe("EventHub", () => {
  it.scoped("a late follower gets what it missed, then goes on live, without gap or repeat (5.1, 5.2)", () =>
    Effect.gen(function*() {
      const channel = yield* opened()
      channel.publish(run, { stream: "lifecycle", data: { type: "start", startedAt: 0 } })
      channel.delta(run, "assistant", "Hello ")
      channel.delta(run, "assistant", "the")
      const { seen } = yield* follow({ runId: run })
      channel.delta(run, "assistant", "re")
      channel.endMessage(run)
      channel.publish(run, end)
      yield* settle
      assert.deepStrictEqual(seen.map(support.name), [
        "lifecycle:start",
        "assistant:delta",
        "assistant:delta",
        "assistant:text",
        "lifecycle:end"
      ])
      assert.strictEqual(support.text(seen), "Hello there")
      assert.deepStrictEqual(seen.map(({ fromSeq = 0, seq }) => [fromSeq, seq]), [[0, 1], [2, 3], [0, 4], [0, 5], [
        0,
        6
      ]])
    }).pipe(Effect.provide(EventHub.layer)))

  it.scoped.prop(
    "a follower that is cut anywhere, any number of times, has exactly the text and every other event once (5.2)",
    {
      script: FastCheck.array(
        FastCheck.oneof(
          { weight: 6, arbitrary: FastCheck.string({ minLength: 1, maxLength: 5 }) },
          { weight: 2, arbitrary: FastCheck.constant(0 as const) }, // something else happens
          { weight: 1, arbitrary: FastCheck.constant(1 as const) } // the message ends
        ),
        { maxLength: 30 }
      ),
      cuts: FastCheck.infiniteStream(FastCheck.nat({ max: 3 }))
    },
    ({ cuts, script }) =>
      Effect.gen(function*() {
        const channel = yield* opened()
        let expected = ""
        let others = 0
        const seen: Array<AgentEvent> = []
        // Reads a few events of what there is and is cut, as a network does in the middle of a chunk.
        const read = (most: number) =>
          Effect.gen(function*() {
            const hub = yield* EventHub.EventHub
            const after = seen[seen.length - 1]?.cursor
            const scope = yield* Scope.make()
            const pull = yield* Scope.extend(
              Stream.toPull(
                hub.follow({ sessionKey: session, ...(after === undefined ? {} : { after }) }, Effect.succeedNone)
              ),
              scope
            )
            const chunk = yield* Effect.timeoutOption(
              Effect.ignore(Effect.tap(pull, (events) =>
                Effect.sync(() => {
                  for (const event of Chunk.take(events, most)) seen.push(event)
                }))),
              0
            ).pipe(Effect.fork)
            yield* settle
            yield* Fiber.interruptFork(chunk)
            yield* Scope.close(scope, Exit.void)
          })
        for (const item of script) {
          if (item === 0) {
            others += 1
            channel.publish(run, progress(String(others)))
          } else if (item === 1) {
            channel.endMessage(run)
          } else {
            expected += item
            channel.delta(run, "assistant", item)
          }
          const most = cuts.next().value
          if (most > 0) {
            yield* read(most)
          }
        }
        channel.endMessage(run)
        for (let left = 0; left < script.length * 2 + 2; left += 1) {
          yield* read(2)
        }
        assert.strictEqual(support.text(seen), expected)
        assert.deepStrictEqual(
          seen.flatMap((event) => event.stream === "tool" && event.data.type === "update" ? [event.data.text] : []),
          Array.from({ length: others }, (_, index) => String(index + 1))
        )
        assert.strictEqual(seen.filter((event) => event.stream === "stream").length, 0)
      }).pipe(Effect.provide(EventHub.layer)),
    { fastCheck: { numRuns: 60 } }
  )

  it.scoped("a cursor of another activation, or none of ours, gets one reset and then live (5.2)", () =>
    Effect.gen(function*() {
      const channel = yield* opened()
      channel.delta(run, "assistant", "so far")
      for (const after of ["gone:4:0:0", "nonsense", "one:99:0:0"]) {
        const { seen } = yield* follow({ after: after as Cursor })
        channel.publish(run, progress("more"))
        yield* settle
        assert.deepStrictEqual(seen.map(support.name), ["stream:reset", "tool:update"])
        assert.deepInclude(seen[0]!.data, { lastSeq: 7, text: "so far", activeRunId: run })
      }
    }).pipe(Effect.provide(EventHub.layer)))

  it.scoped("the reset of one run's follower does not carry the text of another run (5.2)", () =>
    Effect.gen(function*() {
      const channel = yield* opened()
      channel.delta(run, "assistant", "not for you")
      const { seen } = yield* follow({ runId: "other" as RunId, after: "gone:4:0:0" as Cursor })
      yield* settle
      assert.deepStrictEqual(
        seen.map(({ data, runId }) => [runId, "text" in data ? data.text : "?"]),
        [["other", ""]] as never
      )
    }).pipe(Effect.provide(EventHub.layer)))

  it.scoped("a follower that stays while its session is activated anew gets a reset (5.2)", () =>
    Effect.gen(function*() {
      const first = yield* opened("one")
      const { seen } = yield* follow()
      first.publish(run, progress("old"))
      yield* settle
      first.close()
      const second = yield* opened("two")
      second.publish(run, progress("new"))
      yield* settle
      assert.deepStrictEqual(seen.map(support.name), ["tool:update", "stream:reset", "tool:update"])
    }).pipe(Effect.provide(EventHub.layer)))

  it.scoped("a slow follower has its deltas merged, and nothing else lost (5.3)", () =>
    Effect.gen(function*() {
      const channel = yield* opened()
      const hub = yield* EventHub.EventHub
      const pull = yield* Stream.toPull(hub.follow({ sessionKey: session }, Effect.succeedNone))
      const first = yield* Effect.fork(pull)
      yield* settle
      channel.publish(run, progress("a"))
      yield* Fiber.join(first)
      for (let index = 0; index < 5_000; index += 1) channel.delta(run, "assistant", "x")
      channel.publish(run, progress("b"))
      for (let index = 0; index < 5_000; index += 1) channel.delta(run, "assistant", "y")
      const chunk = Chunk.toReadonlyArray(yield* pull)
      assert.deepStrictEqual(chunk.map(support.name), ["assistant:delta", "tool:update", "assistant:delta"])
      assert.strictEqual(support.text(chunk), "x".repeat(5_000) + "y".repeat(5_000))
      assert.deepStrictEqual(chunk.map(({ fromSeq, seq }) => [fromSeq, seq]), [[2, 5_001], [undefined, 5_002], [
        5_003,
        10_002
      ]])
    }).pipe(Effect.provide(EventHub.layer)))

  it.scoped("a follower with 1,000 unread events is closed, and resumes from the cursor that it is told (5.3)", () =>
    Effect.gen(function*() {
      const channel = yield* opened()
      const hub = yield* EventHub.EventHub
      const pull = yield* Stream.toPull(hub.follow({ sessionKey: session }, Effect.succeedNone))
      const first = yield* Effect.fork(pull)
      yield* settle
      channel.publish(run, progress("0"))
      yield* Fiber.join(first)
      for (let index = 1; index <= 1_001; index += 1) channel.publish(run, progress(String(index)))
      const error = Option.getOrThrow(yield* Effect.flip(pull))
      assert.strictEqual(error._tag, "SubscriberTooSlow")
      const { seen } = yield* follow({ after: error.cursor! })
      yield* settle
      assert.strictEqual(seen.length, 1_001)
    }).pipe(Effect.provide(EventHub.layer)))

  it.scoped("a session keeps its last 1,000 events, those of fresh runs longer, and nothing of runs that are gone (5.2)", () =>
    Effect.gen(function*() {
      const channel = yield* opened()
      const turn = (index: number) => {
        const runId = `r${index}` as RunId
        channel.publish(runId, progress(String(index)))
        channel.publish(runId, end)
      }
      const replayed = Effect.map(follow(), ({ seen }) => seen.length)
      for (let index = 0; index < 1_000; index += 1) turn(index)
      assert.strictEqual(yield* replayed, 2_000)
      yield* TestClock.adjust("61 seconds")
      turn(1_000)
      assert.strictEqual(yield* replayed, 1_000)
      for (let index = 0; index < 6_000; index += 1) turn(2_000 + index)
      assert.isAtMost(yield* replayed, 10_000)
    }).pipe(Effect.provide(EventHub.layer)))

  it.scoped("following a message that was steered into a run follows that run, and ends with its own end (3.4, 5.2)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* gate.reached
        yield* support.submit("b", { idempotencyKey: "b" })
        const fiber = yield* support.followRun("b")
        yield* Effect.yieldNow()
        yield* gate.open
        const events = yield* Fiber.join(fiber)
        assert.strictEqual(support.text(events), "two")
        const [before, last] = events.slice(-2)
        assert.deepStrictEqual([before!.runId, support.name(before!)], ["a" as RunId, "lifecycle:end"])
        assert.deepStrictEqual([last!.runId, support.name(last!)], ["b" as RunId, "lifecycle:end"])
        // and again once everything is over
        const later = yield* support.events("b")
        assert.strictEqual(support.name(later[later.length - 1]!), "lifecycle:end")
      }).pipe(Effect.provide(support.world([{ text: "one", gate: gate.wait }, { text: "two" }])))
    }))

  it.scoped("every run has exactly one terminal event, after all its others (4.5)", () =>
    Effect.gen(function*() {
      const hub = yield* EventHub.EventHub
      const seen: Array<AgentEvent> = []
      yield* hub.follow({ sessionKey: session }, Effect.succeedNone).pipe(
        Stream.runForEachChunk((events) =>
          Effect.sync(() => {
            for (const event of events) seen.push(event)
          })
        ),
        Effect.forkScoped
      )
      yield* Effect.yieldNow()
      for (const id of ["a", "b", "c", "d"]) yield* support.submit(id, { idempotencyKey: id })
      for (const id of ["a", "b", "c", "d"]) yield* support.settled(id)
      yield* settle
      for (const id of ["a", "b", "c", "d"]) {
        const own = seen.filter((event) => event.runId === id)
        const terminal = own.filter((event) => event.stream === "lifecycle" && event.data.type !== "start")
        assert.strictEqual(terminal.length, 1)
        assert.strictEqual(own[own.length - 1], terminal[0])
      }
    }).pipe(Effect.provide(support.world(() => ({ text: "x" })))))
})
