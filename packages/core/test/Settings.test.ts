import { assert, describe, it } from "@effect/vitest"
import * as Settings from "@switchyard/core/Settings"
import type { Layer } from "effect"
import { Effect } from "effect"

describe("Settings", () => {
  it.effect("a wrong value is refused by name: negative, not finite, not a number, 0 without a meaning (7.1)", () =>
    Effect.gen(function*() {
      for (
        const [key, value] of [
          ["settleGraceMs", -1],
          ["runTimeoutMs", Number.NaN],
          ["passivateAfterMs", Infinity],
          ["debounceMs", "soon"],
          ["deliveryTimeoutMs", 0],
          ["mailboxCapacity", 1.5],
          ["steering", "some"],
          ["unheardOf", 1]
        ] as const
      ) {
        const error = yield* Effect.flip(Settings.validate({ [key]: value }))
        assert.deepInclude({ ...error }, { _tag: "InvalidConfig", key, value: String(value) })
        assert.include(error.message, key)
      }
    }))

  it.effect("what is not given keeps its default, and 0 means no limit for the run deadline (7.1)", () =>
    Effect.gen(function*() {
      const values = yield* Settings.Settings
      assert.deepStrictEqual(values, { ...Settings.defaults, runTimeoutMs: 0 })
    }).pipe(Effect.provide(Settings.layer({ runTimeoutMs: 0 }) as Layer.Layer<never>)))
})
