import { assert, describe, it } from "@effect/vitest"
import { Either } from "effect"
import { makeReader } from "../src/internal/frames.js"

describe("frames", () => {
  it("a payload that is no object is read as an empty one, so that the call is answered and not the connection ended", () => {
    const read = makeReader({ maxMessageBytes: 10_000, maxAttachmentMessageBytes: 20_000 })
    for (const payload of [null, 7, "text", [1], undefined]) {
      const line = JSON.stringify({ _tag: "Request", id: "1", tag: "agent", headers: [], payload })
      const [message] = Either.getOrThrow(read(`${line}\n`))
      assert.deepStrictEqual(message, { _tag: "Request", id: "1", tag: "agent", headers: [], payload: {} } as never)
    }
  })
})
