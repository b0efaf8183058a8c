import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { readFileSync } from "node:fs"
import { program, seen, stored } from "../../docs/examples/own-layers.js"

const root = new URL("../../", import.meta.url)

describe("docs/examples/own-layers.ts", () => {
  it.live("swaps model, hooks and store by layers alone: a hook changes what the second call saw, and denies a tool call", () =>
    Effect.gen(function*() {
      const result = yield* program
      assert.strictEqual(result.reply, "It costs 7.")
      assert.strictEqual(seen.length, 2)
      // the hook changed what the second model call saw, and denied one call
      assert.include(seen[1], "Prices are in euros.")
      assert.include(seen[1], "Nothing is erased here.")
      assert.deepStrictEqual(stored, [
        "opened",
        "accepted",
        "started",
        "consumed",
        "assistant",
        "tool_result",
        "reply",
        "settled"
      ])
    }))

  it("is the program that docs/extending.md shows", () => {
    const page = readFileSync(new URL("docs/extending.md", root), "utf8")
    const example = readFileSync(new URL("docs/examples/own-layers.ts", root), "utf8")
    assert.include(page, "```ts\n" + example + "```")
  })
})
