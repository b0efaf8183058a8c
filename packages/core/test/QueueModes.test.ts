import { assert, describe, it } from "@effect/vitest"
import * as Authority from "@switchyard/core/Authority"
import { Outbox } from "@switchyard/core/Delivery"
import { SessionHost } from "@switchyard/core/SessionHost"
import { Sessions } from "@switchyard/core/Sessions"
import { ScriptedModel, text, toolCall, toolCalls } from "@switchyard/testkit/ScriptedModel"
import { Effect, Fiber, Option, Runtime, TestClock } from "effect"
import * as support from "./support.js"

const dispositions = Effect.fnUntraced(function*(messages: ReadonlyArray<readonly [string, string]>) {
  const found: Array<string> = []
  for (const [id, mode] of messages) {
    found.push((yield* support.submit(id, { idempotencyKey: id, mode })).disposition)
  }
  return found
})

const outcomes = Effect.fnUntraced(function*(...ids: ReadonlyArray<string>) {
  const found: Array<string> = []
  for (const id of ids) {
    const { mergedInto, outcome } = yield* support.settled(id)
    found.push(mergedInto === undefined ? `${outcome}` : `${outcome} ${mergedInto}`)
  }
  return found
})

const modelCalls = Effect.flatMap(ScriptedModel, (model) => model.calls)

// What each model call saw last.
const lastSeen = Effect.map(modelCalls, (calls) =>
  calls.map(({ prompt }) => {
    const message = prompt.content[prompt.content.length - 1]!
    const part = typeof message.content === "string" ? undefined : message.content[0]
    return part?.type === "text" ? part.text : part?.type === "tool-result" ? `result ${String(part.result)}` : "?"
  }))

