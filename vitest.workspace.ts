import { existsSync, readdirSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { defineWorkspace } from "vitest/config"
import { project } from "./vitest.shared.js"

const root = fileURLToPath(new URL(".", import.meta.url))

const folders = (parent: string) =>
  readdirSync(`${root}${parent}`, { withFileTypes: true }).filter((entry) => entry.isDirectory()).map(({ name }) =>
    name
  )

const hasTests = (folder: string) =>
  existsSync(`${root}${folder}`) &&
  readdirSync(`${root}${folder}`, { recursive: true }).some((name) => String(name).endsWith(".test.ts"))

// `packages/core/test` is the project "core"; `test/crash` is the project "crash".
export default defineWorkspace([
  ...folders("packages")
    .filter((name) => hasTests(`packages/${name}/test`))
    .map((name) => project({ name, root: `packages/${name}`, include: "test/**/*.test.ts" })),
  ...folders("test")
    .filter((name) => hasTests(`test/${name}`))
    .map((name) => project({ name, root: `test/${name}`, include: "**/*.test.ts" }))
])
