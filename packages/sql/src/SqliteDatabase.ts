/**
 * Opens the SQLite file that holds the journal, brings its schema up to date, and says in plain words when it cannot.
 *
 * @since 0.1.0
 */
import * as Reactivity from "@effect/experimental/Reactivity"
import * as Migrator from "@effect/sql/Migrator"
import * as SqlClient from "@effect/sql/SqlClient"
import type { Connection } from "@effect/sql/SqlConnection"
import { SqlError } from "@effect/sql/SqlError"
import * as SqliteClient from "@effect/sql-sqlite-node/SqliteClient"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { closeSync, openSync } from "node:fs"
import { migrations, migrationsTable, version } from "./internal/journalSchema.js"
import { backoff, busyLimitMs, codeOf, isBusy, reasonOf } from "./internal/sqliteError.js"

/**
 * How a database is opened.
 *
 * - `filename`: the file; it is made if it does not exist, its folder is not
 * - `synchronous`: `normal` (default) survives the death of any process; `full` survives loss of power too, and costs a
 *   disk flush per commit
 * - `busyTimeoutMs`: how long a statement waits for another process with the event loop standing still: 20 ms, and never
 *   more. What is still busy then is tried again without blocking, for 10 s
 *
 * @since 0.1.0
 * @category models
 */
export interface Options {
  readonly filename: string
  readonly synchronous?: "normal" | "full" | undefined
  readonly busyTimeoutMs?: number | undefined
}

/**
 * A newer program has written this database, and this one does not know its schema. Nothing was changed. Run the newer
 * program, or name another file.
 *
 * @since 0.1.0
 * @category errors
 */
export class DatabaseTooNew extends Schema.TaggedError<DatabaseTooNew>()("DatabaseTooNew", {
  path: Schema.String,
  version: Schema.Number,
  supported: Schema.Number
}) {
  override get message() {
    return `The database ${this.path} has version ${this.version}, and this program knows versions up to ` +
      `${this.supported}; use the newer program that wrote it, or name another file`
  }
}

/**
 * The database cannot be opened, read or written. `advice` says what a person can do about it.
 *
 * @since 0.1.0
 * @category errors
 */
export class DatabaseUnusable extends Schema.TaggedError<DatabaseUnusable>()("DatabaseUnusable", {
  path: Schema.String,
  reason: Schema.String,
  advice: Schema.String,
  cause: Schema.optional(Schema.Defect)
}) {
  override get message() {
    return `The database ${this.path} cannot be used: ${this.reason}; ${this.advice}`
  }
}

/**
 * Opens a database until the scope closes, and brings its schema up to date. The connection is the caller's alone, so
 * that statements need neither a pool nor a transaction around them.
 *
 * @since 0.1.0
 * @category constructors
 */
