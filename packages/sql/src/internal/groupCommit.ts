import type { SqlError } from "@effect/sql/SqlError"
import { type Append, type AppendError, StoreFailure } from "@switchyard/core/TranscriptStore"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as StoreMetrics from "../StoreMetrics.js"
import { backoff, busyLimitMs, isBusy } from "./sqliteError.js"

/** The most that one statement holds: rows, and characters of JSON. A single larger append goes alone. */
const maxRows = 512
const maxLength = 1024 * 1024

interface Job {
  readonly append: Append
  readonly json: string
  /** On the monotonic clock, in nanoseconds. */
  readonly since: bigint
  readonly resume: (result: Effect.Effect<void, AppendError>) => void
}

/**
 * Joins the appends that arrive in one turn of the event loop into one statement.
 *
 * SQLite works synchronously, so nothing arrives while a statement runs: what is to be joined has to be gathered
 * before. Until the writer takes it, an append is withdrawn when its caller is interrupted; from then on it is written
 * whole or not at all, whether or not somebody still waits.
 *
 * `insert` writes a JSON array of rows in one statement. `explain` says why a statement that held this append alone
 * failed.
 */
export const make = (options: {
  readonly insert: (rows: string) => Effect.Effect<unknown, SqlError>
  readonly explain: (append: Append, error: SqlError) => Effect.Effect<AppendError>
}): Effect.Effect<(append: Append) => Effect.Effect<void, AppendError>, never, Scope.Scope> =>
  Effect.gen(function*() {
    const clock = yield* Effect.clock
    const pause = yield* Schedule.driver(backoff)
    const queue: Array<Job> = []
    let ring: (() => void) | undefined
    let closed = false

    // `Effect.yieldNow` never lets a socket in, so that messages of many connections would be written one by one.
    const gather = Effect.async<void>((resume) => {
      ring = () => {
        ring = undefined
        // eslint-disable-next-line no-restricted-globals
        setImmediate(() => resume(Effect.void))
      }
      if (queue.length > 0) ring()
    })

    const take = (): ReadonlyArray<Job> => {
      let rows = 0
      let length = 0
      let count = 0
      for (const job of queue) {
        rows += job.append.rows.length
        length += job.json.length
        if (count > 0 && (rows > maxRows || length > maxLength)) break
        count++
      }
      return queue.splice(0, count)
    }

    /** Answers each job, except those that it gives back because the database is busy. */
    const commit = (jobs: ReadonlyArray<Job>): Effect.Effect<ReadonlyArray<Job>> =>
      Effect.matchEffect(options.insert(`[${jobs.map((job) => job.json).join(",")}]`), {
        onSuccess: () => {
          StoreMetrics.commits.unsafeUpdate(1, [])
          for (const job of jobs) job.resume(Effect.void)
          return none
        },
        onFailure: (error) => {
          if (isBusy(error)) {
            StoreMetrics.busy.unsafeUpdate(1, [])
            return Effect.succeed(jobs)
          }
          const [job, ...others] = jobs
          return job === undefined ? none : others.length > 0 ? commitEach(jobs) : Effect.flatMap(
            options.explain(job.append, error),
            (reason) => {
              job.resume(Effect.fail(reason))
              return none
            }
          )
        }
      })

    const commitEach = (jobs: ReadonlyArray<Job>): Effect.Effect<ReadonlyArray<Job>> =>
      Effect.gen(function*() {
        for (let index = 0; index < jobs.length; index++) {
          const busy = yield* commit(jobs.slice(index, index + 1))
          // what follows may follow this one, so it waits too
          if (busy.length > 0) return jobs.slice(index)
        }
        return []
      })

    /** Writes what has gathered. True if the database was busy; what could not be written is in the queue again. */
    const write = Effect.uninterruptible(Effect.map(
      Effect.suspend(() => {
        const jobs = take()
        return jobs.length === 0 ? none : commit(jobs)
      }),
      (busy) => {
        queue.unshift(...busy)
        return busy.length > 0
      }
    ))

    const expire = Effect.sync(() => {
      const oldest = clock.unsafeCurrentTimeNanos() - BigInt(busyLimitMs) * 1_000_000n
      const kept = queue.filter((job) => {
        if (job.since > oldest) return true
        job.resume(Effect.fail(refused("another process has kept the database busy for 10 seconds")))
        return false
      })
      queue.splice(0, queue.length, ...kept)
    })

    // The pauses have no end, so there is none to learn of.
    const waitAWhile = Effect.zipRight(expire, Effect.ignore(pause.next(undefined)))
    let paused = false
    const turn = Effect.flatMap(Effect.zipRight(gather, write), (busy) => {
      if (busy === paused) return busy ? waitAWhile : Effect.void
      paused = busy
      return busy ? waitAWhile : pause.reset
    })

    // Shut down after the writer below and before the database: what has been handed over is written.
    yield* Effect.addFinalizer(() =>
      Effect.gen(function*() {
        closed = true
        while (queue.length > 0 && !(yield* write)) { /* until all is written */ }
        for (const job of queue.splice(0)) job.resume(Effect.fail(refused("it is closed")))
      })
    )
    yield* Effect.forkScoped(
      // not `forever`, which yields on every turn
      Effect.annotateLogs(Effect.whileLoop({ while: () => true, body: () => turn, step: () => {} }), {
        module: "SqliteTranscriptStore",
        fiber: "writer"
      })
    )

    return (append) =>
      Effect.async<void, AppendError>((resume) => {
        if (closed) return resume(Effect.fail(refused("it is closed")))
        const job: Job = { append, json: encode(append), since: clock.unsafeCurrentTimeNanos(), resume }
        queue.push(job)
        ring?.()
        return Effect.sync(() => {
          const index = queue.indexOf(job)
          if (index >= 0) queue.splice(index, 1)
        })
      })
  })

const none = Effect.succeed<ReadonlyArray<Job>>([])

const refused = (reason: string) => new StoreFailure({ reason, committed: "no" })

/** The rows in the order of the columns of the table, without the brackets around them. */
const encode = (append: Append): string =>
  append.rows
    .map((row) =>
      JSON.stringify([
        row.session,
        row.seq,
        row.activation,
        row.generation,
        row.kind,
        row.run,
        row.into,
        row.mode,
        row.authority,
        row.at,
        row.payload
      ])
    )
    .join(",")
