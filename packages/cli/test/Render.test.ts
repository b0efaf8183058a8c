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
  const renderer = Render.make()
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
    const renderer = Render.make()
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
