import { assert, describe, it } from "@effect/vitest"
import { AgentEvent } from "@switchyard/protocol/AgentEvent"
import * as FastCheck from "effect/FastCheck"
import * as Schema from "effect/Schema"
import * as Render from "../src/internal/render.js"

const decode = Schema.decodeUnknownSync(AgentEvent)
let seq = 0
const event = (stream: string, data: object) =>
  decode({ runId: "r", sessionKey: "main", seq: ++seq, cursor: `c${seq}`, ts: 0, stream, data })
const delta = (text: string) => event("assistant", { type: "delta", text })
const text = (text: string) => event("assistant", { type: "text", text })
const final = (text: string) => event("reply", { type: "final", text })

/** What a terminal shows on standard output, and the notes. */
const show = (...events: ReadonlyArray<AgentEvent>) => {
  const renderer = Render.make("r")
  const pieces = [...events.flatMap(renderer.render), ...renderer.end()]
  return {
    out: pieces.flatMap((piece) => piece._tag === "text" ? [piece.text] : []).join(""),
    notes: pieces.flatMap((piece) => piece._tag === "note" ? [piece.text] : [])
  }
}

describe("the text of a run", () => {
  it("is printed once, however it comes", () => {
    FastCheck.assert(
      FastCheck.property(
        FastCheck.array(FastCheck.string({ minLength: 1 }), { minLength: 1 }),
        FastCheck.nat(),
        (deltas, seen) => {
          const whole = deltas.join("")
          const { out } = show(...deltas.slice(0, seen % (deltas.length + 1)).map(delta), text(whole), final(whole))
          assert.strictEqual(out, whole.endsWith("\n") ? whole : `${whole}\n`)
        }
      )
    )
  })

  it("appears as it comes, before its end", () => {
    const renderer = Render.make("r")
    assert.deepStrictEqual(renderer.render(delta("Hel")), [{ _tag: "text", text: "Hel" }])
  })

  it("of each message stands on lines of its own", () => {
    assert.strictEqual(show(delta("one"), text("one"), delta("two"), text("two"), final("two")).out, "one\ntwo\n")
  })

  it("begins again on a new line when the model does", () => {
    const { notes, out } = show(delta("wro"), event("assistant", { type: "reset" }), delta("right"), text("right"))
    assert.strictEqual(out, "wro\nright\n")
    assert.lengthOf(notes, 1)
  })

  it("goes on where it was when the stream had to be reset", () => {
    const reset = (text: string) => event("stream", { type: "reset", lastSeq: 1, text, activeRunId: "r", waiting: [] })
    assert.strictEqual(
      show(delta("one "), reset("one two "), delta("three"), text("one two three")).out,
      "one two three\n"
    )
    assert.strictEqual(show(delta("one "), reset(""), text("other")).out, "one \nother\n")
  })

  it("is the reply, also when the run ended unseen", () => {
    const reset = (text: string, activeRunId: string | null) =>
      event("stream", { type: "reset", lastSeq: 1, text, activeRunId, waiting: [] })
    const end = (reply: string) => event("lifecycle", { type: "end", outcome: "completed", endedAt: 0, reply })
    assert.strictEqual(show(reset("", null), end("all of it")).out, "all of it\n")
    assert.strictEqual(show(delta("all "), reset("", null), end("all of it")).out, "all of it\n")
    assert.strictEqual(show(delta("all of it"), reset("", null), end("all of it")).out, "all of it\n")
    assert.strictEqual(show(delta("a"), text("a"), reset("", null), end("b")).out, "a\nb\n")
    assert.strictEqual(show(delta("a"), text("a"), reset("", null), end("a")).out, "a\n")
    const renderer = Render.make("r")
    assert.deepStrictEqual(renderer.render(delta("all ")), [{ _tag: "text", text: "all " }])
    assert.deepStrictEqual(renderer.end("all of it").map((piece) => piece.text), ["of it", "\n"])
    assert.deepStrictEqual(renderer.end("all of it"), [])
  })

  it("is not printed again when the run begins again after a reset", () => {
    const reset = event("stream", { type: "reset", lastSeq: 1, text: "", activeRunId: "r", waiting: [] })
    FastCheck.assert(
      FastCheck.property(
        FastCheck.array(FastCheck.string({ minLength: 1 }), { minLength: 1 }),
        FastCheck.nat(),
        (deltas, seen) => {
          const whole = deltas.join("")
          const before = deltas.slice(0, seen % (deltas.length + 1)).map(delta)
          const { notes, out } = show(...before, reset, ...deltas.map(delta), text(whole), final(whole))
          assert.strictEqual(out, whole.endsWith("\n") ? whole : `${whole}\n`)
          assert.lengthOf(notes, 0)
        }
      )
    )
    assert.strictEqual(show(delta("one"), text("one"), reset, delta("o"), delta("ne"), text("one")).out, "one\n")
    assert.strictEqual(show(delta("one"), text("one"), reset, delta("one two"), text("one two")).out, "one\none two\n")
  })

  it("is never that of another run of the session", () => {
    const reset = (activeRunId: string) =>
      event("stream", { type: "reset", lastSeq: 1, text: "one ", activeRunId, waiting: ["r"] })
    const of = (runId: string, event: AgentEvent) => decode({ ...event, runId })
    assert.strictEqual(show(reset("other"), delta("mine"), text("mine"), final("mine")).out, "mine\n")
    const joined = event("queue", { type: "steered", into: "other" })
    assert.strictEqual(show(joined, reset("other"), of("other", delta("two"))).out, "one two\n")
    // The reset may hide that the message joined; an event of the run says so, too.
    assert.strictEqual(show(reset("other"), of("other", delta("two"))).out, "one two\n")
  })

  it("is followed by a reply that says something else", () => {
    assert.strictEqual(show(delta("raw"), text("raw"), final("shaped")).out, "raw\nshaped\n")
    assert.strictEqual(show(final("a command was done")).out, "a command was done\n")
  })
})

describe("what the tools do", () => {
  it("is told in one line each, without control characters", () => {
    const { notes, out } = show(
      event("tool", { type: "start", callId: "1", name: "read\u001b[31m", params: { path: "a\nb" } }),
      event("tool", { type: "end", callId: "1", name: "read", isError: true, text: `no such file${"!".repeat(500)}` }),
      event("tool", { type: "end", callId: "2", name: "list", isError: false, text: "a" })
    )
    assert.strictEqual(out, "")
    assert.lengthOf(notes, 2)
    for (const note of notes) {
      // eslint-disable-next-line no-control-regex
      assert.notMatch(note, /[\u0000-\u001f]/)
      assert.isBelow(note.length, 300)
    }
  })

  it("does not run into the text", () => {
    const { out } = show(
      delta("Let me look"),
      event("tool", { type: "start", callId: "1", name: "read", params: {} }),
      text("Let me look")
    )
    assert.strictEqual(out, "Let me look\n")
  })
})
