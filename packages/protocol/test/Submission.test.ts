import { assert, describe, it } from "@effect/vitest"
import { InvalidRequest, PayloadTooLarge } from "@switchyard/protocol/Errors"
import * as Submission from "@switchyard/protocol/Submission"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"

const read = (payload: unknown) => Effect.runSync(Effect.either(Submission.decode(payload)))

const refusal = (payload: unknown) => {
  const result = read(payload)
  assert.isTrue(Either.isLeft(result), JSON.stringify(payload)?.slice(0, 200))
  return Either.getOrThrow(Either.flip(result))
}

const good = { sessionKey: "main", message: "hello" }

describe("Submission.decode", () => {
  it("reads a plain message", () => {
    assert.deepEqual(
      Either.getOrThrow(read(good)),
      {
        sessionKey: "main",
        sessionId: undefined,
        runId: undefined,
        text: "hello",
        attachments: [],
        mode: undefined,
        route: undefined,
        sender: undefined,
        clearQueued: false,
        debounceMs: undefined,
        timeoutMs: undefined,
        model: undefined
      } as unknown as Submission.Submission
    )
  })

  it("reads every field", () => {
    const result = Either.getOrThrow(read({
      ...good,
      sessionId: "s1",
      idempotencyKey: "my:key_1.2-3",
      mode: "collect",
      attachments: [{ mediaType: "image/png", data: "aGk=", fileName: "a.png" }],
      route: { channel: "mail", to: "x" },
      sender: { id: "me", name: "Me" },
      clearQueued: true,
      debounceMs: 0,
      timeoutMs: 2 ** 40,
      model: "offline"
    }))
    assert.strictEqual(result.runId, "my:key_1.2-3")
    assert.strictEqual(result.mode, "collect")
    assert.lengthOf(result.attachments, 1)
    assert.strictEqual(result.timeoutMs, 2 ** 40)
  })

  it("takes null as not given, as many JSON clients write it", () => {
    const nulls = Object.fromEntries(Object.keys(Submission.SubmitPayload.fields).map((name) => [name, null]))
    assert.deepStrictEqual(read({ ...nulls, ...good }), read(good))
  })

  it("names the field that is wrong, for each field and each kind of wrong value (2.6)", () => {
    const wrong: Record<string, ReadonlyArray<unknown>> = {
      sessionKey: [1, {}, "", " x", "a\nb", "x".repeat(513), "e\u0301"],
      sessionId: [1, "", "x".repeat(129)],
      idempotencyKey: [1, "", "with space", "x".repeat(129), "ä"],
      message: [1, {}, [], true, "", "  \n\t ", "a\u0000b"],
      mode: ["", "STEER", "queue", 1, {}],
      attachments: [
        {},
        "x",
        [1],
        [{}],
        [{ mediaType: "", data: "" }],
        [{ mediaType: "image/png", data: "not base64!" }],
        [{ mediaType: "image/png", data: "aGk" }],
        Array.from({ length: 33 }, () => ({ mediaType: "image/png", data: "" }))
      ],
      route: [1, {}, { channel: "" }, { channel: "x", to: 1 }],
      sender: [1, {}, { id: "" }],
      clearQueued: ["yes", 1, {}],
      debounceMs: [-1, NaN, Infinity, "500", {}],
      timeoutMs: [-1, NaN, -Infinity, "1s", []],
      model: [1, "", "x".repeat(257)]
    }
    assert.sameMembers(Object.keys(wrong), Object.keys(Submission.SubmitPayload.fields))
    for (const [field, values] of Object.entries(wrong)) {
      for (const value of values) {
        const error = refusal({ ...good, [field]: value })
        assert.instanceOf(error, InvalidRequest)
        assert.strictEqual((error as InvalidRequest).field, field, JSON.stringify(value))
        assert.isAbove((error as InvalidRequest).reason.length, 5)
        assert.isFalse(error.retryable)
      }
    }
  })

  it("asks for a session, and for an object", () => {
    assert.deepInclude(refusal({ message: "hello" }), { field: "sessionKey" })
    for (const payload of [undefined, null, 1, "text", true]) {
      assert.deepInclude(refusal(payload), { field: "payload" })
    }
  })

  it("does not show the value that it refuses, which may be a secret", () => {
    const error = refusal({ ...good, model: { apiKey: "sk-secret" }, mode: "sk-secret", idempotencyKey: "sk secret" })
    assert.notInclude(error.message, "sk-secret")
    assert.notInclude(refusal({ ...good, idempotencyKey: "sk secret" }).message, "sk secret")
    assert.notInclude(refusal({ ...good, sender: { id: 5, token: "sk-secret" } }).message, "sk-secret")
  })

  it("takes an empty text with an attachment (2.6)", () => {
    assert.isTrue(
      Either.isRight(read({ sessionKey: "main", attachments: [{ mediaType: "text/plain", data: "aGk=" }] }))
    )
  })

  it("measures text in UTF-8 bytes and takes exactly the limit", () => {
    assert.isTrue(Either.isRight(read({ ...good, message: "x".repeat(Submission.maxTextBytes) })))
    const error = refusal({ ...good, message: "€".repeat(Submission.maxTextBytes / 3 + 1) })
    assert.instanceOf(error, PayloadTooLarge)
    assert.deepInclude(error, { field: "message", limitBytes: Submission.maxTextBytes })
  })

  it("adds up the attachments", () => {
    const half = "A".repeat(Submission.maxAttachmentBytes / 2 + 4)
    const error = refusal({
      ...good,
      attachments: [{ mediaType: "a/b", data: half }, { mediaType: "a/b", data: half }]
    })
    assert.instanceOf(error, PayloadTooLarge)
    assert.deepInclude(error, { field: "attachments" })
  })

  it("replaces lone surrogates and leaves pairs alone (2.6)", () => {
    const result = Either.getOrThrow(read({ ...good, message: "a\ud800b\udc00c😀" }))
    assert.strictEqual(result.text, "a\ufffdb\ufffdc😀")
  })

  it("never throws, whatever it is given, and what it reads it reads the same again", () => {
    const value = FastCheck.oneof(
      FastCheck.jsonValue(),
      FastCheck.anything({ withBigInt: true, withDate: true, withMap: true, withNullPrototype: true }),
      FastCheck.constantFrom<unknown>("main", "hello", "steer", 5, [], {}, Symbol("x"), () => 1)
    )
    const payload = FastCheck.oneof(
      value,
      FastCheck.record(
        Object.fromEntries(Object.keys(Submission.SubmitPayload.fields).map((name) => [name, value])),
        { requiredKeys: [] }
      )
    )
    FastCheck.assert(
      FastCheck.property(payload, (payload) => {
        const result = read(payload)
        if (Either.isLeft(result)) {
          assert.include(["InvalidRequest", "PayloadTooLarge"], result.left._tag)
        } else {
          const { runId, text, ...rest } = result.right
          assert.deepStrictEqual(read({ ...rest, message: text, idempotencyKey: runId }), result)
        }
      }),
      { numRuns: 500 }
    )
  })
})
