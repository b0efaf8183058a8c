/**
 * `npm test`: everything that must hold before a change is accepted. It installs what is missing, runs each check, and
 * then every test. Each check counts as one test. The last line is `N passed, N failed`, and `, N skipped` if a test
 * was skipped, which is a failure too. Arguments go to vitest.
 *
 * This file uses nothing but Node, so that it runs in a fresh clone.
 */
import { spawn } from "node:child_process"
import { readFileSync, rmSync } from "node:fs"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { ensureInstalled } from "./install.mjs"

const root = fileURLToPath(new URL("..", import.meta.url))
const say = (line) => process.stdout.write(`${line}\n`)

/** The checks, each also an npm script of this name. The build is one of them. */
const checks = [
  ["check", "node_modules/typescript/bin/tsc", "-b", "--pretty", "false"],
  ["lint", "node_modules/eslint/bin/eslint.js", "--max-warnings", "0", "."],
  ["diagnostics", "scripts/diagnostics.mjs"],
  ["circular", "scripts/circular.mjs"],
  ["codegen:check", "scripts/codegen.mjs", "--check"]
]

const node = (args, stdio) =>
  new Promise((resolve) => {
    const child = spawn(process.execPath, args, { cwd: root, stdio })
    let output = ""
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding("utf8").on("data", (chunk) => output += chunk)
    }
    child.on("error", (error) => resolve({ ok: false, output: error.message }))
    child.on("close", (code) => resolve({ ok: code === 0, output }))
  })

const check = async ([name, ...args]) => {
  const started = Date.now()
  const { ok, output } = await node(args, ["ignore", "pipe", "pipe"])
  say(`${ok ? "ok  " : "FAIL"} ${name} (${((Date.now() - started) / 1000).toFixed(1)} s)`)
  if (!ok) say(output.trimEnd())
  return ok
}

/** Runs the checks, two at a time. Gives how many passed. */
const runChecks = async () => {
  const waiting = [...checks]
  let passed = 0
  const worker = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      if (await check(next)) passed++
    }
  }
  await Promise.all([worker(), worker()])
  return passed
}

/** The numbers in a report of vitest. A file that could not be loaded, or an error outside any test, is a failure. */
export const summarize = (report, ok) => {
  const broken = report.testResults.filter((file) => file.status === "failed" && file.assertionResults.length === 0)
  const failed = report.numFailedTests + broken.length
  return {
    passed: report.numPassedTests,
    failed: failed === 0 && !ok ? 1 : failed,
    skipped: report.numPendingTests + report.numTodoTests
  }
}

const runTests = async (args) => {
  const file = path.join(root, "node_modules/.cache/switchyard/tests.json")
  rmSync(file, { force: true })
  const { ok } = await node([
    path.join(root, "node_modules/vitest/vitest.mjs"),
    ...["run", "--reporter=default", "--reporter=json", `--outputFile.json=${file}`, "--allowOnly=false"],
    ...args
  ], ["ignore", "inherit", "inherit"])
  try {
    return summarize(JSON.parse(readFileSync(file, "utf8")), ok)
  } catch (error) {
    say(`vitest left no report: ${error.message}`)
    return { passed: 0, failed: 1, skipped: 0 }
  }
}

const main = async (args) => {
  const { status } = ensureInstalled({ quiet: false, onInstall: () => say("installing dependencies ...") })
  if (status !== 0) {
    say("npm ci failed")
    return { passed: 0, failed: 1, skipped: 0 }
  }
  const passed = await runChecks()
  const tests = await runTests(args)
  return {
    passed: passed + tests.passed,
    failed: checks.length - passed + tests.failed,
    skipped: tests.skipped
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { failed, passed, skipped } = await main(process.argv.slice(2))
  say(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`)
  process.exitCode = failed > 0 || skipped > 0 || passed === 0 ? 1 : 0
}
