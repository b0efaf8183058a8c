import { assert, describe, it } from "@effect/vitest"
import * as Ids from "@switchyard/protocol/Ids"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/TestClock"

const isKey = Schema.is(Ids.SessionKey)
const isRunId = Schema.is(Ids.RunId)

describe("SessionKey", () => {
  it("takes what people call conversations", () => {
    for (const key of ["main", "agent:main:whatsapp:+4917", "Zoë", "日本語", "a b", "x".repeat(512), "😀"]) {
      assert.isTrue(isKey(key), key)
    }
  })

  it("tells in words what is wrong with a key", () => {
    const wrong = [
      ["", "1 to 512 characters"],
      ["x".repeat(513), "1 to 512 characters"],
      [" main", "white space"],
      ["main\u00a0", "white space"],
      ["ma\nin", "control characters"],
      ["ma\u0000in", "control characters"],
      ["ma\u0085in", "control characters"],
      ["Zoe\u0308", "NFC"],
      ["\ud800x", "lone surrogates"],
      ["x\udc00", "lone surrogates"]
    ] as const
    for (const [key, reason] of wrong) {
      const result = Schema.decodeUnknownEither(Ids.SessionKey)(key)
      assert.strictEqual(result._tag, "Left", JSON.stringify(key))
      if (result._tag === "Left") assert.include(result.left.message, reason)
    }
  })

  it("keeps upper and lower case apart", () => {
    assert.notStrictEqual(Ids.SessionKey.make("Main"), Ids.SessionKey.make("main"))
  })
})

describe("RunId", () => {
  it("takes 1 to 128 characters of its alphabet and nothing else", () => {
    FastCheck.assert(
      FastCheck.property(FastCheck.string({ maxLength: 140 }), (text) => {
        assert.strictEqual(isRunId(text), /^[A-Za-z0-9._:-]{1,128}$/.test(text) && !text.includes("\n"))
      })
    )
    assert.isTrue(isRunId("a".repeat(128)))
    assert.isFalse(isRunId("a".repeat(129)))
    assert.isFalse(isRunId("a\n"))
  })

  it.effect("is a UUIDv7 of the current time when it is made", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(0x0123_4567_89ab)
      const id = yield* Ids.makeRunId
      assert.match(id, /^01234567-89ab-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
      assert.isTrue(isRunId(id))
    }))

  it.effect("sorts by age and does not repeat", () =>
    Effect.gen(function*() {
      const ids: Array<string> = []
      for (let i = 0; i < 100; i++) {
        ids.push(yield* Ids.makeRunId)
        yield* TestClock.adjust(1)
      }
      assert.deepStrictEqual([...ids].sort(), ids)
      assert.strictEqual(new Set(ids).size, 100)
    }))

  it.effect("takes its random bits from the source that is provided", () =>
    Effect.gen(function*() {
      const id = yield* Effect.provideService(Ids.uuid, Ids.RandomBytes, (length) => new Uint8Array(length).fill(0xff))
      assert.strictEqual(id, "00000000-0000-7fff-bfff-ffffffffffff")
    }))
})
