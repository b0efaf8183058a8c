import { spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs"
import * as path from "node:path"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("..", import.meta.url))
const stamp = path.join(root, "node_modules/.cache/switchyard/build")

/** A digest of the names, sizes and times of all that the build reads. */
const fingerprint = () => {
  const hash = createHash("sha256")
  const add = (file) => {
    const { mtimeMs, size } = statSync(file)
    hash.update(`${path.relative(root, file)} ${size} ${mtimeMs}\n`)
  }
  add(path.join(root, "tsconfig.base.json"))
  add(path.join(root, "package-lock.json"))
  const packages = path.join(root, "packages")
  for (const name of readdirSync(packages).sort()) {
    const folder = path.join(packages, name)
    for (const file of ["package.json", "tsconfig.src.json"].map((file) => path.join(folder, file))) {
      if (existsSync(file)) add(file)
    }
    const sources = path.join(folder, "src")
    if (!existsSync(sources)) continue
    for (const file of readdirSync(sources, { recursive: true }).map(String).sort()) {
      if (file.endsWith(".ts")) add(path.join(sources, file))
    }
    hash.update(`${existsSync(path.join(folder, "dist/.tsbuildinfo"))}\n`)
  }
  return hash.digest("hex")
}

/**
 * Compiles the packages when a source changed since the last time. `onBuild` is called before that starts.
 * Returns the exit code of the compiler and what it printed.
 */
export const ensureBuilt = ({ onBuild }) => {
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === fingerprint()) return { status: 0, output: "" }
  onBuild()
  const compiler = path.join(root, "node_modules/typescript/bin/tsc")
  const { error, status, stderr, stdout } = spawnSync(
    process.execPath,
    [compiler, "-b", path.join(root, "packages/cli/tsconfig.src.json")],
    { cwd: root, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"], maxBuffer: 64 * 1024 * 1024 }
  )
  if (status === 0) {
    mkdirSync(path.dirname(stamp), { recursive: true })
    writeFileSync(stamp, fingerprint())
  }
  return { status: status ?? 1, output: `${stdout ?? ""}${stderr ?? ""}${error?.message ?? ""}` }
}
