// Kills a real gateway with SIGKILL at random instants after it accepted messages, starts it again on the same state, and
// checks that each accepted message has exactly one outcome and stands in the history exactly once.
//
//     node test/crash/kill.mjs --kills 50 [--seed 1]
//
// Prints a line per kill, then how often each phase of a run was hit. Exits 1 on the first violation.
import * as NodeSocket from "@effect/platform-node/NodeSocket"
import * as Client from "@switchyard/client/Client"
import Database from "better-sqlite3"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Stream from "effect/Stream"
import { spawn } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"

const option = (name, fallback) => {
  const at = process.argv.indexOf(`--${name}`)
  return at === -1 ? fallback : Number(process.argv[at + 1])
}
const kills = option("kills", 50)
const seed = option("seed", Math.floor(Math.random() * 2 ** 31))
const root = mkdtempSync(join(tmpdir(), "switchyard-kill-"))
const bin = fileURLToPath(new URL("../../bin/switchyard.mjs", import.meta.url))

// mulberry32: small, seeded, good enough to choose instants
let state = seed
const random = () => {
  state = (state + 0x6d2b79f5) | 0
  let t = Math.imul(state ^ (state >>> 15), 1 | state)
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296
}
const between = (low, high) => low + random() * (high - low)
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

// A workspace that takes a while to search, so that kills fall into a tool.
const workspace = join(root, "workspace")
mkdirSync(workspace)
writeFileSync(join(workspace, "README.md"), "a few words in a file\n")
for (let index = 0; index < 3_000; index += 1) {
  writeFileSync(join(workspace, `file-${index}.txt`), "the quick brown fox jumps over the lazy dog\n".repeat(300))
}

const start = async () => {
  const child = spawn(
    process.execPath,
    [bin, "gateway", "--port", "0", "--state-dir", join(root, "state"), "--workspace", workspace],
    { stdio: ["ignore", "pipe", "pipe"] }
  )
  let said = ""
  const url = await new Promise((resolve, reject) => {
    const read = (line) => {
      said += `${line}\n`
      const found = /ws:\/\/[^\s]+/.exec(line)
      if (found !== null) resolve(found[0])
    }
    createInterface({ input: child.stdout }).on("line", read)
    createInterface({ input: child.stderr }).on("line", read)
    child.on("exit", (code) => reject(new Error(`the gateway ended with ${code}:\n${said}`)))
  })
  const runtime = ManagedRuntime.make(
    Layer.provide(Client.layerWebSocket({ url }), NodeSocket.layerWebSocketConstructor)
  )
  const client = await runtime.runPromise(Client.Client)
  return { child, runtime, client, run: (effect) => runtime.runPromise(effect) }
}

const kill = async (gateway) => {
  const ended = new Promise((resolve) => gateway.child.once("exit", resolve))
  gateway.child.kill("SIGKILL")
  await ended
  await gateway.runtime.dispose()
}

// How far a run had come, from what stands in the journal.
const phaseOf = (runId) => {
  const db = new Database(join(root, "state", "journal.db"), { readonly: true })
  try {
    const kinds = db.prepare("select kind from journal where run = ? order by session, seq").pluck().all(runId)
    if (kinds.includes("settled")) return "after settling"
    if (!kinds.includes("consumed")) return "between accepted and consumed"
    const calls = kinds.filter((kind) => kind === "assistant").length
    const results = kinds.filter((kind) => kind === "tool_result").length
    return calls > results ? "in a tool" : "in the model stream"
  } finally {
    db.close()
  }
}

const scenarios = [
  // it waits for others to join it
  { message: "hello", mode: "collect", debounceMs: 1_200, after: () => between(0, 1_100), until: undefined },
  { message: "count slowly to 20", mode: "followup", after: () => between(0, 1_500), until: "delta" },
  { message: "check slowly 5 times", mode: "followup", after: () => between(0, 2_000), until: "start" },
  { message: "search needle", mode: "followup", after: () => between(0, 150), until: "tool" },
  { message: "hello", mode: "followup", after: () => between(0, 60), until: "end" }
]

const isReached = (event, until) =>
  until === "delta"
    ? event.stream === "assistant" && event.data.type === "delta"
    : until === "tool"
    ? event.stream === "tool" && event.data.type === "start"
    : until === "start"
    ? event.stream === "lifecycle" && event.data.type === "start"
    : event.stream === "lifecycle" && event.data.type !== "start"

const histogram = new Map()
const accepted = []
let failed = 0
const complain = (text) => {
  failed += 1
  process.stdout.write(`VIOLATION ${text}\n`)
}

process.stdout.write(`seed ${seed}\n`)
let gateway = await start()
for (let round = 0; round < kills; round += 1) {
  const scenario = scenarios[round % scenarios.length]
  const { after, message, until, ...rest } = scenario
  const sessionKey = `session ${round}`
  const main = await gateway.run(gateway.client.submit({ sessionKey, message, ...rest }))
  accepted.push(main)
  // One more waits behind it, or with it.
  const { after: _, until: __, ...second } = until === undefined ? scenario : { message: "hello", mode: "followup" }
  accepted.push(await gateway.run(gateway.client.submit({ sessionKey, ...second })))
  if (until !== undefined) {
    await gateway.run(
      gateway.client.follow({ runId: main.runId }).pipe(
        Stream.takeUntil((event) => isReached(event, until)),
        Stream.runDrain
      )
    )
  }
  await sleep(after())
  await kill(gateway)
  const phase = phaseOf(main.runId)
  histogram.set(phase, (histogram.get(phase) ?? 0) + 1)
  process.stdout.write(`kill ${round + 1} of ${kills}: "${message}" ${phase}\n`)
  gateway = await start()
}

// A last clean start has to bring everything to its end.
for (const { runId, sessionKey } of accepted) {
  const result = await gateway.run(gateway.client.waitFor(runId, { timeout: "60 seconds" }))
  if (!result.settled || result.outcome === undefined) complain(`${runId} has no outcome: ${JSON.stringify(result)}`)
  const history = await gateway.run(gateway.client.sessions.history(sessionKey))
  const rows = history.messages.filter((row) => row.role === "user" && row.runId === runId)
  if (rows.length !== 1) complain(`${runId} stands ${rows.length} times in the history of "${sessionKey}"`)
}
const outcomes = new Map()
for (const { runId } of accepted) {
  const { outcome } = await gateway.run(gateway.client.waitFor(runId))
  outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
}
await kill(gateway)
const db = new Database(join(root, "state", "journal.db"), { readonly: true })
const ends = db.prepare(
  "select run, count(*) as n from journal where kind in ('settled', 'cancelled') group by run having n > 1"
).all()
for (const { n, run } of ends) complain(`${run} has ${n} outcomes`)
db.close()
rmSync(root, { recursive: true, force: true })

for (const [phase, count] of [...histogram].sort()) process.stdout.write(`${phase.padEnd(32)} ${count}\n`)
process.stdout.write(`outcomes: ${[...outcomes].sort().map(([name, count]) => `${count} ${name}`).join(", ")}\n`)
process.stdout.write(`${accepted.length} messages accepted, ${kills} kills, ${failed} violations\n`)
process.exit(failed === 0 ? 0 : 1)
