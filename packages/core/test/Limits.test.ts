import { assert, describe, it } from "@effect/vitest"
import * as Authority from "@switchyard/core/Authority"
import { EventHub } from "@switchyard/core/EventHub"
import * as Journal from "@switchyard/core/Journal"
import * as Prompts from "@switchyard/core/Prompts"
import * as QueuePolicy from "@switchyard/core/QueuePolicy"
import { SessionHost } from "@switchyard/core/SessionHost"
import { Sessions } from "@switchyard/core/Sessions"
import * as SessionState from "@switchyard/core/SessionState"
import * as Tools from "@switchyard/core/Tools"
import * as TranscriptStore from "@switchyard/core/TranscriptStore"
import type { SessionKey } from "@switchyard/protocol/Ids"
import { text } from "@switchyard/testkit/ScriptedModel"
import { Chunk, Context, Effect, Fiber, Layer, Stream, TestClock } from "effect"
import { globalValue } from "effect/GlobalValue"
import * as support from "./support.js"

const key = "s" as SessionKey
const failure = (committed: "no" | "unknown") =>
  new TranscriptStore.StoreFailure({ reason: "the disk is full", committed })
const breathe = Effect.repeatN(Effect.yieldNow(), 200)
const roots = () =>
  (globalValue(Symbol.for("effect/FiberScope/Global"), () => ({ roots: new Set() })) as {
    readonly roots: Set<unknown>
  }).roots.size

