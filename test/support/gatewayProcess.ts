import * as NodeSocket from "@effect/platform-node/NodeSocket"
import * as Client from "@switchyard/client/Client"
import { Context, Effect, Layer } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"

const bin = fileURLToPath(new URL("../../bin/switchyard.mjs", import.meta.url))

/** A gateway in a process of its own, as built, and a client of it. Killed when the scope closes. */
export const gateway = (options: { readonly stateDir: string; readonly workspace: string }) =>
  Effect.gen(function*() {
    const child = yield* Effect.acquireRelease(
      Effect.sync(() =>
        spawn(
          process.execPath,
          [bin, "gateway", "--port", "0", "--state-dir", options.stateDir, "--workspace", options.workspace],
          { stdio: ["ignore", "pipe", "pipe"] }
        )
      ),
      (child) => end(child, "SIGKILL")
    )
    const url = yield* address(child)
    const context = yield* Layer.build(
      Layer.provide(Client.layerWebSocket({ url }), NodeSocket.layerWebSocketConstructor)
    )
    return { child, url, client: Context.get(context, Client.Client) }
  })

/** Ends a process and waits until it is gone. */
export const end = (child: ChildProcess, signal: "SIGTERM" | "SIGKILL"): Effect.Effect<number | null> =>
  Effect.async((resume) => {
    if (child.exitCode !== null || child.signalCode !== null) return resume(Effect.succeed(child.exitCode))
    child.once("exit", (code) => resume(Effect.succeed(code)))
    child.kill(signal)
  })

const address = (child: ChildProcess): Effect.Effect<string> =>
  Effect.async((resume) => {
    let said = ""
    for (const stream of [child.stdout!, child.stderr!]) {
      createInterface({ input: stream }).on("line", (line) => {
        said += `${line}\n`
        const found = /ws:\/\/\S+/.exec(line)
        if (found !== null) resume(Effect.succeed(found[0]))
      })
    }
    child.once("exit", (code) => resume(Effect.dieMessage(`the gateway ended with ${code}:\n${said}`)))
  })
