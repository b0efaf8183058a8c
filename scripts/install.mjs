import { spawnSync } from "node:child_process"
import { existsSync, readFileSync } from "node:fs"
import * as path from "node:path"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("..", import.meta.url))

const readPackages = (file) => {
  try {
    return JSON.parse(readFileSync(path.join(root, file), "utf8")).packages
  } catch {
    return undefined
  }
}

/** Whether `node_modules` holds what `package-lock.json` names. npm leaves a list of what it installed. */
const isInstalled = () => {
  const installed = readPackages("node_modules/.package-lock.json")
  const wanted = readPackages("package-lock.json")
  if (installed === undefined || wanted === undefined) return false
  return Object.entries(wanted).every(([location, entry]) =>
    !location.includes("node_modules/") ||
    (installed[location] === undefined ? entry.optional === true : installed[location].version === entry.version)
  ) && existsSync(path.join(root, "node_modules/typescript/bin/tsc"))
}

/**
 * Installs the dependencies when they are missing or out of date. `onInstall` is called before that starts.
 * Returns the exit code of npm, and its output when `quiet` is set.
 */
export const ensureInstalled = ({ onInstall, quiet }) => {
  if (isInstalled()) return { status: 0, output: "" }
  onInstall()
  const { error, status, stderr, stdout } = spawnSync("npm", ["ci", "--no-fund", "--no-audit"], {
    cwd: root,
    encoding: "utf8",
    shell: process.platform === "win32",
    stdio: quiet ? ["ignore", "pipe", "pipe"] : ["ignore", "inherit", "inherit"],
    maxBuffer: 64 * 1024 * 1024,
    // Where no prebuilt SQLite can be had it is compiled: on every core.
    env: { ...process.env, JOBS: "max" }
  })
  return { status: status ?? 1, output: `${stdout ?? ""}${stderr ?? ""}${error?.message ?? ""}` }
}
