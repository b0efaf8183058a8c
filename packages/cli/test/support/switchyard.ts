import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert } from "@effect/vitest"
import * as Cli from "@switchyard/cli/Cli"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as TestServices from "effect/TestServices"
import { spawn } from "node:child_process"
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { report } from "../../src/internal/process.js"

const command = fileURLToPath(new URL("../../bin/switchyard.mjs", import.meta.url))
const built = fileURLToPath(new URL("../../dist/bin.js", import.meta.url))

export interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface Running {
  /** Waits until standard output matches, and gives the match. */
  readonly says: (pattern: RegExp) => Effect.Effect<RegExpExecArray>
  readonly signal: (name: "SIGINT" | "SIGTERM" | "SIGKILL") => Effect.Effect<void>
  readonly closeStdout: Effect.Effect<void>
  readonly ended: Effect.Effect<Ended>
}

/** A folder of its own, gone at the end. */
export const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "switchyard-cli-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

/** A workspace with a file of five words. */
export const workspace = Effect.tap(
  folder,
  (path) => Effect.sync(() => writeFileSync(join(path, "five.txt"), "one two three four five\n"))
)

/** Starts the built command in a process of its own. */
export const start = (args: ReadonlyArray<string>, env: Record<string, string> = {}) =>
  Effect.acquireRelease(
    Effect.gen(function*() {
      if (!existsSync(built)) return yield* Effect.dieMessage("these tests run the built command: run `npm run build`")
      const ended = yield* Deferred.make<Ended>()
      const child = spawn(process.execPath, [command, ...args], {
        stdio: ["ignore", "pipe", "pipe"],
        env: { PATH: process.env["PATH"], HOME: "/nonexistent", ...env }
      })
      let stdout = ""
      let stderr = ""
      let waiting: Array<() => void> = []
      const wake = () => {
        const woken = waiting
        waiting = []
        for (const resume of woken) resume()
      }
      child.stdout.setEncoding("utf8").on("data", (text: string) => {
        stdout += text
        wake()
      })
      child.stderr.setEncoding("utf8").on("data", (text: string) => stderr += text)
      child.on("close", (code) => {
        Deferred.unsafeDone(ended, Effect.succeed({ code, stdout, stderr }))
        wake()
      })
      const says = (pattern: RegExp): Effect.Effect<RegExpExecArray> =>
        Effect.async((resume) => {
          const look = () => {
            const match = pattern.exec(stdout)
            if (match !== null) resume(Effect.succeed(match))
            else if (child.exitCode !== null) resume(Effect.dieMessage(`ended without saying ${pattern}: ${stderr}`))
            else waiting.push(look)
          }
          look()
        })
      const running: Running = {
        says,
        signal: (name) => Effect.sync(() => child.kill(name)),
        closeStdout: Effect.sync(() => child.stdout.destroy()),
        ended: Deferred.await(ended)
      }
      return running
    }),
    (running) => Effect.zipRight(running.signal("SIGKILL"), running.ended)
  )

/** Runs the built command to its end. */
export const run = (args: ReadonlyArray<string>, env?: Record<string, string>): Effect.Effect<Ended> =>
  Effect.scoped(Effect.flatMap(start(args, env), (running) => running.ended))

/** What an effect writes to the standard streams of this process. One at a time: it owns them. */
export const capture = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.acquireUseRelease(
    Effect.sync(() => {
      const written = { stdout: "", stderr: "" }
      const restore = (["stdout", "stderr"] as const).map((name) => {
        const write = process[name].write
        process[name].write = (text: string | Uint8Array) => {
          written[name] += String(text)
          return true
        }
        return () => {
          process[name].write = write
        }
      })
      return { written, restore }
    }),
    ({ written }) => Effect.map(effect, (value) => ({ ...written, value })),
    ({ restore }) => Effect.sync(() => restore.forEach((undo) => undo()))
  )

/** Runs the command line inside this process, as `bin.ts` would. One at a time: it owns the standard streams. */
export const invoke = (args: ReadonlyArray<string>, env: Record<string, string> = {}): Effect.Effect<Ended> =>
  capture(
    Cli.run(["node", "switchyard", ...args]).pipe(
      Effect.provide(NodeContext.layer),
      Effect.withConfigProvider(ConfigProvider.fromMap(new Map(Object.entries(env)))),
      Effect.exit
    )
  ).pipe(
    Effect.map(({ stderr, stdout, value }) => {
      const { code, message } = report(value, undefined)
      return { code, stdout, stderr: stderr + (message === "" ? "" : `${message}\n`) }
    }),
    TestServices.provideLive
  )

/** A gateway process that the tests of a file share, and the command line to use against it. */
export class GatewayProcess extends Context.Tag("test/GatewayProcess")<GatewayProcess, {
  readonly url: string
  readonly run: (...args: ReadonlyArray<string>) => Effect.Effect<Ended>
}>() {
  static readonly layer: Layer.Layer<GatewayProcess> = Layer.scoped(
    GatewayProcess,
    Effect.gen(function*() {
      const gateway = yield* start([
        ...["gateway", "--port", "0", "--state-dir", yield* folder, "--workspace", yield* workspace]
      ])
      const [, url = ""] = yield* gateway.says(/listens on (ws:\/\/\S+)/)
      return { url, run: (...args) => invoke(args, { SWITCHYARD_URL: url }) }
    })
  )
}

export const lines = (text: string): ReadonlyArray<Record<string, unknown>> =>
  text.trimEnd().split("\n").map((line) => JSON.parse(line))

/** A complaint is a sentence or two for a person: no stack, no tags. */
export const plain = (text: string): void => {
  assert.notMatch(text, /\n\s+at |_tag|Cause|FiberFailure|Error:/)
  assert.isAtMost(text.trimEnd().split("\n").length, 2, text)
}
