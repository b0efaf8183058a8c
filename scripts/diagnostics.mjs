/**
 * Reports misuse of Effect that the compiler accepts: an effect that floats, a missing `return yield*`, a leaking
 * requirement, and so on.
 *
 * The tool behind it recognises most of these only where a file imports from the barrel (`import { Effect } from
 * "effect"`), and the sources import modules (`import * as Effect from "effect/Effect"`). So it is run on a copy of the
 * files with these imports rewritten. Line numbers stay the same.
 */
import { spawn } from "node:child_process"
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { packageNames, readText, root, typescriptFiles } from "./modules.mjs"

/** The rules that are errors here. Each has a planted violation in `test/tooling/diagnostics.test.ts`. */
export const rules = [
  "catchAllToMapError",
  "catchUnfailableEffect",
  "classSelfMismatch",
  "deterministicKeys",
  "effectFnIife",
  "effectFnImplicitAny",
  "effectGenUsesAdapter",
  "effectInFailure",
  "effectInVoidSuccess",
  "effectMapFlatten",
  "effectMapVoid",
  "effectSucceedWithVoid",
  "flatMapToMap",
  "floatingEffect",
  "genericEffectServices",
  "globalErrorInEffectCatch",
  "globalErrorInEffectFailure",
  "layerMergeAllWithDependencies",
  "lazyPromiseInEffectSync",
  "leakingRequirements",
  "missingReturnYieldStar",
  "missingStarInYieldEffectGen",
  "multipleEffectProvide",
  "nonObjectEffectServiceType",
  "overriddenSchemaConstructor",
  "returnEffectInGen",
  "runEffectInsideEffect",
  "schemaSyncInEffect",
  "scopeInLayerEffect",
  "tryCatchInEffectGen",
  "unknownInEffectCatch",
  "unnecessaryEffectGen",
  "unnecessaryFailYieldableError",
  "unnecessaryPipe",
  "unnecessaryPipeChain"
]

/** The compiler reports these already, and knows better. */
const compilerRules = ["missingEffectContext", "missingEffectError", "missingLayerContext"]

/** The rules that a test may break: its services and errors are known to nobody else. */
const sourcesOnly = [
  "deterministicKeys",
  "globalErrorInEffectCatch",
  "globalErrorInEffectFailure",
  "schemaSyncInEffect",
  "unknownInEffectCatch"
]

/** The names that the barrel of effect exports as namespaces. */
const namespaces = new Set(
  Array.from(
    readText(path.join(root, "node_modules/effect/dist/dts/index.d.ts")).matchAll(/^export \* as (\w+) from/gm),
    ([, name]) => name
  )
)

/** Turns imports of modules of effect into imports from its barrel. */
export const rewriteImports = (text) =>
  text.replaceAll(
    /^import (type )?\* as (\w+) from "effect\/(\w+)"/gm,
    (statement, type = "", local, name) =>
      namespaces.has(name)
        ? `import ${type}{ ${local === name ? name : `${name} as ${local}`} } from "effect"`
        : statement
  )

const run = (args) =>
  new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, { cwd: root, stdio: ["ignore", "pipe", "pipe"] })
    let stdout = ""
    let stderr = ""
    child.stdout.setEncoding("utf8").on("data", (chunk) => stdout += chunk)
    child.stderr.setEncoding("utf8").on("data", (chunk) => stderr += chunk)
    child.on("error", reject)
    child.on("close", () => resolve({ stdout, stderr }))
  })

/**
 * The findings in `files` (absolute names below `base`), each as `{ file, line, column, rule, message }`.
 * `cache` names the folder for the copy.
 *
 * @param {{ base: string, cache: string, files: Array<string> }} options
 * @returns {Promise<Array<{ file: string, line: number, column: number, rule: string, message: string }>>}
 */
export const diagnose = async ({ base, cache, files }) => {
  const copy = path.join(root, "node_modules/.cache", cache)
  rmSync(copy, { recursive: true, force: true })
  mkdirSync(copy, { recursive: true })
  const place = (file, text) => {
    const target = path.join(copy, path.relative(base, file))
    mkdirSync(path.dirname(target), { recursive: true })
    writeFileSync(target, text)
  }
  const manifests = new Set()
  for (const file of files) {
    place(file, rewriteImports(readText(file)))
    // The id of a tag begins with the name of its package.
    for (let folder = path.dirname(file); folder.startsWith(base); folder = path.dirname(folder)) {
      manifests.add(path.join(folder, "package.json"))
    }
  }
  for (const manifest of manifests) if (existsSync(manifest)) place(manifest, readText(manifest))
  const config = {
    extends: path.join(root, "tsconfig.base.json"),
    include: ["."],
    compilerOptions: {
      composite: false,
      incremental: false,
      declaration: false,
      declarationMap: false,
      types: ["node"],
      paths: Object.fromEntries(
        packageNames().flatMap((name) => [
          [`@switchyard/${name}`, [`./packages/${name}/src/index.ts`]],
          [`@switchyard/${name}/*`, [`./packages/${name}/src/*.ts`]]
        ])
      )
    }
  }
  const project = path.join(copy, "tsconfig.json")
  writeFileSync(project, JSON.stringify(config))
  const settings = {
    diagnosticSeverity: Object.fromEntries([
      ...rules.map((rule) => [rule, "error"]),
      ...compilerRules.map((rule) => [rule, "off"])
    ]),
    // "@switchyard/core/Lanes" for the tag `Lanes` of Lanes.ts, "@switchyard/core/Lanes/Other" for another one in it.
    keyPatterns: [{ target: "service", pattern: "default", skipLeadingPath: ["src/"] }]
  }
  const { stderr, stdout } = await run([
    path.join(root, "node_modules/@effect/language-service/cli.js"),
    "diagnostics",
    ...["--project", project, "--format", "json", "--severity", "error"],
    ...["--lspconfig", JSON.stringify(settings)]
  ])
  let report
  try {
    report = JSON.parse(stdout)
  } catch {
    throw new Error(`the diagnostics tool did not report: ${stdout}${stderr}`)
  }
  if (report.summary.filesChecked !== files.length) {
    throw new Error(`the diagnostics tool saw ${report.summary.filesChecked} of ${files.length} files`)
  }
  return report.diagnostics.map(({ column, file, line, message, name }) => ({
    file: path.join(base, path.relative(copy, file)),
    line,
    column,
    rule: name,
    message: message.split("\n")[0]
  }))
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folders = ["test", ...packageNames().flatMap((name) => [`packages/${name}/src`, `packages/${name}/test`])]
  const files = folders.flatMap((folder) => typescriptFiles(path.join(root, folder)))
  const findings = (await diagnose({ base: root, cache: "diagnostics", files })).filter(({ file, rule }) =>
    file.includes("/src/") || !sourcesOnly.includes(rule)
  )
  for (const { column, file, line, message, rule } of findings) {
    console.error(`${path.relative(root, file)}:${line}:${column} ${rule}: ${message}`)
  }
  console.log(`${files.length} files, ${findings.length} findings`)
  process.exitCode = findings.length > 0 ? 1 : 0
}