describe("limits and leaks", () => {
  it.scoped("a passivated actor leaves no fiber behind (9.1)", () =>
    Effect.gen(function*() {
      const host = yield* SessionHost
      yield* support.submit("a", { idempotencyKey: "warm", sessionKey: "warm" })
      yield* support.settled("warm")
      yield* TestClock.adjust("10 minutes")
      const before = roots()
      for (let n = 0; n < 20; n += 1) {
        yield* support.submit("a", { idempotencyKey: `k${n}`, sessionKey: `k${n}` })
        yield* support.settled(`k${n}`)
      }
      yield* TestClock.adjust("10 minutes")
      yield* breathe
      assert.strictEqual((yield* host.active).length, 0)
      assert.strictEqual(roots() - before, 0)
    }).pipe(Effect.provide(support.world(() => text("1")))))

  it.scoped("a slow follower of alternating deltas buffers a bounded number of events (5.3)", () =>
    Effect.gen(function*() {
      const hub = yield* EventHub
      const gate = yield* support.gate
      const channel = hub.open(key, "act", yield* Effect.clock, () => ({ lastSeq: 0, activeRunId: null, waiting: [] }))
      let largest = 0
      const fiber = yield* hub.follow({ sessionKey: key }, Effect.succeedNone).pipe(
        Stream.mapChunksEffect((chunk) =>
          Effect.as(
            Effect.zipRight(
              Effect.sync(() => {
                largest = Math.max(largest, Chunk.size(chunk))
              }),
              gate.wait
            ),
            chunk
          )
        ),
        Stream.runDrain,
        Effect.fork
      )
      yield* breathe
      channel.delta("a" as never, "assistant", "x")
      yield* gate.reached
      for (let n = 0; n < 50_000; n += 1) channel.delta("a" as never, n % 2 === 0 ? "assistant" : "reasoning", "x")
      yield* gate.open
      yield* breathe
      yield* Fiber.interrupt(fiber)
      assert.isAtMost(largest, 1_002)
    }).pipe(Effect.provide(support.world([]))))

  it.scoped("after a burst, the kept events shrink to the last 1,000 again (5.2)", () =>
    Effect.gen(function*() {
      const hub = yield* EventHub
      const channel = hub.open(key, "act", yield* Effect.clock, () => ({ lastSeq: 0, activeRunId: null, waiting: [] }))
      const note = { stream: "queue", data: { type: "accepted", disposition: "queued" } } as const
      for (let n = 0; n < 5_000; n += 1) channel.publish("a" as never, note)
      channel.publish("a" as never, {
        stream: "lifecycle",
        data: { type: "end", outcome: "completed", endedAt: 0 }
      })
      yield* TestClock.adjust("10 minutes")
      for (let n = 0; n < 2_000; n += 1) channel.publish(`r${n}` as never, note)
      for (let n = 0; n < 100; n += 1) {
        channel.publish(`r${n}` as never, {
          stream: "lifecycle",
          data: { type: "end", outcome: "completed", endedAt: 0 }
        })
      }
      let got = 0
      const fiber = yield* hub.follow({ sessionKey: key }, Effect.succeedNone).pipe(
        Stream.runForEach(() =>
          Effect.sync(() => {
            got += 1
          })
        ),
        Effect.fork
      )
      yield* breathe
      yield* Fiber.interrupt(fiber)
      assert.isAtMost(got, 2_100)
    }).pipe(Effect.provide(support.world([]))))

  it.scoped("a run recovered at start whose preparing hangs ends at its deadline (7)", () =>
    Effect.gen(function*() {
      const store = yield* TranscriptStore.makeMemory
      const gate = yield* support.gate
      yield* support.killedWorld(
        store,
        [{ text: "other", gate: gate.wait }],
        Effect.gen(function*() {
          yield* support.submit("o", { sessionKey: "busy" })
          yield* gate.reached
          yield* support.submit("a", { idempotencyKey: "a", timeoutMs: 60_000 })
        }),
        { lanes: 1 }
      )
      yield* Effect.gen(function*() {
        const sessions = yield* Sessions
        yield* sessions.recover
        yield* breathe
        yield* TestClock.adjust("10 hours")
        yield* breathe
        assert.strictEqual((yield* sessions.wait({ runId: "a", timeoutMs: 0 })).outcome, "deadline")
      }).pipe(Effect.provide(support.world([text("1")], {
        store: (yield* support.faultyStore(store)).layer,
        prompts: Layer.succeed(Prompts.Prompts, { system: () => Effect.never })
      } as never)))
    }))

  it.scoped("after a drain no run is started, also in a session that was being opened (8.7)", () =>
    Effect.gen(function*() {
      const store = yield* TranscriptStore.makeMemory
      const gate = yield* support.gate
      const slow = Layer.succeed(TranscriptStore.TranscriptStore, {
        ...store,
        read: (session, after, limit) => Effect.zipRight(gate.wait, store.read(session, after, limit))
      })
      yield* Effect.gen(function*() {
        const sessions = yield* Sessions
        const one = yield* Effect.fork(Effect.either(support.submit("a", { idempotencyKey: "a" })))
        yield* gate.reached
        yield* sessions.drain
        yield* gate.open
        const result = yield* Fiber.join(one)
        yield* breathe
        const started = (yield* store.read(key, 0)).some((row) => row.kind === "started")
        assert.deepStrictEqual([result._tag, started], ["Left", false])
      }).pipe(Effect.provide(support.world([text("1")], { store: slow })))
    }))

  it("an interrupt closes the collect group behind it at once (3.6)", () => {
    const limits = { collectMaxWaitMs: 10_000, steering: "all", steerTools: "skip" } as const
    let state = QueuePolicy.initial(SessionState.empty, "id" as never)
    let now = 0
    const step = (event: object) => {
      const result = QueuePolicy.step(limits, state, { ...event, now, mono: now } as QueuePolicy.Event)
      state = result.state
      return result
    }
    const offer = (runId: string, mode: string) => ({
      _tag: "Submit",
      covered: null,
      offer: {
        runId,
        text: runId,
        attachments: [],
        mode,
        route: null,
        sender: null,
        authority: Authority.owner("me"),
        settings: { timeoutMs: null, model: null },
        debounceMs: 500,
        clearQueued: false,
        digest: runId
      }
    })
    step(offer("c", "collect"))
    now = 100
    step(offer("i", "interrupt"))
    assert.strictEqual(state.active?.runId, "i")
    step({ _tag: "Boundary", token: state.active!.token, boundary: { _tag: "first" } })
    now = 150
    step({
      _tag: "Boundary",
      token: state.active!.token,
      boundary: { _tag: "last", reply: { message: { role: "assistant", content: "x" } }, route: null, usage: undefined }
    })
    assert.strictEqual(state.active?.runId, "c")
  })

  it.scoped("after too many faults the waiting messages go on by themselves once the rest is over (3.10)", () =>
    Effect.gen(function*() {
      const faulty = yield* support.faultyStore()
      let faults = 4
      const store = Layer.map(faulty.layer, (context) => {
        const store = Context.get(context, TranscriptStore.TranscriptStore)
        return Context.make(TranscriptStore.TranscriptStore, {
          ...store,
          append: (append) => {
            if (faults > 0 && append.rows.some((row) => row.kind === "reply")) {
              faults -= 1
              throw new Error("fault")
            }
            return store.append(append)
          }
        })
      })
      yield* Effect.gen(function*() {
        const sessions = yield* Sessions
        for (const id of ["a", "b", "c", "d", "e"]) {
          yield* Effect.either(support.submit(id, { idempotencyKey: id, mode: "followup" }))
        }
        yield* breathe
        yield* breathe
        yield* TestClock.adjust("1 hour")
        yield* breathe
        const open = yield* faulty.behind.open
        assert.deepStrictEqual(open, [])
        void sessions
      }).pipe(Effect.provide(support.world(() => text("1"), { store })))
    }))

  it.scoped("a sender who may not interrupt a run may not /stop it either (3 table, 8.1)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* gate.reached
        const guest = { authority: { senderId: "guest", owner: false, scopes: ["write" as const] } }
        yield* Effect.either(support.submit("/stop", { idempotencyKey: "x" }, guest))
        yield* breathe
        yield* gate.open
        assert.strictEqual((yield* support.settled("a")).outcome, "completed")
      }).pipe(Effect.provide(support.world([{ text: "1", gate: gate.wait }])))
    }))

  it.scoped("a row of an unknown kind does not make its session unusable (10.3)", () =>
    Effect.gen(function*() {
      const store = yield* TranscriptStore.makeMemory
      yield* store.append({
        session: key,
        follows: 0,
        rows: Journal.toRows({
          session: key,
          activation: "o",
          generation: 1,
          follows: 0,
          entries: [
            Journal.entry("opened", 0, { sessionId: "id" as never }),
            { ...Journal.entry("note", 0, { text: "x" }), kind: "moved" } as never
          ]
        })
      })
      yield* Effect.gen(function*() {
        const exit = yield* Effect.exit(support.submit("a", { idempotencyKey: "a" }))
        assert.strictEqual(exit._tag, "Success")
      }).pipe(Effect.provide(support.world([text("1")], { store: (yield* support.faultyStore(store)).layer })))
    }))

  it.scoped("a signal given with a replay aborts the run too (8.1)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        const sessions = yield* Sessions
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* gate.reached
        yield* sessions.submit({ sessionKey: "s", message: "a", idempotencyKey: "a" }, { signal: AbortSignal.abort() })
        yield* breathe
        yield* gate.open
        assert.strictEqual((yield* support.settled("a")).outcome, "aborted")
      }).pipe(Effect.provide(support.world([{ text: "1", gate: gate.wait }])))
    }))

  it.scoped("a model that interrupts itself fails its run (4.5, 1)", () =>
    Effect.gen(function*() {
      yield* support.submit("a", { idempotencyKey: "a" })
      assert.strictEqual((yield* support.settled("a")).outcome, "failed")
    }).pipe(Effect.provide(support.world([{ stream: Stream.fromEffect(Effect.interrupt) }]))))

  it.scoped("a reset for a run that waits does not carry another run's text (5.2)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        const sessions = yield* Sessions
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* gate.reached
        yield* support.submit("f", { idempotencyKey: "f", mode: "followup" })
        const [reset] = Chunk.toReadonlyArray(
          yield* Stream.runCollect(Stream.take(sessions.events({ runId: "f", after: "old:1:0:0" }), 1))
        )
        assert.strictEqual((reset!.data as { readonly text?: string }).text, "")
        yield* gate.open
      }).pipe(Effect.provide(support.world([{ text: "secret", gate: gate.wait }, text("2")])))
    }))

  it.scoped("a non-JSON tool result does not kill the actor (4.3, 15)", () =>
    Effect.gen(function*() {
      yield* support.submit("a", { idempotencyKey: "a" })
      const wait = yield* support.settled("a")
      assert.strictEqual(wait.outcome, "completed")
    }).pipe(Effect.provide(support.world([{ toolCalls: [{ name: "echo", params: { text: "x" } }] }, text("end")], {
      tools: Layer.succeed(Tools.Tools, {
        tools: [],
        call: () => Effect.succeed({ result: 10n, isFailure: false })
      }) as never
    }))))

  it.scoped("the interrupted first opener does not leave a broken session behind", () =>
    Effect.gen(function*() {
      const store = yield* TranscriptStore.makeMemory
      const gate = yield* support.gate
      const slow = Layer.succeed(TranscriptStore.TranscriptStore, {
        ...store,
        read: (session, after, limit) => Effect.zipRight(gate.wait, store.read(session, after, limit))
      })
      yield* Effect.gen(function*() {
        const one = yield* Effect.fork(support.submit("a", { idempotencyKey: "a" }))
        yield* gate.reached
        yield* Fiber.interrupt(one)
        yield* gate.open
        yield* support.submit("b", { idempotencyKey: "b" })
        assert.strictEqual((yield* support.settled("b")).outcome, "completed")
      }).pipe(Effect.provide(support.world([text("1")], { store: slow })))
    }))
  void failure
})
