/**
 * Writes `packages/<name>/src/index.ts`: one namespace export for each public module, that is for each PascalCase file.
 *
 * With `--check` nothing is written; a file that differs from what would be written is an error.
 */
import { existsSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { packageNames, readText, root } from "./modules.mjs"

const width = 120

/** The docblock that opens a module: its first sentence and its `@since`. Undefined when either is missing. */
export const readDocblock = (text) => {
  const block = /^\s*\/\*\*([\s\S]*?)\*\//.exec(text)?.[1]
  if (block === undefined) return undefined
  const lines = block.split("\n").map((line) => line.replace(/^\s*\*? ?/, "").trimEnd())
  const since = lines.map((line) => /^@since (\S+)/.exec(line)?.[1]).find((version) => version !== undefined)
  const prose = lines.join("\n").split(/^@/m)[0].trim().split(/\n\s*\n/)[0].replaceAll(/\s*\n\s*/g, " ")
  const sentence = /^.*?[.:!?](?=\s|$)/.exec(prose)?.[0].replace(/:$/, ".") ?? prose
  return since === undefined || sentence === "" ? undefined : { sentence, since }
}

const wrap = (words) =>
  words.split(" ").reduce((lines, word) => {
    const last = lines.at(-1)
    if (last !== undefined && ` * ${last} ${word}`.length <= width) lines[lines.length - 1] = `${last} ${word}`
    else lines.push(word)
    return lines
  }, [])

/** What `index.ts` must hold, or undefined for a package without public modules. `problems` lists what is undocumented. */
export const generateIndex = (folder) => {
  const problems = []
  const names = existsSync(folder)
    ? readdirSync(folder).filter((file) => /^[A-Z][A-Za-z0-9]*\.ts$/.test(file)).map((file) => file.slice(0, -3)).sort()
    : []
  const entries = names.map((name) => {
    const docblock = readDocblock(readText(path.join(folder, `${name}.ts`)))
    if (docblock === undefined) {
      problems.push(`${name}.ts must open with a docblock: one sentence and @since`)
    }
    const { sentence, since } = docblock ?? { sentence: name, since: "0.1.0" }
    return ["/**", ...wrap(sentence).map((line) => ` * ${line}`), " *", ` * @since ${since}`, " */"]
      .concat(`export * as ${name} from "./${name}.js"`)
      .join("\n")
  })
  return {
    text: names.length === 0 ? undefined : `/**\n * @since 0.1.0\n */\n\n${entries.join("\n\n")}\n`,
    problems
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const check = process.argv.includes("--check")
  let failures = 0
  const fail = (message) => {
    failures++
    console.error(message)
  }
  for (const name of packageNames()) {
    const folder = path.join(root, "packages", name, "src")
    const index = path.join(folder, "index.ts")
    const shown = path.relative(root, index)
    const { problems, text } = generateIndex(folder)
    for (const problem of problems) fail(`${path.join("packages", name, "src")}: ${problem}`)
    const present = existsSync(index) ? readText(index) : undefined
    if (present === text) continue
    if (check) fail(`${shown} is out of date: run npm run codegen`)
    else if (text === undefined) rmSync(index)
    else writeFileSync(index, text)
    if (!check) console.log(text === undefined ? `removed ${shown}` : `wrote ${shown}`)
  }
  process.exitCode = failures > 0 ? 1 : 0
}
