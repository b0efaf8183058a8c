/**
 * Fails when the sources of the packages import each other in a circle.
 *
 * Only what is left after compilation counts: an `import type` is erased, so it closes no circle.
 */
import { existsSync } from "node:fs"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import ts from "typescript"
import { packageNames, readText, root, typescriptFiles } from "./modules.mjs"

/** Where an import leads, or undefined when it leaves the repository. */
const resolve = (from, specifier) => {
  const own = /^@switchyard\/([^/]+)(?:\/(.+))?$/.exec(specifier)
  const target = own !== null
    ? path.join(root, "packages", own[1], "src", `${own[2] ?? "index"}.ts`)
    : specifier.startsWith(".")
    ? path.resolve(path.dirname(from), specifier).replace(/\.js$/, ".ts")
    : undefined
  return target !== undefined && existsSync(target) ? target : undefined
}

const importsOf = (file) => {
  const source = ts.createSourceFile(file, readText(file), ts.ScriptTarget.Latest, false)
  return source.statements.flatMap((statement) => {
    const typeOnly = ts.isImportDeclaration(statement)
      ? statement.importClause?.isTypeOnly === true
      : ts.isExportDeclaration(statement)
      ? statement.isTypeOnly
      : true
    if (typeOnly || statement.moduleSpecifier === undefined) return []
    return resolve(file, statement.moduleSpecifier.text) ?? []
  })
}

/**
 * Each circle among `files` and what they import, as the list of its files.
 *
 * @param {Array<string>} files
 * @returns {Array<Array<string>>}
 */
export const findCircles = (files) => {
  const circles = []
  const done = new Set()
  const trail = []
  const visit = (file) => {
    const start = trail.indexOf(file)
    if (start >= 0) {
      circles.push(trail.slice(start))
      return
    }
    if (done.has(file)) return
    trail.push(file)
    for (const next of importsOf(file)) visit(next)
    trail.pop()
    done.add(file)
  }
  for (const file of files) visit(path.resolve(file))
  return circles
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const files = packageNames().flatMap((name) => typescriptFiles(path.join(root, "packages", name, "src")))
  const circles = findCircles(files)
  for (const circle of circles) {
    console.error(`circular imports: ${[...circle, circle[0]].map((file) => path.relative(root, file)).join(" -> ")}`)
  }
  console.log(`${files.length} modules, ${circles.length} circles`)
  process.exitCode = circles.length > 0 ? 1 : 0
}
