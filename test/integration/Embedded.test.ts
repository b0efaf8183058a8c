import { assert, describe, it } from "@effect/vitest"
import * as Runtime from "@switchyard/cli/Runtime"
import { Sessions } from "@switchyard/core/Sessions"
import type { HistoryMessage } from "@switchyard/protocol/Message"
import * as StoreMetrics from "@switchyard/sql/StoreMetrics"
import { Effect, FastCheck, Metric } from "effect"
import { execFileSync } from "node:child_process"
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { folder } from "../support/folder.js"

const embedded = (root: string) => {
  mkdirSync(join(root, "work"), { recursive: true })
  return Runtime.layerEmbedded({ stateDir: join(root, "state"), workspace: join(root, "work"), model: "offline" })
}

const submit = (message: string, extra: { readonly [field: string]: unknown } = {}) =>
  Effect.flatMap(Sessions, (sessions) => sessions.submit({ sessionKey: "main", message, ...extra }))

const wait = (runId: string) => Effect.flatMap(Sessions, (sessions) => sessions.wait({ runId, timeoutMs: 60_000 }))

const ask = (message: string) => Effect.flatMap(submit(message), ({ runId }) => wait(runId))

const commits = Effect.map(Metric.value(StoreMetrics.commits), ({ count }) => count)

const roles = (messages: ReadonlyArray<HistoryMessage>) =>
  messages.map(({ content, role }) => `${role}:${content.map((part) => part.type).join(",")}`)

describe("the embedded program", () => {
  it.scopedLive("the offline model counts the words of a real file through a real tool, as wc does", () =>
    Effect.gen(function*() {
      const root = yield* folder
      yield* Effect.gen(function*() {
        writeFileSync(join(root, "work", "README.md"), "one two\nthree  four\tfive\n")
        const wc = execFileSync("wc", ["-w", join(root, "work", "README.md")]).toString().trim().split(" ")[0]
        const { reply } = yield* ask("how many words are in README.md?")
        assert.include(reply, wc)
        const { messages } = yield* Effect.flatMap(Sessions, (sessions) => sessions.history({ sessionKey: "main" }))
        assert.deepStrictEqual(roles(messages), [
          "user:text",
          "assistant:tool-call",
          "tool:tool-result",
          "assistant:text"
        ])
      }).pipe(Effect.provide(embedded(root)))
    }))

  it.scopedLive.prop(
    "two steps in a row work on files of any name and content: read A, then write its word count to B",
    {
      name: FastCheck.stringMatching(/^[A-Za-z0-9][A-Za-z0-9 _.-]{0,20}[A-Za-z0-9]$/),
      words: FastCheck.array(FastCheck.stringMatching(/^[a-zé✓]{1,8}$/), { maxLength: 30 })
    },
    ({ name, words }) =>
      Effect.gen(function*() {
        const root = yield* folder
        yield* Effect.gen(function*() {
          writeFileSync(join(root, "work", name), words.join(" "))
          const result = yield* ask(`read "${name}" then write its word count to "out of ${name}.txt"`)
          assert.strictEqual(result.status, "ok")
          const written = readFileSync(join(root, "work", `out of ${name}.txt`), "utf8")
          assert.strictEqual(written.trim(), String(words.length))
        }).pipe(Effect.provide(embedded(root)))
      }),
    { fastCheck: { numRuns: 10 } }
  )

  it.scopedLive("files outside of the workspace are out of reach: by .., by an absolute path, by a link", () =>
    Effect.gen(function*() {
      const root = yield* folder
      yield* Effect.gen(function*() {
        writeFileSync(join(root, "secret.txt"), "the secret word is xyzzy")
        symlinkSync(join(root, "secret.txt"), join(root, "work", "link.txt"))
        symlinkSync(root, join(root, "work", "up"))
        for (const path of ["../secret.txt", join(root, "secret.txt"), "link.txt", "up/secret.txt"]) {
          const { reply } = yield* ask(`read "${path}"`)
          assert.notInclude(reply, "xyzzy")
          yield* ask(`write "changed" to "${path}"`)
          assert.strictEqual(readFileSync(join(root, "secret.txt"), "utf8"), "the secret word is xyzzy")
        }
      }).pipe(Effect.provide(embedded(root)))
    }))

  it.scopedLive("a text turn takes three commits, and one step of tools two more", () =>
    Effect.gen(function*() {
      const root = yield* folder
      yield* Effect.gen(function*() {
        writeFileSync(join(root, "work", "a.txt"), "x")
        const cost = (message: string) =>
          Effect.gen(function*() {
            const before = yield* commits
            yield* ask(message)
            return (yield* commits) - before
          })
        assert.strictEqual(yield* cost("hello"), 3)
        assert.strictEqual(yield* cost("hello"), 3)
        assert.strictEqual(yield* cost("read a.txt"), 5)
      }).pipe(Effect.provide(embedded(root)))
    }))

  it.scopedLive("a hundred messages at once to a hundred sessions are accepted in at most twenty commits", () =>
    Effect.gen(function*() {
      const root = yield* folder
      yield* Effect.gen(function*() {
        const before = yield* commits
        yield* Effect.all(
          // collected, so that no run commits anything while they are counted
          Array.from(
            { length: 100 },
            (_, index) => submit("hello", { sessionKey: `session ${index}`, mode: "collect", debounceMs: 60_000 })
          ),
          { concurrency: "unbounded" }
        )
        assert.isAtMost((yield* commits) - before, 20)
        const { sessions } = yield* Effect.flatMap(Sessions, (sessions) => sessions.list({}))
        assert.deepStrictEqual(sessions.map(({ waiting }) => waiting), Array.from({ length: 100 }, () => 1))
      }).pipe(Effect.provide(embedded(root)))
    }))

  it.scopedLive("a restart keeps everything, and a replay after it is still the same run (2.3, 6.5)", () =>
    Effect.gen(function*() {
      const root = yield* folder
      const first = yield* Effect.gen(function*() {
        const accepted = yield* submit("hello", { idempotencyKey: "one" })
        yield* wait("one")
        return accepted
      }).pipe(Effect.provide(embedded(root)))
      yield* Effect.gen(function*() {
        assert.strictEqual((yield* wait("one")).outcome, "completed")
        assert.deepStrictEqual(yield* submit("hello", { idempotencyKey: "one" }), { ...first, replayed: true })
        const error = yield* Effect.flip(submit("other", { idempotencyKey: "one" }))
        assert.strictEqual(error._tag, "IdempotencyConflict")
      }).pipe(Effect.provide(embedded(root)))
    }))

  it.scopedLive("a second program on the same state is told who has the session, at once (9.4)", () =>
    Effect.gen(function*() {
      const root = yield* folder
      yield* Effect.gen(function*() {
        yield* ask("hello")
        const error = yield* Effect.flip(Effect.scoped(submit("hello").pipe(Effect.provide(embedded(root)))))
        assert.strictEqual(error._tag, "SessionBusy")
        assert.include(error.message, `process ${process.pid}`)
      }).pipe(Effect.provide(embedded(root)))
    }))
})
