import { assert, describe, it } from "@effect/vitest"
import * as Journal from "@switchyard/core/Journal"
import type { TranscriptStore } from "@switchyard/core/TranscriptStore"
import { type Append, AppendConflict, RunIdTaken } from "@switchyard/core/TranscriptStore"
import type { RunId, SessionId, SessionKey } from "@switchyard/protocol/Ids"
import * as SqliteTranscriptStore from "@switchyard/sql/SqliteTranscriptStore"
import * as StoreMetrics from "@switchyard/sql/StoreMetrics"
import { suite } from "@switchyard/testkit/TranscriptStoreSuite"
import Sqlite from "better-sqlite3"
import { Effect, Either, Exit, Fiber, Layer, Metric, Option, Scope, TestClock } from "effect"
import { spawn } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import * as Sql from "../src/internal/journalSchema.js"

const folder = Effect.acquireRelease(
  Effect.sync(() => fs.mkdtempSync(path.join(os.tmpdir(), "switchyard-sql-"))),
  (folder) => Effect.sync(() => fs.rmSync(folder, { recursive: true, force: true }))
)

const file = Effect.map(folder, (folder) => path.join(folder, "journal.db"))

/** A plain connection beside the store, as another process would have. */
const connect = (filename: string) =>
  Effect.acquireRelease(Effect.sync(() => new Sqlite(filename)), (database) => Effect.sync(() => database.close()))

const open = (
  filename: string,
  options?: { readonly synchronous?: "normal" | "full"; readonly busyTimeoutMs?: number }
) => SqliteTranscriptStore.make({ filename, ...options })

/** Opens the store for the time of `use` only. */
const withStore = <A, E, R>(
  filename: string,
  use: (store: TranscriptStore["Type"]) => Effect.Effect<A, E, R>
) => Effect.scoped(Effect.flatMap(open(filename), use))

const key = (name: string) => name as SessionKey

const message = (session: string, follows: number, run: string): Append => ({
  session: key(session),
  follows,
  rows: Journal.toRows({
    session: key(session),
    activation: "test",
    generation: 1,
    follows,
    entries: [
      Journal.entry("opened", 1, { sessionId: `${session}-${follows}` as SessionId }),
      Journal.entry("accepted", 2, { text: "hello" } as Journal.Payloads["accepted"], {
        run: run as RunId,
        mode: "followup"
      })
    ]
  })
})

const count = <Type, In>(metric: Metric.Metric<Type, In, { readonly count: number }>) =>
  Effect.map(Metric.value(metric), ({ count }) => count)

/** Lets the writer meet the locked database: the store then waits for its clock. */
const untilBusy = (before: number) =>
  Effect.repeat(Effect.zipRight(Effect.yieldNow(), count(StoreMetrics.busy)), { until: (now) => now > before })

suite(
  "TranscriptStore in a SQLite file",
  Layer.unwrapScoped(Effect.map(file, (filename) => SqliteTranscriptStore.layer({ filename })))
)

