import { fileURLToPath } from "node:url"
import type { UserWorkspaceConfig } from "vitest/config"

const root = fileURLToPath(new URL(".", import.meta.url))

/**
 * One vitest project. Imports of `@switchyard/*` resolve to the sources, so tests run without a build and a stack
 * trace points into the file that is edited.
 */
export const project = (options: {
  readonly name: string
  readonly root: string
  readonly include: string
}): UserWorkspaceConfig => ({
  root: `${root}${options.root}`,
  resolve: {
    alias: [
      { find: /^@switchyard\/([a-z]+)$/, replacement: `${root}packages/$1/src/index.ts` },
      { find: /^@switchyard\/([a-z]+)\/(.+)$/, replacement: `${root}packages/$1/src/$2.ts` }
    ]
  },
  test: {
    name: options.name,
    include: [options.include],
    exclude: ["**/node_modules/**", "**/dist/**", "**/build/**"],
    environment: "node",
    setupFiles: [`${root}vitest.setup.ts`],
    // A safety net for a fiber that hangs. A test that comes near it is wrong: see `TestClock`.
    testTimeout: 120_000,
    hookTimeout: 120_000
  }
})