describe("queue modes", () => {
  it.scoped("a steer joins the run that streams, with one more step of the same run (3, 3.2, 3.4)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        yield* support.submit("first", { idempotencyKey: "a" })
        yield* gate.reached
        const steer = yield* support.submit("also this", { idempotencyKey: "b", mode: "steer" })
        assert.strictEqual(steer.disposition, "steering")
        yield* gate.open
        assert.deepStrictEqual(yield* outcomes("a", "b"), ["completed", "merged a"])
        const wait = yield* support.settled("b")
        assert.strictEqual(wait.status, "ok")
        assert.strictEqual(wait.reply, "both")
        assert.deepStrictEqual(yield* support.transcript(), [
          "user: first",
          "assistant: one",
          "user: also this",
          "assistant: both"
        ])
      }).pipe(Effect.provide(support.world([{ text: "one", gate: gate.wait }, text("both")])))
    }))

  it.scoped("a steer while a parallel batch runs enters after its results (3)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        yield* support.submit("go", { idempotencyKey: "a" })
        yield* gate.reached
        yield* support.submit("steer", { idempotencyKey: "b" })
        yield* gate.open
        assert.deepStrictEqual(yield* outcomes("a", "b"), ["completed", "merged a"])
        assert.deepStrictEqual((yield* support.transcript()).slice(1), [
          "assistant: echo({\"text\":\"x\"})",
          "tool: echo x",
          "user: steer",
          "assistant: end"
        ])
      }).pipe(Effect.provide(support.world([toolCall("echo", { text: "x" }), text("end")], {
        tools: support.tools(() => gate.wait)
      })))
    }))

  it.scoped("a steer while tools run one by one skips those that have not begun, in call order (3.5)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        yield* support.submit("go", { idempotencyKey: "a" })
        yield* gate.reached
        yield* support.submit("steer", { idempotencyKey: "b" })
        yield* gate.open
        assert.deepStrictEqual(yield* outcomes("a", "b"), ["completed", "merged a"])
        assert.deepStrictEqual((yield* support.transcript()).slice(2), [
          "tool: alone 1",
          "tool: !Skipped: a newer message arrived.",
          "tool: !Skipped: a newer message arrived.",
          "user: steer",
          "assistant: end"
        ])
        const ends = (yield* support.events("a")).filter((event) => event.stream === "tool").map(support.name)
        assert.deepStrictEqual(ends, ["tool:start", "tool:end", "tool:start", "tool:end", "tool:start", "tool:end"])
      }).pipe(Effect.provide(support.world([
        toolCalls(["1", "2", "3"].map((text) => ({ name: "alone", params: { text } }))),
        text("end")
      ], { tools: support.tools((text) => text === "1" ? gate.wait : Effect.void) })))
    }))

  it.scoped("with steerTools finish a steer lets the batch finish, and enters after it (3.5)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        yield* support.submit("go", { idempotencyKey: "a" })
        yield* gate.reached
        yield* support.submit("steer", { idempotencyKey: "b" })
        yield* gate.open
        assert.deepStrictEqual(yield* outcomes("a", "b"), ["completed", "merged a"])
        assert.deepStrictEqual((yield* support.transcript()).slice(2), [
          "tool: alone 1",
          "tool: alone 2",
          "user: steer",
          "assistant: end"
        ])
      }).pipe(Effect.provide(support.world([
        toolCalls(["1", "2"].map((text) => ({ name: "alone", params: { text } }))),
        text("end")
      ], {
        settings: { steerTools: "finish" },
        tools: support.tools((text) => text === "1" ? gate.wait : Effect.void)
      })))
    }))

  it.scoped("all waiting steers enter at a boundary, oldest first; with steering one, one at each (3.3)", () =>
    Effect.forEach(["all", "one"] as const, (steering) =>
      Effect.gen(function*() {
        const gate = yield* support.gate
        yield* Effect.gen(function*() {
          yield* support.submit("a", { idempotencyKey: "a" })
          yield* gate.reached
          yield* dispositions([["s", "steer"], ["t", "steer"]])
          yield* gate.open
          assert.deepStrictEqual(yield* outcomes("a", "s", "t"), ["completed", "merged a", "merged a"])
          const users = (yield* support.transcript()).map((line) => line.slice(0, line.indexOf(":")))
          assert.deepStrictEqual(
            users.join(" "),
            steering === "all"
              ? "user assistant user user assistant"
              : "user assistant user assistant user assistant"
          )
        }).pipe(Effect.provide(support.world((_, index) => index === 0 ? { text: "1", gate: gate.wait } : text("x"), {
          settings: { steering }
        })))
      })))

  it.scoped("a steer that comes before a parallel batch is launched skips the whole batch (3)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        yield* support.submit("go", { idempotencyKey: "a" })
        yield* gate.reached
        yield* support.submit("steer", { idempotencyKey: "b" })
        yield* gate.open
        assert.deepStrictEqual(yield* outcomes("a", "b"), ["completed", "merged a"])
        assert.deepStrictEqual((yield* support.transcript()).slice(2), [
          "tool: !Skipped: a newer message arrived.",
          "tool: !Skipped: a newer message arrived.",
          "user: steer",
          "assistant: end"
        ])
      }).pipe(Effect.provide(support.world([
        { ...toolCalls(["1", "2"].map((text) => ({ name: "echo", params: { text } }))), gate: gate.wait },
        text("end")
      ])))
    }))

  it.scoped("a steer while the run waits for its lane joins its first model call (3)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        yield* support.submit("other", { sessionKey: "busy", idempotencyKey: "o" })
        yield* gate.reached
        assert.deepStrictEqual(yield* dispositions([["a", "steer"], ["b", "steer"]]), ["started", "steering"])
        yield* gate.open
        assert.deepStrictEqual(yield* outcomes("a", "b"), ["completed", "merged a"])
        assert.deepStrictEqual(yield* support.transcript(), ["user: a", "user: b", "assistant: two"])
      }).pipe(Effect.provide(support.world([{ text: "one", gate: gate.wait }, text("two")], { lanes: 1 })))
    }))

  it.scoped("one queued followup does not stop a later steer from steering (3.1)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* gate.reached
        assert.deepStrictEqual(yield* dispositions([["f", "followup"], ["s", "steer"]]), ["queued", "steering"])
        yield* gate.open
        assert.deepStrictEqual(yield* outcomes("a", "f", "s"), ["completed", "completed", "merged a"])
        assert.deepStrictEqual(yield* lastSeen, ["a", "s", "f"])
      }).pipe(Effect.provide(support.world([{ text: "1", gate: gate.wait }, text("2"), text("3")])))
    }))

  it.scoped("a message of another authority is not steered into the run (3)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* gate.reached
        const guest = { authority: { senderId: "guest", owner: false, scopes: ["write" as const] } }
        const steer = yield* support.submit("s", { idempotencyKey: "s" }, guest)
        const interrupt = yield* support.submit("i", { idempotencyKey: "i", mode: "interrupt" }, guest)
        assert.deepStrictEqual([steer.disposition, interrupt.disposition], ["queued", "queued"])
        yield* gate.open
        assert.deepStrictEqual(yield* outcomes("a", "s", "i"), ["completed", "completed", "completed"])
        assert.deepStrictEqual(yield* lastSeen, ["a", "s", "i"])
      }).pipe(Effect.provide(support.world([{ text: "1", gate: gate.wait }, text("2"), text("3")])))
    }))

  it.scoped("two collect messages become one run under the last id, titled and labelled (3.6, 3.7)", () =>
    Effect.gen(function*() {
      const sender = (id: string) => ({ sender: { id: "u", name: id } })
      const authority = { authority: Authority.owner("u") }
      const one = yield* support.submit("one", { idempotencyKey: "a", mode: "collect", ...sender("Ann") }, authority)
      assert.strictEqual(one.disposition, "collecting")
      yield* TestClock.adjust("400 millis")
      yield* support.submit("two", { idempotencyKey: "b", mode: "collect", ...sender("Bob") }, authority)
      yield* TestClock.adjust("499 millis")
      assert.deepStrictEqual(yield* modelCalls, [])
      yield* TestClock.adjust("1 millis")
      assert.deepStrictEqual(yield* outcomes("a", "b"), ["merged b", "completed"])
      assert.deepStrictEqual(yield* lastSeen, [
        "[Queued messages while agent was busy]\n\n---\n\nQueued #1 (from Ann)\n\none\n\n---\n\nQueued #2 (from Bob)\n\ntwo"
      ])
      assert.deepStrictEqual(yield* support.transcript(), ["user: one", "user: two", "assistant: ok"])
    }).pipe(Effect.provide(support.world([text("ok")]))))

  it.scoped("a collect group starts at the latest when its longest wait is over (3.6)", () =>
    Effect.gen(function*() {
      for (let index = 0; index < 25; index += 1) {
        yield* support.submit(`m${index}`, { idempotencyKey: `m${index}`, mode: "collect" })
        yield* TestClock.adjust("400 millis")
      }
      assert.strictEqual((yield* modelCalls).length, 1)
      assert.strictEqual((yield* support.settled("m24")).outcome, "completed")
      assert.strictEqual((yield* support.settled("m0")).mergedInto, "m24")
    }).pipe(Effect.provide(support.world([text("ok")]))))

  it.scoped("a message that cannot join closes the collect group at once; one alone keeps its plain text (3.6, 3.7)", () =>
    Effect.gen(function*() {
      yield* support.submit("c", { idempotencyKey: "c", mode: "collect" })
      assert.strictEqual((yield* support.submit("f", { idempotencyKey: "f", mode: "followup" })).disposition, "queued")
      assert.deepStrictEqual(yield* outcomes("c", "f"), ["completed", "completed"])
      assert.deepStrictEqual(yield* lastSeen, ["c", "f"])
    }).pipe(Effect.provide(support.world([text("1"), text("2")]))))

  it.scoped("an interrupt cuts the run short, keeps its text, and runs before all that waits (3.8, 8.4)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* gate.reached
        assert.deepStrictEqual(yield* dispositions([["f", "followup"], ["i", "interrupt"]]), ["queued", "interrupting"])
        assert.deepStrictEqual(yield* outcomes("a", "f", "i"), ["aborted", "completed", "completed"])
        assert.deepStrictEqual(yield* support.transcript(), [
          "user: a",
          "assistant[aborted]: partial ",
          "note: The previous run was stopped before it finished. Its work may be partial.",
          "user: i",
          "assistant: 2",
          "user: f",
          "assistant: 3"
        ])
      }).pipe(Effect.provide(support.world([
        { text: ["partial ", "never"], gateBetween: (index) => index === 0 ? Effect.void : gate.wait },
        text("2"),
        text("3")
      ])))
    }))

  it.scoped("a run interrupted before it consumed its message consumes it, so that the next sees it (3.8)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        yield* support.submit("other", { sessionKey: "busy", idempotencyKey: "o" })
        yield* gate.reached
        assert.deepStrictEqual(yield* dispositions([["a", "steer"], ["i", "interrupt"]]), ["started", "interrupting"])
        yield* gate.open
        assert.deepStrictEqual(yield* outcomes("a", "i"), ["aborted", "completed"])
        assert.deepStrictEqual((yield* support.transcript()).map((line) => line.slice(0, 9)), [
          "user: a",
          "note: The",
          "user: i",
          "assistant"
        ])
      }).pipe(Effect.provide(support.world([{ text: "one", gate: gate.wait }, text("two")], { lanes: 1 })))
    }))

  it.scoped("several interrupts that wait become one run under the last id (3.8)", () =>
    Effect.gen(function*() {
      const tool = yield* support.gate
      const world = support.world([toolCall("echo", { text: "x" }), text("end")], {
        // does not let itself be interrupted
        tools: support.tools(() => Effect.uninterruptible(tool.wait))
      })
      yield* Effect.gen(function*() {
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* tool.reached
        assert.deepStrictEqual(yield* dispositions([["i", "interrupt"], ["j", "interrupt"]]), [
          "interrupting",
          "interrupting"
        ])
        yield* tool.open
        assert.deepStrictEqual(yield* outcomes("a", "i", "j"), ["aborted", "merged j", "completed"])
      }).pipe(Effect.provide(world))
    }))

  it.scoped("with a route: interrupt, fallen-back steer, followup, collected pair, in this order (3.2, 3.6, 3.8, 4.6)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        const outbox = yield* Outbox
        const route = { route: { channel: "chat", to: "me" } }
        yield* outbox.onSend((message) => message.text === "1" ? gate.wait : Effect.void)
        yield* support.submit("a", { idempotencyKey: "a", ...route })
        yield* gate.reached
        const found: Array<string> = []
        for (
          const [id, mode] of [["s", "steer"], ["f", "followup"], ["c", "collect"], ["d", "collect"], [
            "i",
            "interrupt"
          ]]
        ) {
          found.push((yield* support.submit(id!, { idempotencyKey: id, mode, ...route })).disposition)
        }
        assert.deepStrictEqual(found, ["queued", "queued", "collecting", "collecting", "interrupting"])
        yield* TestClock.adjust("1 second")
        yield* gate.open
        assert.deepStrictEqual(yield* outcomes("a", "i", "s", "f", "c", "d"), [
          "completed",
          "completed",
          "completed",
          "completed",
          "merged d",
          "completed"
        ])
        assert.deepStrictEqual((yield* outbox.sent).map(({ runId, text }) => `${runId} ${text}`), [
          "a 1",
          "i 2",
          "s 3",
          "f 4",
          "d 5"
        ])
        assert.strictEqual((yield* support.settled("a")).delivery, "confirmed")
      }).pipe(Effect.provide(support.world([text("1"), text("2"), text("3"), text("4"), text("5")])))
    }))

  it.scoped("while a fallen-back steer waits, later steers of its authority stand behind it (3.2)", () =>
    Effect.gen(function*() {
      const first = yield* support.gate
      const second = yield* support.gate
      yield* Effect.gen(function*() {
        const outbox = yield* Outbox
        yield* outbox.onSend(() => first.wait)
        yield* support.submit("a", { idempotencyKey: "a", route: { channel: "chat" } })
        yield* first.reached
        assert.deepStrictEqual(yield* dispositions([["f", "followup"], ["s", "steer"]]), ["queued", "queued"])
        yield* first.open
        yield* second.reached // f runs, and s waits behind it
        assert.deepStrictEqual(yield* dispositions([["t", "steer"]]), ["queued"])
        yield* second.open
        assert.deepStrictEqual(yield* outcomes("f", "s", "t"), ["completed", "completed", "completed"])
        assert.deepStrictEqual(yield* lastSeen, ["a", "f", "s", "t"])
      }).pipe(
        Effect.provide(support.world([text("1"), { text: "2", gate: second.wait }, text("3"), text("4")]))
      )
    }))

  it.scoped("the queue shows what runs and what waits, in order (1)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        const sessions = yield* Sessions
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* gate.reached
        yield* dispositions([["f", "followup"], ["s", "steer"]])
        const view = yield* sessions.queue({ sessionKey: "s" })
        assert.strictEqual(view.active?.runId, "a")
        assert.strictEqual(view.active?.phase, "running")
        assert.deepStrictEqual(view.rows.map(({ boundTo, mode, place, preview }) => [place, mode, preview, boundTo]), [
          [1, "followup", "f", null],
          [2, "steer", "s", "a"]
        ])
        yield* gate.open
        yield* outcomes("a", "f", "s")
        const ref = yield* Effect.flatMap(SessionHost, (host) => host.peek(view.sessionKey))
        assert.isTrue(Option.isSome(ref))
        assert.deepStrictEqual((yield* sessions.queue({ sessionKey: "s" })).rows, [])
      }).pipe(Effect.provide(support.world([{ text: "1", gate: gate.wait }, text("2"), text("3")])))
    }))
})

