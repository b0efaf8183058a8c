import effect from "@effect/eslint-plugin"
import js from "@eslint/js"
import simpleImportSort from "eslint-plugin-simple-import-sort"
import { readdirSync, readFileSync } from "node:fs"
import tseslint from "typescript-eslint"

/**
 * Which packages the sources of a package may import. Dependence goes one way; a package that is not in a list is out
 * of reach. `testkit` is in no list: only test projects and benchmarks use it.
 */
const reach = {
  protocol: [],
  core: ["protocol"],
  sql: ["core", "protocol"],
  models: ["core", "protocol"],
  tools: ["core", "protocol"],
  gateway: ["core", "protocol", "sql", "models", "tools"],
  client: ["protocol"],
  cli: ["core", "protocol", "sql", "models", "tools", "gateway", "client"],
  testkit: ["core", "protocol"]
}

/**
 * Packages that do no input or output of their own, with what they may use of Node all the same. Those with an empty
 * list run in a browser as well.
 */
const pure = { protocol: [], core: ["crypto", "os"], models: [], client: [] }

const packages = readdirSync(new URL("packages", import.meta.url), { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)

/** The published packages that have a barrel which the sources may not use. */
const barrels = [
  "effect",
  ...new Set(packages.flatMap((name) => {
    const manifest = JSON.parse(readFileSync(new URL(`packages/${name}/package.json`, import.meta.url), "utf8"))
    return Object.keys(manifest.dependencies).filter((dependency) => dependency.startsWith("@effect/"))
  })),
  ...packages.map((name) => `@switchyard/${name}`)
]

const timers = ["setTimeout", "setInterval", "setImmediate"].map((name) => ({
  name,
  message: "Use Effect.sleep, Schedule or Effect.timeout: a test cannot move this clock."
}))

const syntax = (selector, message) => ({ selector, message })
const asynchronous = "Use Effect.gen: a promise cannot be interrupted. Wrap a foreign one in Effect.tryPromise."
const barrel = "Import the module (effect/Effect), not the barrel: it costs start-up time."
const isBarrel = "[source.value=/^(effect|@(effect|switchyard)\\u002F[^\\u002F]+)$/]"

const spreadInPush = syntax(
  "CallExpression[callee.property.name='push'] > SpreadElement",
  "Use a loop: the arguments of one call go on the stack, and a long list overflows it."
)

export default tseslint.config(
  {
    ignores: ["**/dist/", "**/build/", "**/node_modules/", "**/coverage/", "packages/*/src/index.ts"]
  },
  {
    files: ["**/*.{ts,mts,js,mjs}"],
    extends: [js.configs.recommended, tseslint.configs.recommended],
    plugins: { "@effect": effect, "simple-import-sort": simpleImportSort },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      "@effect/dprint": ["error", {
        config: {
          indentWidth: 2,
          lineWidth: 120,
          semiColons: "asi",
          quoteStyle: "alwaysDouble",
          trailingCommas: "never",
          operatorPosition: "maintain",
          "arrowFunction.useParentheses": "force",
          "module.sortImportDeclarations": "maintain",
          "module.sortExportDeclarations": "maintain",
          "importDeclaration.sortNamedImports": "maintain",
          "exportDeclaration.sortNamedExports": "maintain"
        }
      }],
      "simple-import-sort/imports": ["error", { groups: [["^\\u0000", "^@?\\w", "^[^.]", "^\\.\\./", "^\\./"]] }],
      "simple-import-sort/exports": "error",
      "no-duplicate-imports": ["error", { allowSeparateTypeImports: true }],
      "no-restricted-syntax": ["error", spreadInPush],
      "object-shorthand": "error",
      "prefer-const": "error",
      "require-yield": "off",
      "@typescript-eslint/array-type": ["error", { default: "generic", readonly: "generic" }],
      "@typescript-eslint/consistent-type-imports": "error",
      "@typescript-eslint/no-empty-object-type": "off",
      "@typescript-eslint/no-namespace": "off",
      "@typescript-eslint/no-unused-vars": ["error", {
        argsIgnorePattern: "^_",
        varsIgnorePattern: "^_",
        destructuredArrayIgnorePattern: "^_",
        ignoreRestSiblings: true
      }]
    }
  },
  {
    files: ["**/*.{js,mjs}"],
    languageOptions: {
      globals: Object.fromEntries(
        Object.getOwnPropertyNames(globalThis).map((name) => [name, "readonly"])
      )
    }
  },
  {
    files: ["packages/*/src/**/*.ts"],
    rules: {
      "no-console": "error",
      "@effect/no-import-from-barrel-package": ["error", { packageNames: barrels }],
      "no-restricted-globals": ["error", ...timers],
      "no-restricted-syntax": [
        "error",
        spreadInPush,
        syntax(":function[async=true]", asynchronous),
        syntax("AwaitExpression, ForOfStatement[await=true]", asynchronous),
        syntax("MemberExpression[object.name='Date'][property.name='now']", "Use Clock.currentTimeMillis."),
        syntax("NewExpression[callee.name='Date'][arguments.length=0]", "Use Clock or DateTime.now."),
        syntax("MemberExpression[object.name='Math'][property.name='random']", "Use Random."),
        syntax(
          "MemberExpression[object.name='globalThis'][property.name=/^set(Timeout|Interval|Immediate)$/]",
          timers[0].message
        ),
        syntax(
          "MemberExpression[object.name='process'][property.name='env']",
          "Use Config: only a layer's configuration reads the environment."
        ),
        syntax(`ImportDeclaration${isBarrel}[importKind='type']`, barrel),
        syntax(`ImportDeclaration${isBarrel}:not(:has(ImportSpecifier))`, barrel),
        syntax(`:matches(ExportAllDeclaration, ExportNamedDeclaration)${isBarrel}`, barrel)
      ]
    }
  },
  ...packages.filter((name) => name in reach).map((name) => ({
    files: [`packages/${name}/src/**/*.ts`],
    rules: {
      "no-restricted-imports": ["error", {
        patterns: [
          {
            regex: `^@switchyard/(?!(${[...reach[name], "$."].join("|")})(/|$))`,
            message: reach[name].length === 0
              ? `packages/${name} stands below every other package.`
              : `packages/${name} may use ${reach[name].join(", ")} only.`
          },
          { regex: "^@switchyard/[^/]+/internal/", message: "What is under internal/ belongs to its package alone." },
          { regex: "^\\..*/(src|dist|test|packages)/", message: "Import another package by its name." },
          { regex: "/index\\.js$", message: "Import the module: index.ts is generated for users of the package." },
          { regex: "^(node:)?timers(/|$)", message: timers[0].message },
          ...(name in pure
            ? [{
              regex: `^node:(?!(${[...pure[name], "$."].join("|")})$)`,
              message: `packages/${name} does no input or output of its own: that is what layers are for.`
            }]
            : [])
        ]
      }]
    }
  })),
  {
    files: ["packages/*/test/**/*.ts", "test/**/*.ts"],
    rules: {
      "no-console": "error",
      "no-restricted-imports": ["error", {
        paths: [{ name: "vitest", message: "Use @effect/vitest: it.effect, it.scoped, assert." }]
      }]
    }
  },
  {
    files: ["packages/*/test/**/*.ts"],
    rules: {
      "no-restricted-globals": ["error", ...timers]
    }
  }
)
