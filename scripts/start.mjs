/**
 * `npm start`: installs and builds what is missing or out of date, then becomes `switchyard up` with the same arguments.
 */
import { fileURLToPath } from "node:url"
import { ensureBuilt } from "./build.mjs"
import { ensureInstalled } from "./install.mjs"

const say = (line) => process.stderr.write(`${line}\n`)

const step = (what, { output, status }) => {
  if (status === 0) return
  say(output.trimEnd())
  say(`${what} failed`)
  process.exit(1)
}

step("installing", ensureInstalled({ quiet: true, onInstall: () => say("installing dependencies ...") }))
step("building", ensureBuilt({ onBuild: () => say("building ...") }))

const command = new URL("../bin/switchyard.mjs", import.meta.url)
// In this process, so that a signal reaches the server itself and its exit code is that of `npm start`.
process.argv.splice(1, 1, fileURLToPath(command), "up")
await import(command.href)