describe("queue modes, in their corners", () => {
  it.scoped("an interrupt with clearQueued cancels what waits, with a run in progress and without (3.8)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        yield* support.submit("c", { idempotencyKey: "c", mode: "collect" })
        yield* support.submit("i", { idempotencyKey: "i", mode: "interrupt", clearQueued: true })
        assert.deepStrictEqual(yield* outcomes("c"), ["cancelled"])
        yield* gate.reached
        yield* dispositions([["f", "followup"], ["s", "steer"]])
        yield* support.submit("j", { idempotencyKey: "j", mode: "interrupt", clearQueued: true })
        assert.deepStrictEqual(yield* outcomes("i", "f", "s", "j"), ["aborted", "cancelled", "cancelled", "completed"])
      }).pipe(Effect.provide(support.world((_, index) => index === 0 ? { text: "1", gate: gate.wait } : text("x"))))
    }))

  it.scoped("a steer that comes while the run is ending is not bound to it (3)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        const sessions = yield* Sessions
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* gate.reached
        yield* sessions.abort({ runId: "a" })
        assert.deepStrictEqual(yield* dispositions([["s", "steer"]]), ["queued"])
        yield* gate.open
        assert.deepStrictEqual(yield* outcomes("a", "s"), ["aborted", "completed"])
      }).pipe(Effect.provide(support.world([toolCall("echo", { text: "x" }), text("2")], {
        tools: support.tools(() => Effect.uninterruptible(gate.wait))
      })))
    }))

  it.scoped("a fallen-back steer holds up the steers of its own authority only (3.2)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      const guest = { authority: { senderId: "guest", owner: false, scopes: ["write" as const] } }
      yield* Effect.gen(function*() {
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* gate.reached
        assert.strictEqual((yield* support.submit("g", { idempotencyKey: "g" }, guest)).disposition, "queued")
        assert.strictEqual((yield* support.submit("s", { idempotencyKey: "s" })).disposition, "steering")
        yield* gate.open
        assert.deepStrictEqual(yield* outcomes("a", "g", "s"), ["completed", "completed", "merged a"])
      }).pipe(Effect.provide(support.world((_, index) => index === 0 ? { text: "1", gate: gate.wait } : text("x"))))
    }))

  it.scoped("a collect head that is aborted frees what it held up (3.6, 8.3)", () =>
    Effect.gen(function*() {
      const sessions = yield* Sessions
      yield* support.submit("c", { idempotencyKey: "c", mode: "collect", debounceMs: 9_000 })
      yield* support.submit("d", { idempotencyKey: "d", mode: "collect", debounceMs: 0, timeoutMs: 5 })
      // another deadline: not of one group, which closes the first
      assert.deepStrictEqual(yield* outcomes("c", "d"), ["completed", "completed"])
      yield* support.submit("e", { idempotencyKey: "e", mode: "collect", debounceMs: 9_000 })
      assert.strictEqual((yield* sessions.abort({ runId: "e" })).status, "cancelled")
      yield* support.submit("f", { idempotencyKey: "f", mode: "followup" })
      assert.deepStrictEqual(yield* outcomes("e", "f"), ["cancelled", "completed"])
    }).pipe(Effect.provide(support.world(() => text("x")))))

  it.scoped("the quiet window is that of the last message of the group (3.6)", () =>
    Effect.gen(function*() {
      yield* support.submit("c", { idempotencyKey: "c", mode: "collect", debounceMs: 5_000 })
      yield* support.submit("d", { idempotencyKey: "d", mode: "collect", debounceMs: 100 })
      yield* TestClock.adjust("100 millis")
      assert.deepStrictEqual(yield* outcomes("c", "d"), ["merged d", "completed"])
    }).pipe(Effect.provide(support.world(() => text("x")))))

  it.scoped("messages of different routes are not collected together (3.6)", () =>
    Effect.gen(function*() {
      yield* support.submit("c", { idempotencyKey: "c", mode: "collect", route: { channel: "one" } })
      yield* support.submit("d", { idempotencyKey: "d", mode: "collect", route: { channel: "two" } })
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(yield* outcomes("c", "d"), ["completed", "completed"])
    }).pipe(Effect.provide(support.world(() => text("x")))))

  it.scoped("before a collected run consumed its messages, a member of it is AlreadyMerged (3.4)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        const sessions = yield* Sessions
        yield* support.submit("o", { sessionKey: "busy" })
        yield* gate.reached
        yield* support.submit("c", { idempotencyKey: "c", mode: "collect" })
        yield* support.submit("d", { idempotencyKey: "d", mode: "collect" })
        yield* TestClock.adjust("1 second")
        const error = yield* Effect.flip(sessions.abort({ runId: "c" }))
        assert.strictEqual(error._tag, "AlreadyMerged")
        yield* sessions.abort({ runId: "d" })
        yield* gate.open
        assert.deepStrictEqual(yield* outcomes("c", "d"), ["merged d", "aborted"])
      }).pipe(Effect.provide(support.world((_, index) => index === 0 ? { text: "1", gate: gate.wait } : text("x"), {
        lanes: 1
      })))
    }))

  it.scoped("a steer that waits at the last boundary of a run with a route enters before anything is sent (3.2, 4.6)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        const outbox = yield* Outbox
        yield* support.submit("a", { idempotencyKey: "a", route: { channel: "chat" } })
        yield* gate.reached
        yield* dispositions([["f", "followup"], ["s", "steer"]])
        yield* gate.open
        assert.deepStrictEqual(yield* outcomes("a", "s", "f"), ["completed", "merged a", "completed"])
        assert.deepStrictEqual((yield* outbox.sent).map(({ text }) => text), ["2"])
      }).pipe(Effect.provide(support.world([{ text: "1", gate: gate.wait }, text("2"), text("3")])))
    }))

  it.scoped("a followup that waits does not keep tools from running (3.5)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* gate.reached
        yield* dispositions([["f", "followup"]])
        yield* gate.open
        assert.deepStrictEqual(yield* outcomes("a", "f"), ["completed", "completed"])
        assert.deepStrictEqual((yield* support.transcript()).slice(2, 3), ["tool: echo x"])
      }).pipe(Effect.provide(support.world([
        { ...toolCall("echo", { text: "x" }), gate: gate.wait },
        text("2"),
        text("3")
      ])))
    }))

  it.scoped("callers that come at the same moment to a session without an actor are all answered (2.1, 9.1)", () =>
    Effect.gen(function*() {
      const runtime = yield* Effect.runtime<support.World>()
      // fibers of their own, as connections have
      const fibers = ["a", "b", "c"].map((id) =>
        Runtime.runFork(runtime)(support.submit(id, { idempotencyKey: id, mode: "followup" }))
      )
      yield* Effect.forEach(fibers, Fiber.join)
      assert.deepStrictEqual(yield* outcomes("a", "b", "c"), ["completed", "completed", "completed"])
      yield* TestClock.adjust("301 seconds")
      const again = ["d", "e"].map((id) => Runtime.runFork(runtime)(support.submit(id, { idempotencyKey: id })))
      yield* Effect.forEach(again, Fiber.join)
      assert.deepStrictEqual((yield* outcomes("d", "e"))[0], "completed")
    }).pipe(Effect.provide(support.world(() => text("x")))))

  it.scoped("a run that was detached gives its permit to others (7)", () =>
    Effect.gen(function*() {
      const gate = yield* support.gate
      yield* Effect.gen(function*() {
        const sessions = yield* Sessions
        yield* support.submit("a", { idempotencyKey: "a" })
        yield* gate.reached
        yield* sessions.abort({ runId: "a" })
        yield* support.submit("b", { idempotencyKey: "b", sessionKey: "other" })
        yield* TestClock.adjust("15 seconds")
        assert.deepStrictEqual(yield* outcomes("a", "b"), ["aborted", "completed"])
        yield* gate.open
      }).pipe(Effect.provide(support.world(
        (_, index) => index === 0 ? { text: ["1"], gateBetween: () => Effect.uninterruptible(gate.wait) } : text("x"),
        { lanes: 1 }
      )))
    }))
})
