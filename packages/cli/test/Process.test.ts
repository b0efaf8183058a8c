import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { readdirSync, statSync } from "node:fs"
import { join } from "node:path"
import { folder, lines, plain, run, start, workspace } from "./support/switchyard.js"

describe("switchyard up --message", () => {
  it.scopedLive("prints the reply and nothing else on standard output, and ends with 0", () =>
    Effect.gen(function*() {
      const state = join(yield* folder, "deep", "state")
      const { code, stderr, stdout } = yield* run([
        "up",
        ...["--port", "0", "--state-dir", state, "--workspace", yield* workspace],
        ...["--message", "how many words are in five.txt?"]
      ])
      assert.deepStrictEqual({ code, stderr, stdout }, { code: 0, stderr: "", stdout: "five.txt has 5 words.\n" })
      assert.strictEqual(statSync(state).mode & 0o777, 0o700)
    }))

  it.scopedLive("takes folders from the environment, and options before that", () =>
    Effect.gen(function*() {
      const state = yield* folder
      const { code, stdout } = yield* run(
        ["up", "--port", "0", "--workspace", yield* workspace, "-m", "how many words are in five.txt?"],
        { SWITCHYARD_STATE_DIR: state, SWITCHYARD_WORKSPACE: "/nonexistent" }
      )
      assert.deepStrictEqual({ code, stdout }, { code: 0, stdout: "five.txt has 5 words.\n" })
      assert.isNotEmpty(readdirSync(state))
    }))

  it.scopedLive("ends with 130 when Ctrl-C cuts the answer short", () =>
    Effect.gen(function*() {
      const running = yield* start([
        ...["up", "--port", "0", "--state-dir", yield* folder, "--workspace", yield* workspace],
        ...["--message", "count slowly to 900"]
      ])
      yield* running.says(/1 2/)
      yield* running.signal("SIGINT")
      assert.strictEqual((yield* running.ended).code, 130)
    }))

  it.scopedLive("ends without a word when its reader goes away", () =>
    Effect.gen(function*() {
      const running = yield* start([
        ...["up", "--port", "0", "--state-dir", yield* folder, "--workspace", yield* workspace],
        ...["--message", "count slowly to 900"]
      ])
      yield* running.says(/1 2/)
      yield* running.closeStdout
      const { code, stderr } = yield* running.ended
      assert.deepStrictEqual({ code, stderr }, { code: 0, stderr: "" })
    }))
})

describe("switchyard agent --local", () => {
  it.scopedLive("answers without a gateway, and remembers the session", () =>
    Effect.gen(function*() {
      const where = ["--local", "--state-dir", yield* folder, "--workspace", yield* workspace]
      const first = yield* run(["agent", ...where, "--id", "first", "--json", "-m", "how many words are in five.txt?"])
      assert.strictEqual(first.code, 0)
      const events = lines(first.stdout)
      assert.isTrue(events.every((event) => event["runId"] === "first"))
      assert.deepInclude(events.at(-1), { status: "ok", reply: "five.txt has 5 words." })
      // The same message under the same id is answered from the journal.
      const again = yield* run(["agent", ...where, "--id", "first", "--json", "-m", "how many words are in five.txt?"])
      assert.deepStrictEqual(lines(again.stdout).at(-1), events.at(-1))
      const other = yield* run(["agent", ...where, "--id", "first", "-m", "something else"])
      assert.strictEqual(other.code, 2)
      plain(other.stderr)
    }))
})

describe("switchyard gateway", () => {
  it.scopedLive("says in a sentence why it does not start, and ends with 2", () =>
    Effect.gen(function*() {
      const { code, stderr, stdout } = yield* run(["gateway", "--host", "0.0.0.0", "--state-dir", yield* folder])
      assert.deepStrictEqual({ code, stdout }, { code: 2, stdout: "" })
      assert.include(stderr, "127.0.0.1")
      plain(stderr)
    }))

  it.scopedLive("ends with 0 on SIGTERM, also with a run in progress", () =>
    Effect.gen(function*() {
      const gateway = yield* start([
        ...["gateway", "--port", "0", "--state-dir", yield* folder, "--workspace", yield* workspace]
      ])
      const [, url = ""] = yield* gateway.says(/listens on (ws:\/\/\S+)/)
      const sent = yield* run(["agent", "--url", url, "--no-wait", "-m", "count slowly to 900"])
      assert.strictEqual(sent.code, 0)
      // A reader that goes away ends the command, and not the run.
      const following = yield* start(["agent", "--url", url, "--json", "-s", "b", "-m", "count slowly to 900"])
      yield* following.says(/"delta"/)
      yield* following.closeStdout
      assert.strictEqual((yield* following.ended).code, 0)
      const sessions = lines((yield* run(["sessions", "list", "--url", url, "--json"])).stdout)
      assert.isTrue(sessions.every((session) => session["activeRunId"] !== null))
      yield* gateway.signal("SIGTERM")
      const { code, stderr } = yield* gateway.ended
      assert.deepStrictEqual({ code, stderr }, { code: 0, stderr: "" })
    }))
})
