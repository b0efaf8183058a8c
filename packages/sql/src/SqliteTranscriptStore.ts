/**
 * The journal in a SQLite file: one statement per commit, joined over all sessions that have something to write at the
 * same moment. Several processes may open one file; each append is fenced.
 *
 * @since 0.1.0
 */
import type { Connection } from "@effect/sql/SqlConnection"
import { SqlError } from "@effect/sql/SqlError"
import type * as Journal from "@switchyard/core/Journal"
import {
  type Append,
  AppendConflict,
  type AppendError,
  RunIdTaken,
  type SessionSummary,
  StoreFailure,
  TranscriptStore
} from "@switchyard/core/TranscriptStore"
import type { RunId, SessionKey } from "@switchyard/protocol/Ids"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as groupCommit from "./internal/groupCommit.js"
import * as Sql from "./internal/journalSchema.js"
import { backoff, busyLimitMs, codeOf, isBusy, reasonOf } from "./internal/sqliteError.js"
import * as SqliteDatabase from "./SqliteDatabase.js"

/**
 * A store in a SQLite file, open until the scope closes. What was handed to it by then is written first.
 *
 * Statements run on the event loop and are short; a database that another process keeps busy is tried again for 10 s,
 * without blocking, before the caller gets a `StoreFailure`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (
  options: SqliteDatabase.Options
): Effect.Effect<
  TranscriptStore["Type"],
  SqliteDatabase.DatabaseTooNew | SqliteDatabase.DatabaseUnusable,
  Scope.Scope
> =>
  Effect.gen(function*() {
    const database = yield* SqliteDatabase.open(options)
    const reading = <A>(query: Effect.Effect<A, SqlError>): Effect.Effect<A, StoreFailure> =>
      Effect.mapError(Effect.retry(query, { while: isBusy, schedule: readAgain }), failure)
    const query = <A>(sql: string, parameters: ReadonlyArray<unknown>): Effect.Effect<ReadonlyArray<A>, StoreFailure> =>
      reading(database.execute(sql, parameters, undefined))
    // The driver makes objects of eleven columns half as fast as this.
    const rows = (sql: string, parameters: ReadonlyArray<unknown>) =>
      Effect.map(reading(database.executeValues(sql, parameters)), (rows) => rows.map(toRow))
    const append = yield* groupCommit.make({
      // A defect here would end the writer and leave every caller waiting.
      insert: (rows) =>
        Effect.catchAllDefect(
          database.executeRaw(Sql.insertRows, [rows]),
          (cause) => Effect.fail(new SqlError({ cause, message: "Failed to execute statement" }))
        ),
      explain: (append, error) => explain(database, append, error)
    })
    return TranscriptStore.of({
      append: (request) => {
        const wrong = request.rows.some((row, index) =>
          row.seq !== request.follows + index + 1 || row.session !== request.session
        )
        return wrong
          ? Effect.dieMessage("SqliteTranscriptStore.append: rows must be of one session and count up from `follows`")
          : append(request)
      },
      read: (session, after, limit) => rows(Sql.readRows, [session, after, limit ?? -1]),
      findRun: (run) => rows(Sql.runRows, [run, run]),
      open: Effect.map(
        Effect.suspend(() => query<{ readonly session: SessionKey }>(Sql.openSessions, [])),
        (rows) => rows.map((row) => row.session)
      ),
      sessions: ({ after, limit }) => query<SessionSummary>(Sql.sessionPage, [after ?? "", limit]),
      session: (session) =>
        Effect.map(query<SessionSummary>(Sql.oneSession, [session]), (rows) => Option.fromNullable(rows[0])),
      findSessionId: (sessionId) =>
        Effect.map(
          query<{ readonly session: SessionKey }>(Sql.sessionOfId, [sessionId]),
          (rows) => Option.fromNullable(rows[0]?.session)
        )
    })
  })

/**
 * The journal in a SQLite file. See {@link make}.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (
  options: SqliteDatabase.Options
): Layer.Layer<TranscriptStore, SqliteDatabase.DatabaseTooNew | SqliteDatabase.DatabaseUnusable> =>
  Layer.scoped(TranscriptStore, make(options))

const toRow = (values: ReadonlyArray<unknown>): Journal.Row => {
  const [session, seq, activation, generation, kind, run, into, mode, authority, at, payload] = values
  return { session, seq, activation, generation, kind, run, into, mode, authority, at, payload } as Journal.Row
}

const readAgain = Schedule.intersect(backoff, Schedule.recurUpTo(busyLimitMs))

// SQLite rolls a failed statement back. Of an error of the disk itself one cannot know.
const certain = /^SQLITE_(BUSY|LOCKED|CONSTRAINT|READONLY|FULL|CANTOPEN|TOOBIG|ERROR|MISMATCH|NOTADB|PERM|AUTH)/

const failure = (error: SqlError): StoreFailure =>
  new StoreFailure({
    reason: reasonOf(error),
    committed: certain.test(codeOf(error)) ? "no" : "unknown",
    cause: error.cause
  })

const explain = (database: Connection, append: Append, error: SqlError): Effect.Effect<AppendError> => {
  const code = codeOf(error)
  if (
    code === "SQLITE_CONSTRAINT_PRIMARYKEY" ||
    code === "SQLITE_CONSTRAINT_TRIGGER" && reasonOf(error) === Sql.fenceMessage
  ) {
    return Effect.succeed(new AppendConflict({ session: append.session, follows: append.follows }))
  }
  if (code !== "SQLITE_CONSTRAINT_UNIQUE") return Effect.succeed(failure(error))
  const runs = append.rows.flatMap((row) => row.kind === "accepted" && row.run !== null ? [row.run] : [])
  return Effect.match(database.execute(Sql.takenRuns, [JSON.stringify(runs)], undefined), {
    onFailure: () => failure(error),
    onSuccess: (rows: ReadonlyArray<{ readonly run: RunId }>) => {
      const taken = new Set(rows.map((row) => row.run))
      const run = runs.find((run, index) => taken.has(run) || runs.indexOf(run) < index)
      return run === undefined ? failure(error) : new RunIdTaken({ run })
    }
  })
}
