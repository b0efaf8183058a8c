import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { folder, GatewayProcess, invoke, lines, plain } from "./support/switchyard.js"

describe("switchyard", () => {
  it.scopedLive("says what is wrong in a sentence or two, and ends with 2", () =>
    Effect.gen(function*() {
      const dir = yield* folder
      writeFileSync(join(dir, "file"), "")
      mkdirSync(join(dir, "state"))
      const state = ["--state-dir", join(dir, "state")]
      const cases: ReadonlyArray<readonly [args: ReadonlyArray<string>, says: RegExp]> = [
        [["gateway", "--host", "0.0.0.0", ...state], /127\.0\.0\.1/],
        [["gateway", "--model", "gpt-9", ...state], /offline/],
        [["gateway", "--port", "99999", ...state], /--port/],
        [["gateway", "--port", "0", "--state-dir", join(dir, "file", "x")], /not a folder/],
        [["gateway", "--port", "0", "--state-dir", "/proc/nope"], /cannot be made/],
        [["gateway", "--port", "0", "--workspace", join(dir, "none"), ...state], /does not exist/],
        [["health", "--url", "ws://127.0.0.1:1"], /No gateway answers at ws:\/\/127\.0\.0\.1:1/],
        [["health", "--url", "ftp://x"], /ws:\/\/127\.0\.0\.1:7420/],
        [["agent"], /--message/],
        [["agent", "-m", "x", "--mode", "shout"], /steer/],
        [["agent", "-m", "x", "--bogus"], /--bogus/],
        [["agent", "-m", "x", "--timeout", "soon"], /--timeout/],
        [["agent", "-m", "x", "--local", "--no-wait"], /--no-wait/],
        [["bogus"], /'agent'/]
      ]
      yield* Effect.forEach(cases, ([args, says]) =>
        Effect.map(invoke(args), ({ code, stderr, stdout }) => {
          assert.deepStrictEqual({ args, code, stdout }, { args, code: 2, stdout: "" })
          assert.match(stderr, says)
          plain(stderr)
        }), { discard: true })
    }))

  it.live("explains each command", () =>
    Effect.gen(function*() {
      const { code, stdout } = yield* invoke(["sessions", "abort", "--help"])
      assert.strictEqual(code, 0)
      assert.include(stdout, "$ switchyard sessions abort [--clear-queued] [--json] [--url text] <key>")
      // eslint-disable-next-line no-control-regex
      assert.notMatch(stdout, /\u001b/)
    }))
})