describe("SqliteTranscriptStore", () => {
  it.scoped("keeps everything when it is closed and opened again (2.1)", () =>
    Effect.gen(function*() {
      const filename = yield* file
      const request = message("session", 0, "run")
      yield* withStore(filename, (store) => store.append(request))
      yield* withStore(filename, (store) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(yield* store.read(key("session"), 0), request.rows)
          assert.deepStrictEqual(yield* store.findRun("run" as RunId), request.rows.slice(1))
          assert.deepStrictEqual(yield* store.open, [key("session")])
          assert.deepStrictEqual(yield* store.findSessionId("session-0"), Option.some(key("session")))
          assert.deepStrictEqual(
            yield* Effect.flip(store.append(message("other", 0, "run"))),
            new RunIdTaken({ run: "run" as RunId })
          )
          yield* store.append(message("session", 2, "run-2"))
        }))
    }))

  it.scoped("writes what was handed over before it closes", () =>
    Effect.gen(function*() {
      const filename = yield* file
      const scope = yield* Scope.make()
      const store = yield* Scope.extend(open(filename), scope)
      const fiber = yield* Effect.fork(store.append(message("session", 0, "run")))
      yield* Effect.yieldNow()
      yield* Scope.close(scope, Exit.void)
      yield* Fiber.join(fiber)
      const late = yield* Effect.flip(store.append(message("late", 0, "late")))
      assert.deepInclude(late, { _tag: "StoreFailure", committed: "no" })
      yield* withStore(filename, (store) =>
        Effect.gen(function*() {
          assert.strictEqual((yield* store.read(key("session"), 0)).length, 2)
        }))
    }))

  it.scoped("joins the appends of 100 sessions into at most two commits", () =>
    Effect.gen(function*() {
      const store = yield* Effect.flatMap(file, open)
      const before = yield* count(StoreMetrics.commits)
      yield* Effect.forEach(
        Array.from({ length: 100 }, (_, index) => message(`session-${index}`, 0, `run-${index}`)),
        (append) => store.append(append),
        { concurrency: "unbounded", discard: true }
      )
      const commits = (yield* count(StoreMetrics.commits)) - before
      assert.isAtLeast(commits, 1)
      assert.isAtMost(commits, 2)
    }))

  it.scoped("fails only the appends that are wrong when a joined statement fails", () =>
    Effect.gen(function*() {
      const store = yield* Effect.flatMap(file, open)
      yield* store.append(message("taken", 0, "taken"))
      const results = yield* Effect.forEach(
        [
          message("a", 0, "a"),
          message("b", 0, "taken"),
          message("c", 4, "c"),
          message("d", 0, "d"),
          // these two follow each other: the second stands and falls with the first
          message("b", 2, "b"),
          message("d", 2, "d-2")
        ],
        (append) => Effect.either(store.append(append)),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(results, [
        Either.right(undefined),
        Either.left(new RunIdTaken({ run: "taken" as RunId })),
        Either.left(new AppendConflict({ session: key("c"), follows: 4 })),
        Either.right(undefined),
        Either.left(new AppendConflict({ session: key("b"), follows: 2 })),
        Either.right(undefined)
      ])
    }))

  it.scoped("splits what has gathered at 512 rows, and keeps an append whole", () =>
    Effect.gen(function*() {
      const store = yield* Effect.flatMap(file, open)
      const before = yield* count(StoreMetrics.commits)
      yield* Effect.forEach(
        Array.from({ length: 600 }, (_, index) => message(`session-${index}`, 0, `run-${index}`)),
        (append) => store.append(append),
        { concurrency: "unbounded", discard: true }
      )
      assert.strictEqual((yield* count(StoreMetrics.commits)) - before, 3)
    }))

  it.scoped("withdraws an append whose caller is interrupted while it waits", () =>
    Effect.gen(function*() {
      const store = yield* Effect.flatMap(file, open)
      const fiber = yield* Effect.fork(store.append(message("session", 0, "run")))
      yield* Effect.yieldNow()
      yield* Fiber.interrupt(fiber)
      yield* store.append(message("other", 0, "other"))
      assert.deepStrictEqual(yield* store.read(key("session"), 0), [])
    }))

  it.scoped("two stores on one file: exactly one of two writers appends, and the other learns it (9.6)", () =>
    Effect.gen(function*() {
      const filename = yield* file
      const stores = [yield* open(filename), yield* open(filename)] as const
      yield* stores[0].append(message("session", 0, "run"))
      yield* stores[1].append(message("session", 2, "run-2"))
      assert.deepStrictEqual(
        yield* Effect.flip(stores[0].append(message("session", 2, "run-3"))),
        new AppendConflict({ session: key("session"), follows: 2 })
      )
      assert.deepStrictEqual(
        yield* Effect.flip(stores[0].append(message("other", 0, "run-2"))),
        new RunIdTaken({ run: "run-2" as RunId })
      )
      assert.strictEqual((yield* stores[0].read(key("session"), 0)).length, 4)
    }))

  it.scoped("waits for another process that is writing, without failing", () =>
    Effect.gen(function*() {
      const filename = yield* file
      const store = yield* open(filename, { busyTimeoutMs: 0 })
      const other = yield* connect(filename)
      const before = yield* count(StoreMetrics.busy)
      other.exec("BEGIN IMMEDIATE")
      const fiber = yield* Effect.fork(store.append(message("session", 0, "run")))
      yield* untilBusy(before)
      // reading is not held up
      assert.deepStrictEqual(yield* store.read(key("session"), 0), [])
      yield* TestClock.adjust("1 second")
      yield* untilBusy(before + 1)
      other.exec("COMMIT")
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(fiber)
      assert.strictEqual((yield* store.read(key("session"), 0)).length, 2)
    }))

  it.scoped("keeps the order of a session's appends while the database is busy", () =>
    Effect.gen(function*() {
      const filename = yield* file
      const store = yield* open(filename, { busyTimeoutMs: 0 })
      const other = yield* connect(filename)
      const before = yield* count(StoreMetrics.busy)
      other.exec("BEGIN IMMEDIATE")
      const first = yield* Effect.fork(store.append(message("session", 0, "run")))
      yield* untilBusy(before)
      const second = yield* Effect.fork(store.append(message("session", 2, "run-2")))
      yield* Effect.yieldNow()
      yield* TestClock.adjust("1 second")
      yield* untilBusy(before + 1)
      other.exec("COMMIT")
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(first)
      yield* Fiber.join(second)
      assert.strictEqual((yield* store.read(key("session"), 0)).length, 4)
    }))

  it.scoped("gives up after 10 s of a busy database, and then nothing was committed (2.5)", () =>
    Effect.gen(function*() {
      const filename = yield* file
      const store = yield* open(filename, { busyTimeoutMs: 0 })
      const other = yield* connect(filename)
      const before = yield* count(StoreMetrics.busy)
      other.exec("BEGIN IMMEDIATE")
      const fiber = yield* Effect.fork(Effect.flip(store.append(message("session", 0, "run"))))
      const withdrawn = yield* Effect.fork(store.append(message("withdrawn", 0, "withdrawn")))
      yield* untilBusy(before)
      yield* Fiber.interrupt(withdrawn)
      yield* TestClock.adjust("9 seconds")
      yield* untilBusy(before + 1)
      assert.isTrue(Option.isNone(yield* Fiber.poll(fiber)))
      yield* TestClock.adjust("2 seconds")
      yield* Effect.repeat(
        Effect.zipRight(TestClock.adjust("250 millis"), Fiber.poll(fiber)),
        { until: Option.isSome }
      )
      assert.deepInclude(yield* Fiber.join(fiber), { _tag: "StoreFailure", committed: "no" })
      other.exec("COMMIT")
      yield* TestClock.adjust("1 second")
      // the store works again, with what neither failed nor was withdrawn
      yield* store.append(message("next", 0, "next"))
      assert.deepStrictEqual(
        (yield* store.sessions({ limit: 10 })).map((summary) => summary.session),
        [key("next")]
      )
    }))

  it.scoped("sets write-ahead logging and never lets SQLite block for longer than 20 ms", () =>
    Effect.gen(function*() {
      const filename = yield* file
      yield* open(filename, { busyTimeoutMs: 60_000 })
      const other = yield* connect(filename)
      assert.strictEqual(other.pragma("journal_mode", { simple: true }), "wal")
      const store = yield* open(filename, { busyTimeoutMs: 60_000 })
      const before = yield* count(StoreMetrics.busy)
      other.exec("BEGIN IMMEDIATE")
      const begun = process.hrtime.bigint()
      const fiber = yield* Effect.fork(store.append(message("session", 0, "run")))
      yield* untilBusy(before)
      assert.isBelow(Number(process.hrtime.bigint() - begun) / 1e6, 2_000)
      yield* Fiber.interrupt(fiber)
      other.exec("COMMIT")
    }))

  it.scoped("finds open sessions, runs and pages by an index", () =>
    Effect.gen(function*() {
      const filename = yield* file
      yield* open(filename)
      const database = yield* connect(filename)
      const plan = (sql: string, ...parameters: ReadonlyArray<unknown>) =>
        (database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...parameters) as ReadonlyArray<{ readonly detail: string }>)
          .map(({ detail }) => detail).join("\n")
      assert.include(plan(Sql.openSessions), "INDEX sessions_open")
      assert.notInclude(plan(Sql.runRows, "run", "run"), "SCAN journal")
      assert.notInclude(plan(Sql.readRows, "session", 0, 1), "SCAN")
      assert.notInclude(plan(Sql.sessionPage, "", 1), "SCAN")
      assert.notInclude(plan(Sql.takenRuns, "[]"), "SCAN journal")
    }))

  it.scoped("refuses a database of a newer version in plain words, and does not change it", () =>
    Effect.gen(function*() {
      const filename = yield* file
      yield* withStore(filename, (store) => store.append(message("session", 0, "run")))
      const database = yield* connect(filename)
      database.prepare(`INSERT INTO ${Sql.migrationsTable} (migration_id, name) VALUES (?, 'later')`).run(
        Sql.version + 1
      )
      const error = yield* Effect.flip(open(filename))
      assert.deepInclude(error, {
        _tag: "DatabaseTooNew",
        path: filename,
        version: Sql.version + 1,
        supported: Sql.version
      })
      assert.include(error.message, "use the newer program")
      assert.strictEqual(database.prepare("SELECT count(*) AS n FROM journal").pluck().get(), 2)
    }))

  it.scoped("says of each file that is no journal what is wrong and what to do", () =>
    Effect.gen(function*() {
      const directory = yield* folder
      const at = (name: string) => path.join(directory, name)
      fs.writeFileSync(at("text"), "this is a letter and no database ".repeat(100))
      fs.mkdirSync(at("folder"))
      const other = yield* connect(at("other"))
      other.exec("CREATE TABLE bookmarks (url TEXT)")
      yield* withStore(at("damaged"), (store) => store.append(message("session", 0, "run")))
      const bytes = fs.readFileSync(at("damaged"))
      fs.writeFileSync(at("damaged"), Buffer.concat([bytes.subarray(0, 100), Buffer.alloc(bytes.length - 100, 0xa5)]))
      for (const name of ["text", "folder", "other", "damaged", "missing/journal.db"]) {
        const error = yield* Effect.flip(open(at(name)))
        assert.strictEqual(error._tag, "DatabaseUnusable", name)
        assert.match(error.message, /^The database \S+ cannot be used: [^;\n]+; [^;\n]+$/, name)
        assert.include(error.message, at(name))
        assert.notMatch(error.message, /\bat \S+:\d+/, name)
      }
      // the other program's file is as it was
      assert.deepStrictEqual(other.prepare("SELECT name FROM sqlite_master").pluck().all(), ["bookmarks"])
    }))

  it.scoped("two processes that open a new file at once both get the schema", () =>
    Effect.gen(function*() {
      const filename = yield* file
      const stores = yield* Effect.all(Array.from({ length: 4 }, () => open(filename)), { concurrency: "unbounded" })
      yield* Effect.forEach(stores, (store, index) => store.append(message(`session-${index}`, 0, `run-${index}`)), {
        concurrency: "unbounded"
      })
      assert.strictEqual((yield* stores[0]!.open).length, 4)
    }))

  it.scoped("waits for a process that is migrating the file", () =>
    Effect.gen(function*() {
      const filename = yield* file
      const other = yield* connect(filename)
      other.pragma("journal_mode = WAL")
      other.exec("BEGIN IMMEDIATE")
      const fiber = yield* Effect.fork(open(filename, { busyTimeoutMs: 0 }))
      yield* Effect.repeat(Effect.zipRight(Effect.yieldNow(), TestClock.sleeps()), {
        until: (sleeps) => sleeps.length > 0
      })
      other.exec("COMMIT")
      yield* TestClock.adjust("1 second")
      const store = yield* Fiber.join(fiber)
      yield* store.append(message("session", 0, "run"))
    }))

  it.scoped("a process killed while it appends leaves a gapless journal with all that was acknowledged (2.1)", () =>
    Effect.gen(function*() {
      const filename = yield* file
      yield* withStore(filename, () => Effect.void)
      const acknowledged = yield* killed(filename, 60)
      yield* withStore(filename, (store) =>
        Effect.gen(function*() {
          const rows = yield* store.read(key("session"), 0)
          assert.isAtLeast(rows.length, acknowledged)
          assert.strictEqual(rows.length % 2, 0)
          assert.deepStrictEqual(rows.map((row) => row.seq), Array.from(rows, (_, index) => index + 1))
          assert.deepStrictEqual(
            Option.map(yield* store.session(key("session")), (summary) => summary.last),
            Option.some(rows.length)
          )
          yield* store.append(message("session", rows.length, "after"))
        }))
    }))
})

/** Runs the fixture until it has acknowledged `entries`, kills it, and gives the last number that it said. */
const killed = (filename: string, entries: number) =>
  Effect.async<number>((resume) => {
    const fixture = fileURLToPath(new URL("./fixtures/appendForever.mjs", import.meta.url))
    const child = spawn(process.execPath, [fixture, filename, Sql.insertRows], { stdio: ["ignore", "pipe", "inherit"] })
    let said = ""
    const last = () => Number(said.slice(0, said.lastIndexOf("\n")).split("\n").at(-1) ?? 0)
    child.stdout.on("data", (chunk) => {
      said += String(chunk)
      if (last() >= entries) child.kill("SIGKILL")
    })
    child.on("close", () => resume(Effect.succeed(last())))
    return Effect.sync(() => child.kill("SIGKILL"))
  })
