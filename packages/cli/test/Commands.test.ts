import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync, mkdirSync, writeFileSync } from "node:fs"
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
        [["gateway", "--host", "0.0.0.0", ...state], /--host .*"0\.0\.0\.0".*127\.0\.0\.1/],
        [["gateway", "--model", "gpt-9", ...state], /--model .*offline/],
        [["gateway", "--state-dir", ""], /--state-dir must not be empty/],
        [["up", "-m", "x", "--workspace", " ", ...state], /--workspace must not be empty/],
        [["gateway", "--port", "99999", ...state], /--port/],
        [["gateway", "--port", "0", "--state-dir", join(dir, "file", "x")], /not a folder/],
        [["gateway", "--port", "0", "--state-dir", "/proc/nope"], /cannot be made/],
        [["gateway", "--port", "0", "--workspace", join(dir, "none"), ...state], /does not exist/],
        [["health", "--url", "ws://127.0.0.1:1"], /No gateway answers at ws:\/\/127\.0\.0\.1:1/],
        [["health", "--url", "ftp://x"], /ws:\/\/127\.0\.0\.1:7420/],
        [["agent"], /--message/],
        [["health", "--url", "garbage"], /--url .*"garbage".*ws:\/\/127\.0\.0\.1:7420/],
        [["health", "--url", "127.0.0.1:7420"], /ws:\/\/127\.0\.0\.1:7420/],
        [["agent", "-m", "x", "--mode", "shout"], /--mode .*steer.*"shout"/],
        // Nothing listens there, and nobody is asked.
        [["agent", "-m", "x", "--url", "ws://127.0.0.1:1", "--id", "a b"], /^--id: /],
        [["agent", "-m", "x", "--url", "ws://127.0.0.1:1", "--session", " x"], /^--session: /],
        [["agent", "-m", " ", "--url", "ws://127.0.0.1:1"], /^--message: .*empty/],
        [["agent", "-m", "x", "--local", "--id", "a b", ...state], /^--id: /],
        [["up", "-s", " x", "--port", "0", ...state], /^--session: /],
        [["--completions", "tcsh"], /bash, zsh, fish.*"tcsh"/],
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

  it.scopedLive("makes nothing when it is refused", () =>
    Effect.gen(function*() {
      const dir = yield* folder
      const state = join(dir, "state")
      const wrong = [
        ["--host", "0.0.0.0"],
        ["--model", "gpt-9"],
        ["--workspace", join(dir, "none")],
        ["--port", "-1"]
      ]
      yield* Effect.forEach(wrong, (options) =>
        Effect.map(invoke(["gateway", ...options, "--state-dir", state]), ({ code }) => {
          assert.deepStrictEqual({ options, code }, { options, code: 2 })
          assert.isFalse(existsSync(state))
        }), { discard: true })
    }))

  it.scopedLive("takes an empty variable of the environment as one that is not there", () =>
    Effect.gen(function*() {
      const state = yield* folder
      const names = ["URL", "PORT", "HOST", "WORKSPACE", "MODEL", "STATE_DIR"]
      const env = Object.fromEntries(names.map((name) => [`SWITCHYARD_${name}`, ""]))
      const { code, stderr } = yield* invoke(
        ["agent", "--local", "--port", "0", "-m", "add 1 and 2"],
        { ...env, XDG_STATE_HOME: state }
      )
      assert.deepStrictEqual({ code, stderr }, { code: 0, stderr: "" })
      assert.isTrue(existsSync(join(state, "switchyard", "journal.db")))
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
      assert.deepInclude(events[0], { disposition: "started" })
      assert.deepInclude(events.at(-1), { status: "ok", settled: true, outcome: "completed" })
    }))

  it.effect("says that a message was sent before", () =>
    Effect.gen(function*() {
      const gateway = yield* GatewayProcess
      const send = (...options: ReadonlyArray<string>) =>
        gateway.run("agent", "-s", "b2", "--id", "b2", "-m", "how many words are in five.txt?", ...options)
      const first = yield* send()
      const again = yield* send()
      assert.deepStrictEqual([first.stdout, again.stdout], ["five.txt has 5 words.\n", "five.txt has 5 words.\n"])
      assert.deepStrictEqual([first.stderr, again.stderr], ["", "Sent before: this is the answer it got.\n"])
      const json = yield* send("--json")
      assert.deepInclude(lines(json.stdout)[0], { runId: "b2", replayed: true })
      const other = yield* send("--mode", "followup")
      assert.strictEqual(other.code, 2)
      assert.match(other.stderr, /mode.*--id/)
      plain(other.stderr)
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