it.layer(GatewayProcess.layer)("switchyard against a gateway", (it) => {
  it.effect("streams the answer of a message", () =>
    Effect.gen(function*() {
      const gateway = yield* GatewayProcess
      const { code, stderr, stdout } = yield* gateway.run("agent", "-s", "a", "-m", "how many words are in five.txt?")
      assert.deepStrictEqual({ code, stderr, stdout }, { code: 0, stderr: "", stdout: "five.txt has 5 words.\n" })
    }))

  it.effect("prints one event a line with its run id, and the result of the wait last", () =>
    Effect.gen(function*() {
      const gateway = yield* GatewayProcess
      const { stdout } = yield* gateway.run(
        ...["agent", "-s", "b", "--id", "b1", "--json", "-m", "how many words are in five.txt?"]
      )
      const events = lines(stdout)
      assert.isTrue(events.every((event) => event["runId"] === "b1"))
      assert.deepStrictEqual(
        events.filter((event) => event["stream"] === "lifecycle").length,
        2
      )
      assert.deepInclude(events.at(-1), { status: "ok", settled: true, outcome: "completed" })
    }))

  it.effect("accepts without waiting, waits, gives up waiting, and aborts", () =>
    Effect.gen(function*() {
      const gateway = yield* GatewayProcess
      const sent = yield* gateway.run("agent", "-s", "c", "--id", "c1", "--no-wait", "-m", "count slowly to 900")
      assert.deepStrictEqual([sent.code, sent.stdout], [0, "c1 started\n"])
      const over = yield* gateway.run("wait", "c1", "--timeout", "0")
      assert.strictEqual(over.code, 3)
      plain(over.stderr)
      const queue = lines((yield* gateway.run("queue", "show", "c", "--json")).stdout)
      assert.strictEqual((queue[0]?.["active"] as { runId: string }).runId, "c1")
      const aborted = lines((yield* gateway.run("abort", "c1", "--json")).stdout)
      assert.deepInclude(aborted[0], { runId: "c1", status: "aborting" })
      const waited = yield* gateway.run("wait", "c1", "--json")
      assert.strictEqual(waited.code, 1)
      assert.deepInclude(lines(waited.stdout)[0], { settled: true, outcome: "aborted" })
      plain(waited.stderr)
    }))

  it.effect("follows the run that its message steers, and ends with it", () =>
    Effect.gen(function*() {
      const gateway = yield* GatewayProcess
      yield* gateway.run("agent", "-s", "d", "--id", "d1", "--no-wait", "-m", "check slowly 5 times")
      const { code, stdout } = yield* gateway.run(
        ...["agent", "-s", "d", "--id", "d2", "--json", "-m", "how many words are in five.txt?"]
      )
      assert.strictEqual(code, 0)
      const result = lines(stdout).at(-1)
      assert.deepInclude(result, { runId: "d2", status: "ok", outcome: "merged", mergedInto: "d1" })
      assert.include(String(result?.["reply"]), "five.txt has 5 words.")
    }))

  it.effect("lists sessions, their messages and how the gateway is", () =>
    Effect.gen(function*() {
      const gateway = yield* GatewayProcess
      yield* gateway.run("agent", "-s", "e", "-m", "how many words are in five.txt?")
      const sessions = lines((yield* gateway.run("sessions", "list", "--json")).stdout)
      assert.isTrue(sessions.some((session) => session["sessionKey"] === "e"))
      const messages = lines((yield* gateway.run("sessions", "history", "e", "--json")).stdout)
      assert.deepStrictEqual(messages.map((message) => message["role"]), ["user", "assistant", "tool", "assistant"])
      const stopped = lines((yield* gateway.run("sessions", "abort", "e", "--clear-queued", "--json")).stdout)
      assert.deepInclude(stopped[0], { sessionKey: "e", aborted: null })
      assert.deepInclude(lines((yield* gateway.run("health", "--json")).stdout)[0], { status: "ok", model: "offline" })
      const readable = [["sessions", "list"], ["sessions", "history", "e"], ["queue", "show", "e"], ["health"]]
      yield* Effect.forEach(readable, (args) =>
        Effect.map(gateway.run(...args), ({ code, stderr, stdout }) => {
          assert.deepStrictEqual({ code, stderr }, { code: 0, stderr: "" })
          assert.isNotEmpty(stdout)
        }), { discard: true })
    }))

  it.effect("ends with 2 and a sentence when the gateway refuses", () =>
    Effect.gen(function*() {
      const gateway = yield* GatewayProcess
      const refused = [
        ["wait", "unknown"],
        ["abort", "unknown"],
        ["sessions", "history", "unknown"],
        ["agent", "-m", " "],
        ["agent", "-m", "x", "-s", " x"]
      ]
      yield* Effect.forEach(refused, (args) =>
        Effect.map(gateway.run(...args), ({ code, stderr, stdout }) => {
          assert.deepStrictEqual({ args, code, stdout }, { args, code: 2, stdout: "" })
          plain(stderr)
        }), { discard: true })
    }))

  it.effect("names the port that is taken", () =>
    Effect.gen(function*() {
      const gateway = yield* GatewayProcess
      const port = gateway.url.replace(/\D*127\.0\.0\.1:(\d+).*/, "$1")
      const { code, stderr } = yield* Effect.scoped(
        Effect.flatMap(folder, (state) =>
          gateway.run("gateway", "--port", port, "--state-dir", state, "--workspace", state))
      )
      assert.strictEqual(code, 2)
      assert.include(stderr, port)
      plain(stderr)
    }))
})
