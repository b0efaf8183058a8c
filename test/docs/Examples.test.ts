import { assert, describe, it } from "@effect/vitest"
import { Tools } from "@switchyard/core"
import type { RunId, SessionKey } from "@switchyard/protocol/Ids"
import { Effect } from "effect"
import { readdirSync, readFileSync } from "node:fs"
import { program, seen, stored } from "../../docs/examples/own-layers.js"
import { layer as ownTool } from "../../docs/examples/own-tool.js"
import { program as remote } from "../../docs/examples/remote.js"
import { folder } from "../support/folder.js"
import * as gatewayProcess from "../support/gatewayProcess.js"

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
})

describe("docs/examples/own-tool.ts", () => {
  it.live("makes a tool whose failure the model can read, and which reports progress", () =>
    Effect.gen(function*() {
      const { call, tools } = yield* Tools.Tools
      const progress: Array<string> = []
      const ask = (city: string) =>
        Effect.provideService(call("weather", { city }), Tools.ToolCall, {
          sessionKey: "s" as SessionKey,
          runId: "r" as RunId,
          callId: "c",
          name: "weather",
          progress: (text) => Effect.sync(() => void progress.push(text))
        })
      assert.deepStrictEqual(tools.map(({ name }) => name), ["weather"])
      assert.deepStrictEqual(yield* ask("Paris"), { result: "sunny", isFailure: false })
      assert.deepStrictEqual(yield* ask("Atlantis"), { result: "There is no weather for Atlantis.", isFailure: true })
      assert.deepStrictEqual(progress, ["asking about Paris", "asking about Atlantis"])
    }).pipe(Effect.provide(ownTool)))
})

describe("docs/examples/remote.ts", () => {
  it.scopedLive("asks a gateway in another process", () =>
    Effect.gen(function*() {
      const root = yield* folder
      const { url } = yield* gatewayProcess.gateway({ stateDir: `${root}/state`, workspace: root })
      assert.isString(yield* remote(url))
    }))
})

describe("docs", () => {
  it("show each example as it is", () => {
    const pages = readdirSync(new URL("docs/", root)).filter((name) => name.endsWith(".md")).map((name) =>
      readFileSync(new URL(`docs/${name}`, root), "utf8")
    )
    for (const name of readdirSync(new URL("docs/examples/", root))) {
      const example = readFileSync(new URL(`docs/examples/${name}`, root), "utf8")
      assert.isTrue(pages.some((page) => page.includes("```ts\n" + example + "```")), name)
    }
  })
})