export const open = (
  options: Options
): Effect.Effect<Connection, DatabaseTooNew | DatabaseUnusable, Scope.Scope> => {
  const path = options.filename
  const unusable = (cause: unknown) => new DatabaseUnusable({ path, ...explain(cause), cause })
  // `new Sqlite` throws inside `make`: whatever it is, the file is what was wrong
  const connect = Effect.catchAllDefect(
    Effect.zipRight(
      Effect.sync(() => makePrivate(path)),
      SqliteClient.make({ filename: path, disableWAL: true, prepareCacheTTL: Duration.infinity })
    ),
    (cause) => Effect.fail(unusable(cause))
  )
  const prepare = (sql: SqliteClient.SqliteClient) =>
    Effect.gen(function*() {
      yield* sql.unsafe(`PRAGMA busy_timeout = ${Math.trunc(Math.min(20, Math.max(0, options.busyTimeoutMs ?? 20)))}`)
      const found = yield* versionOf(sql)
      if (found > version) return yield* new DatabaseTooNew({ path, version: found, supported: version })
      const [mode] = yield* sql.unsafe<{ readonly journal_mode: string }>("PRAGMA journal_mode = WAL")
      if (mode?.journal_mode !== "wal" && mode?.journal_mode !== "memory") {
        return yield* new DatabaseUnusable({
          path,
          reason: "its file system does not support write-ahead logging",
          advice: "put it on a local disk"
        })
      }
      yield* sql.unsafe(`PRAGMA synchronous = ${options.synchronous === "full" ? "FULL" : "NORMAL"}`)
      // A checkpoint waits for the disk, and the event loop with it: every 16 MB, not every 4
      yield* sql.unsafe("PRAGMA wal_autocheckpoint = 4000")
      yield* Migrator.make({})({ loader: Migrator.fromRecord(migrations), table: migrationsTable }).pipe(
        Effect.catchSomeDefect(asMigrationError),
        Effect.provideService(SqlClient.SqlClient, sql)
      )
      // the migrator steps back for another process that is migrating, and does not wait for it
      if ((yield* versionOf(sql)) < version) {
        return yield* new SqlError({ cause: { code: "SQLITE_BUSY" }, message: "another process is migrating" })
      }
    }).pipe(
      Effect.retry({ while: isBusy, schedule: Schedule.intersect(backoff, Schedule.recurUpTo(busyLimitMs)) }),
      Effect.mapError((error) =>
        error instanceof DatabaseTooNew || error instanceof DatabaseUnusable ? error : unusable(error)
      )
    )
  return connect.pipe(
    Effect.tap(prepare),
    Effect.flatMap((sql) => Effect.mapError(sql.reserve, unusable)),
    Effect.provideServiceEffect(Reactivity.Reactivity, Reactivity.make),
    Effect.withTracerEnabled(false)
  )
}

/** Conversations are for the user who has them: a new file is made for that user alone. */
const makePrivate = (path: string) => {
  if (path !== ":memory:") closeSync(openSync(path, "a", 0o600))
}

const asMigrationError = (defect: unknown) =>
  defect instanceof Migrator.MigrationError ? Option.some(Effect.fail(defect)) : Option.none()

/** The version of the schema, 0 for a new file. Fails for a database that is not a journal. */
const versionOf = (sql: SqlClient.SqlClient) =>
  Effect.gen(function*() {
    const tables = yield* sql.unsafe<{ readonly name: string }>(
      "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    )
    if (tables.length === 0) return 0
    if (!tables.some(({ name }) => name === migrationsTable)) return yield* new SqlError({ cause: { code: foreign } })
    const [row] = yield* sql.unsafe<{ readonly version: number | null }>(
      `SELECT max(migration_id) AS version FROM ${migrationsTable}`
    )
    return row?.version ?? 0
  })

const foreign = "FOREIGN_DATABASE"

const explain = (cause: unknown): { readonly reason: string; readonly advice: string } => {
  const code = codeOf(cause)
  const reason = reasonOf(cause)
  if (code === foreign) return { reason: "it belongs to another program", advice: "name another file" }
  if (code === "SQLITE_NOTADB") return { reason: "it is not a SQLite database", advice: "name another file" }
  if (code.startsWith("SQLITE_CORRUPT")) {
    return { reason: "it is damaged", advice: "restore it from a backup, or move it away to begin anew" }
  }
  if (code.startsWith("SQLITE_CANTOPEN") || /directory does not exist/.test(reason)) {
    return { reason: "it cannot be opened", advice: "check that its folder exists and that this user may write there" }
  }
  if (/^SQLITE_(READONLY|PERM|AUTH)/.test(code)) {
    return { reason: "it cannot be written", advice: "check that this user may write the file and its folder" }
  }
  if (code === "SQLITE_FULL") return { reason: "the disk is full", advice: "make room on the disk" }
  if (code.startsWith("SQLITE_IOERR")) return { reason: `the disk failed (${reason})`, advice: "check the disk" }
  if (isBusy(cause)) {
    return { reason: "another program has locked it for 10 seconds", advice: "end that program, then try again" }
  }
  return { reason, advice: "check the file, or move it away to begin anew" }
}
