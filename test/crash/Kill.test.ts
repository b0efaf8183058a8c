import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { spawn } from "node:child_process"
import { fileURLToPath } from "node:url"

const script = fileURLToPath(new URL("kill.mjs", import.meta.url))

// Runs a script to its end and gives what it printed. Rejects nothing: a failure is in the exit code.
const node = (...args: ReadonlyArray<string>) =>
  Effect.async<{ readonly code: number | null; readonly output: string }>((resume) => {
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] })
    let output = ""
    child.stdout.on("data", (data: Buffer) => {
      output += data.toString()
    })
    child.stderr.on("data", (data: Buffer) => {
      output += data.toString()
    })
    child.on("exit", (code) => resume(Effect.succeed({ code, output })))
    return Effect.sync(() => child.kill("SIGKILL"))
  })

describe("kill -9 of the gateway", () => {
  it.live(
    "loses and doubles nothing that was accepted, whatever a run was doing (2.1, 6.5, 10.1)",
    () =>
      Effect.gen(function*() {
        const { code, output } = yield* node(script, "--kills", "5")
        assert.strictEqual(code, 0, output)
        assert.include(output, "10 messages accepted, 5 kills, 0 violations")
      }),
    // A safety net: five starts of a real process, with searches that take a while.
    180_000
  )
})
