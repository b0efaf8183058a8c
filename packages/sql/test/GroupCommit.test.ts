import { SqlError } from "@effect/sql/SqlError"
import { assert, describe, it } from "@effect/vitest"
import type * as Journal from "@switchyard/core/Journal"
import { type Append, AppendConflict } from "@switchyard/core/TranscriptStore"
import type { SessionKey } from "@switchyard/protocol/Ids"
import { Effect, Either, Fiber, TestClock } from "effect"
import * as groupCommit from "../src/internal/groupCommit.js"

const append = (session: string): Append => ({
  session: session as SessionKey,
  follows: 0,
  rows: [{ session, seq: 1 } as unknown as Journal.Row]
})

const large = (session: string, length: number): Append => {
  const one = append(session)
  return { ...one, rows: one.rows.map((row) => ({ ...row, payload: "x".repeat(length) })) }
}

const failing = (code: string) => Effect.fail(new SqlError({ cause: Object.assign(new Error(code), { code }) }))

/** A writer over a database that answers as told, and the sessions of each statement that it was given. */
const writer = (answer: (sessions: string, call: number) => Effect.Effect<void, SqlError>) =>
  Effect.gen(function*() {
    const statements: Array<string> = []
    const write = yield* groupCommit.make({
      insert: (rows) =>
        Effect.suspend(() => {
          const sessions = (JSON.parse(rows) as Array<[string]>).map(([session]) => session).join("")
          statements.push(sessions)
          return answer(sessions, statements.length)
        }),
      explain: ({ follows, session }) => Effect.succeed(new AppendConflict({ session, follows }))
    })
    return { statements, write }
  })

describe("GroupCommit", () => {
  it.scoped("tries each part of a failed statement alone, in order; where that finds the database busy, the rest waits", () =>
    Effect.gen(function*() {
      const { statements, write } = yield* writer((sessions, call) =>
        call === 3
          ? failing("SQLITE_BUSY")
          : sessions.includes("b")
          ? failing("SQLITE_CONSTRAINT_TRIGGER")
          : Effect.void
      )
      const fiber = yield* Effect.fork(
        Effect.forEach(["a", "b", "c", "d"], (session) => Effect.either(write(append(session))), {
          concurrency: "unbounded"
        })
      )
      yield* Effect.repeat(Effect.zipRight(Effect.yieldNow(), TestClock.sleeps()), {
        until: (sleeps) => sleeps.length > 0
      })
      assert.deepStrictEqual(statements, ["abcd", "a", "b"])
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(yield* Fiber.join(fiber), [
        Either.right(undefined),
        Either.left(new AppendConflict({ session: "b" as SessionKey, follows: 0 })),
        Either.right(undefined),
        Either.right(undefined)
      ])
      assert.deepStrictEqual(statements, ["abcd", "a", "b", "bcd", "b", "c", "d"])
    }))

  it.scoped("an append that was handed over is written whole although its caller is interrupted", () =>
    Effect.gen(function*() {
      let release = () => {}
      const { statements, write } = yield* writer(() =>
        Effect.async((resume) => {
          release = () => resume(Effect.void)
        })
      )
      const fiber = yield* Effect.fork(write(append("a")))
      yield* Effect.repeat(Effect.yieldNow(), { until: () => statements.length > 0 })
      yield* Fiber.interrupt(fiber)
      const next = yield* Effect.fork(write(append("b")))
      release()
      yield* Effect.repeat(Effect.yieldNow(), { until: () => statements.length > 1 })
      release()
      yield* Fiber.join(next)
      assert.deepStrictEqual(statements, ["a", "b"])
    }))

  it.scoped("puts at most 1 MiB of text into one statement, unless a single append has more", () =>
    Effect.gen(function*() {
      const { statements, write } = yield* writer(() => Effect.void)
      yield* Effect.forEach(
        [large("a", 600_000), large("b", 400_000), large("c", 400_000), large("d", 2_000_000), large("e", 1)],
        write,
        { concurrency: "unbounded", discard: true }
      )
      assert.deepStrictEqual(statements, ["ab", "c", "d", "e"])
    }))

  it.scoped("tries what was busy again before what waited behind it", () =>
    Effect.gen(function*() {
      const { statements, write } = yield* writer((_, call) => call === 1 ? failing("SQLITE_BUSY") : Effect.void)
      const fiber = yield* Effect.fork(
        Effect.forEach([large("a", 600_000), large("b", 600_000)], write, { concurrency: "unbounded", discard: true })
      )
      yield* Effect.repeat(Effect.zipRight(Effect.yieldNow(), TestClock.sleeps()), {
        until: (sleeps) => sleeps.length > 0
      })
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(statements, ["a", "a", "b"])
    }))
})
