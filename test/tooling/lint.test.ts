import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { ESLint } from "eslint"
import { fileURLToPath } from "node:url"

const eslint = new ESLint({ cwd: fileURLToPath(new URL("../..", import.meta.url)) })

const rulesBroken = (filePath: string, code: string) =>
  Effect.map(
    Effect.promise(() => eslint.lintText(code, { filePath })),
    (results) => results.flatMap(({ messages }) => messages.map(({ ruleId, message }) => ruleId ?? message))
  )

const refused: ReadonlyArray<readonly [file: string, code: string, rule: string]> = [
  ["core/src/X.ts", `export const x = async () => 1\n`, "no-restricted-syntax"],
  ["core/src/X.ts", `export const x = await Promise.resolve(1)\n`, "no-restricted-syntax"],
  ["core/src/X.ts", `export const x = Date.now()\n`, "no-restricted-syntax"],
  ["core/src/X.ts", `export const x = new Date()\n`, "no-restricted-syntax"],
  ["core/src/X.ts", `export const x = Math.random()\n`, "no-restricted-syntax"],
  ["core/src/X.ts", `export const x = process.env.X\n`, "no-restricted-syntax"],
  ["core/src/X.ts", `setTimeout(() => 1, 1)\n`, "no-restricted-globals"],
  ["core/src/X.ts", `globalThis.setImmediate(() => 1)\n`, "no-restricted-syntax"],
  ["core/src/X.ts", `console.log(1)\n`, "no-console"],
  ["core/src/X.ts", `export const x: number[] = []\n`, "@typescript-eslint/array-type"],
  [
    "core/src/X.ts",
    `import { Effect } from "effect"\nexport const x = Effect\n`,
    "@effect/no-import-from-barrel-package"
  ],
  [
    "core/src/X.ts",
    `import { Ids } from "@switchyard/protocol"\nexport const x = Ids\n`,
    "@effect/no-import-from-barrel-package"
  ],
  ["core/src/X.ts", `import * as E from "effect"\nexport const x = E\n`, "no-restricted-syntax"],
  [
    "core/src/X.ts",
    `import * as Effect from "effect/Effect"\nexport type X = Effect.Effect<1>\n`,
    "@typescript-eslint/consistent-type-imports"
  ],
  [
    "core/src/X.ts",
    `import * as S from "effect/Stream"\nimport * as E from "effect/Effect"\nexport const x = [E, S]\n`,
    "simple-import-sort/imports"
  ],
  ["core/src/X.ts", `export const x = 'a';\n`, "@effect/dprint"],
  ["core/src/X.ts", `import * as Fs from "node:fs"\nexport const x = Fs\n`, "no-restricted-imports"],
  [
    "core/src/X.ts",
    `import * as Journal from "@switchyard/sql/Journal"\nexport const x = Journal\n`,
    "no-restricted-imports"
  ],
  [
    "core/src/X.ts",
    `import * as Script from "@switchyard/testkit/Script"\nexport const x = Script\n`,
    "no-restricted-imports"
  ],
  [
    "protocol/src/X.ts",
    `import * as Session from "@switchyard/core/Session"\nexport const x = Session\n`,
    "no-restricted-imports"
  ],
  [
    "client/src/X.ts",
    `import * as Session from "@switchyard/core/Session"\nexport const x = Session\n`,
    "no-restricted-imports"
  ],
  ["cli/src/X.ts", `import { x } from "@switchyard/core/internal/x"\nexport const y = x\n`, "no-restricted-imports"],
  ["cli/src/X.ts", `import { x } from "../../core/src/X.js"\nexport const y = x\n`, "no-restricted-imports"],
  ["core/test/X.test.ts", `import { it } from "vitest"\nexport const x = it\n`, "no-restricted-imports"],
  ["core/test/X.test.ts", `setTimeout(() => 1, 1)\n`, "no-restricted-globals"]
]

const accepted: ReadonlyArray<readonly [file: string, code: string]> = [
  ["core/src/X.ts", `import * as Ids from "@switchyard/protocol/Ids"\n\nexport const x = Ids\n`],
  ["core/src/X.ts", `import type * as Effect from "effect/Effect"\n\nexport type X = Effect.Effect<1>\n`],
  ["core/src/X.ts", `export const x = new Date(0)\n`],
  ["core/src/X.ts", `import { availableParallelism } from "node:os"\n\nexport const x = availableParallelism()\n`],
  ["sql/src/X.ts", `// eslint-disable-next-line no-restricted-globals -- the one gather\nsetImmediate(() => 1)\n`],
  ["cli/src/X.ts", `import * as Gateway from "@switchyard/gateway/Gateway"\n\nexport const x = Gateway\n`],
  ["core/test/X.test.ts", `import { Effect } from "effect"\n\nexport const x = Effect\n`]
]

describe("lint", () => {
  it.effect("refuses what the conventions forbid", () =>
    Effect.gen(function*() {
      for (const [file, code, rule] of refused) {
        assert.include(yield* rulesBroken(`packages/${file}`, code), rule, `${file}: ${code}`)
      }
    }))

  it.effect("accepts what the conventions ask for", () =>
    Effect.gen(function*() {
      for (const [file, code] of accepted) {
        assert.deepStrictEqual(yield* rulesBroken(`packages/${file}`, code), [], `${file}: ${code}`)
      }
    }))
})
