import { assert, describe, it } from "@effect/vitest"
import * as AgentEvent from "@switchyard/protocol/AgentEvent"
import * as Errors from "@switchyard/protocol/Errors"
import * as Ids from "@switchyard/protocol/Ids"
import * as Message from "@switchyard/protocol/Message"
import * as Run from "@switchyard/protocol/Run"
import * as Session from "@switchyard/protocol/Session"
import * as Submission from "@switchyard/protocol/Submission"
import { SwitchyardRpcs } from "@switchyard/protocol/SwitchyardRpcs"
import * as Arbitrary from "effect/Arbitrary"
import * as FastCheck from "effect/FastCheck"
import * as Schema from "effect/Schema"

type AnySchema = Schema.Schema<unknown, unknown>

/** The exported schemas of a module, by name. */
const schemas = (name: string, module: object): ReadonlyArray<readonly [name: string, schema: AnySchema]> =>
  Object.entries(module)
    .filter(([, value]) => Schema.isSchema(value))
    .map(([key, schema]) => [`${name}.${key}`, schema as AnySchema])

const all = [
  ...schemas("AgentEvent", AgentEvent),
  ...schemas("Errors", Errors),
  ...schemas("Ids", Ids),
  ...schemas("Message", Message),
  ...schemas("Run", Run),
  ...schemas("Session", Session),
  ...schemas("Submission", Submission)
]

/** These hold what a model or a tool made, which may be anything, or bytes: they are not JSON by their schema alone. */
const opaque = new Set([
  "AgentEvent.AgentEvent",
  "Message.UserPart",
  "Message.ContentPart",
  "Message.HistoryMessage",
  "Session.HistoryPage",
  "Submission.SubmitPayload"
])

const runs = { numRuns: 50 }

/** Numbers on the wire are times, sizes and counts: always finite (JSON has no others), and within what a date holds. */
const isSound = (value: unknown): boolean =>
  typeof value === "number"
    ? Math.abs(value) <= 8.64e15
    : typeof value !== "object" || value === null || Object.values(value).every(isSound)

/** What may arrive on the wire. */
const encodedOf = <A, I>(schema: Schema.Schema<A, I>): FastCheck.Arbitrary<I> =>
  Arbitrary.make(Schema.encodedBoundSchema(schema)).filter(isSound)

describe("the wire", () => {
  it("has a schema for each model, error and id", () => {
    assert.isAbove(all.length, 40)
  })

  for (const [name, schema] of all) {
    it(`gives back the same ${name} after encoding and decoding`, () => {
      const encode = Schema.encodeSync(schema)
      const decode = Schema.decodeUnknownSync(schema)
      FastCheck.assert(
        FastCheck.property(encodedOf(schema), (encoded) => {
          const value = decode(encoded)
          const again = decode(encode(value))
          assert.deepStrictEqual(again, value)
          assert.deepStrictEqual(encode(again), encode(value))
        }),
        runs
      )
    })
  }

  for (const [name, schema] of all.filter(([name]) => !opaque.has(name))) {
    it(`loses nothing of ${name} in JSON`, () => {
      const json = Schema.parseJson(schema)
      FastCheck.assert(
        FastCheck.property(encodedOf(schema), (encoded) => {
          const text = JSON.stringify(encoded)
          assert.strictEqual(Schema.encodeSync(json)(Schema.decodeSync(json)(text)), text)
        }),
        runs
      )
    })
  }

  it("keeps JSON values of tools and models as they are", () => {
    const parts = Schema.parseJson(Message.ContentPart)
    FastCheck.assert(
      FastCheck.property(FastCheck.jsonValue(), FastCheck.boolean(), (value, isFailure) => {
        const call = { type: "tool-call", id: "c", name: "t", params: value, providerExecuted: false }
        const result = { type: "tool-result", id: "c", name: "t", result: value, isFailure, providerExecuted: false }
        for (const part of [call, result]) {
          const text = JSON.stringify(part)
          const decoded = Schema.decodeSync(parts)(text)
          assert.deepStrictEqual(JSON.parse(Schema.encodeSync(parts)(decoded)), {
            options: {},
            ...JSON.parse(text)
          })
        }
      }),
      runs
    )
  })

  it("refuses in an error only what the error declares", () => {
    const decode = Schema.decodeUnknownEither(Errors.SubmitError)
    assert.strictEqual(decode({ _tag: "InvalidRequest", field: "x", reason: "y", retryable: false })._tag, "Right")
    assert.strictEqual(decode({ _tag: "SessionNotFound", session: "x", retryable: false })._tag, "Left")
  })

  it("names a way out and tells whether to try again, in each error", () => {
    const classes = Object.values(Errors).filter((value) =>
      typeof value === "function" && value.prototype instanceof Error
    ) as unknown as ReadonlyArray<
      Schema.Schema<Error & { readonly retryable: boolean }, unknown>
    >
    assert.lengthOf(classes, 12)
    for (const schema of classes) {
      FastCheck.assert(
        FastCheck.property(encodedOf(schema), (encoded) => {
          const error = Schema.decodeSync(schema)(encoded)
          assert.isAbove(error.message.length, 20)
          assert.notMatch(error.message, /undefined|\[object/)
          assert.isBoolean(error.retryable)
        }),
        { numRuns: 20 }
      )
    }
  })
})

describe("SwitchyardRpcs", () => {
  it("takes any payload for each call, as a payload that fails its schema would be a defect", () => {
    for (const rpc of SwitchyardRpcs.requests.values()) {
      if (rpc._tag === "health") continue
      const decode = Schema.decodeUnknownEither(rpc.payloadSchema as unknown as AnySchema)
      FastCheck.assert(
        FastCheck.property(
          FastCheck.dictionary(
            FastCheck.constantFrom("runId", "sessionKey", "message", "after", "limit", "timeoutMs", "mode", "other"),
            FastCheck.jsonValue()
          ),
          (payload) => assert.strictEqual(decode(payload)._tag, "Right")
        ),
        runs
      )
    }
  })
})

describe("isTerminal", () => {
  it("holds for the end and the error of a run, and for nothing else", () => {
    FastCheck.assert(
      FastCheck.property(Arbitrary.make(AgentEvent.AgentEvent), (event) => {
        const terminal = event.stream === "lifecycle" && (event.data.type === "end" || event.data.type === "error")
        assert.strictEqual(AgentEvent.isTerminal(event), terminal)
      }),
      runs
    )
  })
})
