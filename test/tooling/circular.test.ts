import { assert, describe, it } from "@effect/vitest"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { findCircles } from "../../scripts/circular.mjs"

const circlesIn = (sources: Record<string, string>): Array<Array<string>> => {
  const folder = mkdtempSync(path.join(tmpdir(), "switchyard-circles-"))
  try {
    for (const [name, source] of Object.entries(sources)) writeFileSync(path.join(folder, name), source)
    const files = Object.keys(sources).map((name) => path.join(folder, name))
    return findCircles(files).map((circle) => circle.map((file) => path.basename(file)))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

describe("circular imports", () => {
  it("finds a circle through three modules", () => {
    const circles = circlesIn({
      "A.ts": `import * as B from "./B.js"\nexport const a = () => B`,
      "B.ts": `import { c } from "./C.js"\nexport const b = c`,
      "C.ts": `export * as A from "./A.js"\nexport const c = 1`
    })
    assert.deepStrictEqual(circles, [["A.ts", "B.ts", "C.ts"]])
  })

  it("finds a module that imports itself", () => {
    assert.deepStrictEqual(circlesIn({ "A.ts": `import "./A.js"` }), [["A.ts"]])
  })

  it("does not take a type import, or two ways to one module, for a circle", () => {
    const circles = circlesIn({
      "A.ts": `import { b } from "./B.js"\nimport { c } from "./C.js"\nexport const a = b + c`,
      "B.ts": `import type { a } from "./A.js"\nimport { c } from "./C.js"\nexport const b: typeof a = c`,
      "C.ts": `export const c = 1`
    })
    assert.deepStrictEqual(circles, [])
  })
})
