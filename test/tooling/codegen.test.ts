import { assert, describe, it } from "@effect/vitest"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { generateIndex, readDocblock } from "../../scripts/codegen.mjs"

const generate = (sources: Record<string, string>) => {
  const folder = mkdtempSync(path.join(tmpdir(), "switchyard-codegen-"))
  try {
    for (const [name, source] of Object.entries(sources)) {
      mkdirSync(path.dirname(path.join(folder, name)), { recursive: true })
      writeFileSync(path.join(folder, name), source)
    }
    return generateIndex(folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

describe("codegen", () => {
  it("exports each public module under its first sentence, sorted, and nothing else", () => {
    const { problems, text } = generate({
      "Yard.ts": "/**\n * The yard. More about it.\n *\n * @since 0.2.0\n */\nexport const yard = 1\n",
      "Switch.ts": "/**\n * Moves\n * trains.\n *\n * @since 0.1.0\n */\nexport const move = 1\n",
      "bin.ts": "export {}\n",
      "internal/points.ts": "export {}\n",
      "index.ts": "export {}\n"
    })
    assert.deepStrictEqual(problems, [])
    assert.strictEqual(
      text,
      [
        "/**\n * @since 0.1.0\n */\n",
        "/**\n * Moves trains.\n *\n * @since 0.1.0\n */\nexport * as Switch from \"./Switch.js\"\n",
        "/**\n * The yard.\n *\n * @since 0.2.0\n */\nexport * as Yard from \"./Yard.js\"\n"
      ].join("\n")
    )
  })

  it("asks for a docblock where there is none", () => {
    assert.deepStrictEqual(generate({ "Yard.ts": "export const yard = 1\n" }).problems, [
      "Yard.ts must open with a docblock: one sentence and @since"
    ])
    assert.strictEqual(readDocblock("/** Text without a version. */"), undefined)
  })

  it("writes nothing for a package without public modules", () => {
    assert.deepStrictEqual(generate({}), { text: undefined, problems: [] })
  })

  it("does not take a version number or a file name for the end of a sentence", () => {
    assert.deepStrictEqual(
      readDocblock("/**\n * Reads config.json of v1.2 files. Then stops.\n *\n * @since 0.1.0\n */"),
      {
        sentence: "Reads config.json of v1.2 files.",
        since: "0.1.0"
      }
    )
  })
})
