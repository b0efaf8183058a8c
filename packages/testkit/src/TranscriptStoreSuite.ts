/**
 * Says whether a `TranscriptStore` is right: one list of promises that every store passes, in memory, in a file or in a
 * database server.
 *
 * It needs `@effect/vitest`. In a test file:
 *
 * ```ts
 * import { suite } from "@switchyard/testkit/TranscriptStoreSuite"
 *
 * suite("MyStore", MyStore.layer)
 * ```
 *
 * @since 0.1.0
 */
import { assert, it } from "@effect/vitest"
import * as Journal from "@switchyard/core/Journal"
import {
  type Append,
  AppendConflict,
  RunIdTaken,
  type SessionSummary,
  summarise,
  TranscriptStore
} from "@switchyard/core/TranscriptStore"
import type { RunId, SessionId, SessionKey } from "@switchyard/protocol/Ids"
import { uuid } from "@switchyard/protocol/Ids"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import type * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as JournalArbitraries from "./JournalArbitraries.js"

/**
 * Declares the tests of a store. The layer is built once; each test works on sessions and runs of its own, so that a
 * store with other contents, or one that other tests use, is fine. `numRuns` (25) is how many random journals each
 * property tries.
 *
 * @since 0.1.0
 * @category testing
 */
export const suite = <E>(
  name: string,
  layer: Layer.Layer<TranscriptStore, E>,
  options?: { readonly numRuns?: number | undefined }
): void => {
  const fastCheck = { numRuns: options?.numRuns ?? 25 }

  it.layer(layer)(name, (it) => {
    it.effect("gives back what was appended, in order, and in pages", () =>
      Effect.gen(function*() {
        const store = yield* TranscriptStore
        const { session, run } = yield* fresh
        const first = append(session, 0, [opened(`${run}-id`), accepted(run)])
        const second = append(session, 2, [started(run), consumed(run, run), settled(run)])
        yield* store.append(first)
        yield* store.append(second)
        const all = [...first.rows, ...second.rows]
        assert.deepStrictEqual(yield* store.read(session, 0), all)
        assert.deepStrictEqual(yield* store.read(session, 2), all.slice(2))
        assert.deepStrictEqual(yield* store.read(session, 1, 2), all.slice(1, 3))
        assert.deepStrictEqual(yield* store.read(session, 4, 10), all.slice(4))
        assert.deepStrictEqual(yield* store.read(session, 5), [])
        assert.deepStrictEqual(yield* store.read(session, 0, 0), [])
      }))

    it.effect("knows nothing of a session, run or session id that nobody wrote", () =>
      Effect.gen(function*() {
        const store = yield* TranscriptStore
        const { session, run } = yield* fresh
        assert.deepStrictEqual(yield* store.read(session, 0), [])
        assert.deepStrictEqual(yield* store.findRun(run), [])
        assert.isTrue(Option.isNone(yield* store.session(session)))
        assert.isTrue(Option.isNone(yield* store.findSessionId(run)))
      }))

    it.effect("refuses an append that does not follow the last entry, and changes nothing (9.6)", () =>
      Effect.gen(function*() {
        const store = yield* TranscriptStore
        const { session, run } = yield* fresh
        const first = append(session, 0, [opened(`${run}-id`), accepted(run)])
        yield* store.append(first)
        const summary = yield* store.session(session)
        for (const follows of [0, 1, 3, 100]) {
          const other = `${run}-${follows}` as RunId
          const error = yield* Effect.flip(
            store.append(append(session, follows, [opened(`${other}-id`), accepted(other), started(other)]))
          )
          assert.deepStrictEqual(error, new AppendConflict({ session, follows }))
          assert.deepStrictEqual(yield* store.findRun(other), [])
          assert.isTrue(Option.isNone(yield* store.findSessionId(`${other}-id`)))
        }
        assert.deepStrictEqual(yield* store.read(session, 0), first.rows)
        assert.deepStrictEqual(yield* store.session(session), summary)
      }))

    it.effect("refuses the first append of a session that does not begin at its start (9.6)", () =>
      Effect.gen(function*() {
        const store = yield* TranscriptStore
        const { session, run } = yield* fresh
        const error = yield* Effect.flip(store.append(append(session, 1, [accepted(run)])))
        assert.strictEqual(error._tag, "AppendConflict")
        assert.isTrue(Option.isNone(yield* store.session(session)))
      }))

    it.effect("lets exactly one of many writers append behind the same entry (9.6)", () =>
      Effect.gen(function*() {
        const store = yield* TranscriptStore
        const { session, run } = yield* fresh
        yield* store.append(append(session, 0, [opened(`${run}-id`)]))
        const appends = Array.from({ length: 8 }, (_, index) =>
          append(session, 1, [accepted(`${run}-${index}`), note(`${index}`)]))
        const results = yield* Effect.forEach(appends, (append) =>
          Effect.either(store.append(append)), {
          concurrency: "unbounded"
        })
        const winners = appends.filter((_, index) => Either.isRight(results[index]!))
        assert.strictEqual(winners.length, 1)
        for (const result of results) {
          if (Either.isLeft(result)) assert.deepStrictEqual(result.left, new AppendConflict({ session, follows: 1 }))
        }
        assert.deepStrictEqual(yield* store.read(session, 1), winners[0]!.rows)
      }))

    it.effect("keeps the order of appends that are handed over at once for one session", () =>
      Effect.gen(function*() {
        const store = yield* TranscriptStore
        const { session, run } = yield* fresh
        const appends = [append(session, 0, [opened(`${run}-id`)])].concat(
          Array.from({ length: 20 }, (_, index) => append(session, index + 1, [note(`${index}`)]))
        )
        yield* Effect.forEach(appends, (append) => store.append(append), { concurrency: "unbounded" })
        assert.deepStrictEqual(yield* store.read(session, 0), appends.flatMap(({ rows }) => rows))
      }))

    it.effect("accepts a run id once: in one append, in one session, over all sessions (2.3)", () =>
      Effect.gen(function*() {
        const store = yield* TranscriptStore
        const { session, run } = yield* fresh
        const other = yield* fresh
        const first = append(session, 0, [opened(`${run}-id`), accepted(run)])
        yield* store.append(first)
        const taken = new RunIdTaken({ run })
        const again = append(session, 2, [note("before"), accepted(`${run}-new`), accepted(run)])
        assert.deepStrictEqual(yield* Effect.flip(store.append(again)), taken)
        const elsewhere = append(other.session, 0, [opened(`${other.run}-id`), accepted(other.run), accepted(run)])
        assert.deepStrictEqual(yield* Effect.flip(store.append(elsewhere)), taken)
        const twice = append(other.session, 0, [opened(`${other.run}-id`), accepted(other.run), accepted(other.run)])
        assert.deepStrictEqual(yield* Effect.flip(store.append(twice)), new RunIdTaken({ run: other.run }))
        // nothing of the three is there
        assert.deepStrictEqual(yield* store.read(session, 0), first.rows)
        assert.deepStrictEqual(yield* store.findRun(`${run}-new` as RunId), [])
        assert.isTrue(Option.isNone(yield* store.session(other.session)))
        assert.isTrue(Option.isNone(yield* store.findSessionId(`${other.run}-id`)))
        // and the ids that were not accepted are free
        yield* store.append(append(session, 2, [accepted(`${run}-new`)]))
        yield* store.append(append(other.session, 0, [opened(`${other.run}-id`), accepted(other.run)]))
      }))

    it.effect("tells a conflict, not a taken run id, when an append is wrong in both ways", () =>
      Effect.gen(function*() {
        const store = yield* TranscriptStore
        const { session, run } = yield* fresh
        const first = append(session, 0, [opened(`${run}-id`), accepted(run)])
        yield* store.append(first)
        assert.deepStrictEqual(yield* Effect.flip(store.append(first)), new AppendConflict({ session, follows: 0 }))
      }))

    it.effect("lets other rows than `accepted` repeat a run id", () =>
      Effect.gen(function*() {
        const store = yield* TranscriptStore
        const { session, run } = yield* fresh
        yield* store.append(append(session, 0, [opened(`${run}-id`), accepted(run), started(run), settled(run)]))
        yield* store.append(append(session, 4, [started(run), settled(run)]))
        assert.deepStrictEqual((yield* store.session(session)).pipe(Option.map((s) => s.last)), Option.some(6))
      }))

    it.effect("finds the rows that decide a run, in order, and no others", () =>
      Effect.gen(function*() {
        const store = yield* TranscriptStore
        const { session, run } = yield* fresh
        const merged = `${run}-merged` as RunId
        const { rows } = append(session, 0, [
          opened(`${run}-id`),
          accepted(run),
          started(run),
          consumed(run, run),
          accepted(merged, run),
          message("assistant", run),
          Journal.entry("tool_result", 6, { message: { role: "tool", content: [] } } as never, { run: run as RunId }),
          Journal.entry("note", 7, { text: "note" }, { run: run as RunId }),
          consumed(merged, run),
          settled(merged),
          Journal.entry("abort_requested", 8, { cause: "abort" }, { run: run as RunId }),
          message("reply", run),
          Journal.entry("delivery_started", 9, { route: { channel: "web" } }, { run: run as RunId }),
          settled(run)
        ])
        yield* store.append({ session, follows: 0, rows })
        const decisive = (of: string) => rows.filter((row) => row.run === of && Journal.runKinds.includes(row.kind))
        assert.deepStrictEqual(yield* store.findRun(run), decisive(run))
        assert.deepStrictEqual(yield* store.findRun(merged), decisive(merged))
        assert.strictEqual(decisive(run).length, 7)
      }))

    it.effect("lists a session as open while a message waits or a run is active, and no longer", () =>
      Effect.gen(function*() {
        const store = yield* TranscriptStore
        const { session, run } = yield* fresh
        const isOpen = Effect.map(store.open, (keys) => keys.includes(session))
        let follows = 0
        const write = (...entries: ReadonlyArray<Journal.Entry>) =>
          Effect.suspend(() => {
            const request = append(session, follows, entries)
            follows += entries.length
            return Effect.zipRight(store.append(request), isOpen)
          })
        assert.isFalse(yield* isOpen)
        assert.isFalse(yield* write(opened(`${run}-id`)))
        assert.isFalse(yield* write(accepted(`${run}-command`, null, "command"), settled(`${run}-command`)))
        assert.isTrue(yield* write(accepted(run)))
        assert.isTrue(yield* write(started(run), consumed(run, run)))
        assert.isTrue(yield* write(accepted(`${run}-2`)))
        assert.isTrue(yield* write(settled(run)))
        assert.isFalse(yield* write(cancelled(`${run}-2`)))
        assert.isTrue(yield* write(accepted(`${run}-3`)))
        assert.isFalse(yield* write(started(`${run}-3`), consumed(`${run}-3`, `${run}-3`), settled(`${run}-3`)))
      }))

    it.effect("ends the active run only by its own settling", () =>
      Effect.gen(function*() {
        const store = yield* TranscriptStore
        const { session, run } = yield* fresh
        const activeRun = Effect.map(store.session(session), Option.map((summary) => summary.activeRun))
        yield* store.append(
          append(session, 0, [opened(`${run}-id`), accepted(run), accepted(`${run}-2`), started(run)])
        )
        yield* store.append(append(session, 4, [settled(`${run}-2`)]))
        assert.deepStrictEqual(yield* activeRun, Option.some(run as RunId))
        yield* store.append(append(session, 5, [settled(run)]))
        assert.deepStrictEqual(yield* activeRun, Option.some(null))
      }))

    it.effect("finds a session by its present and past session ids", () =>
      Effect.gen(function*() {
        const store = yield* TranscriptStore
        const { session, run } = yield* fresh
        yield* store.append(append(session, 0, [opened(`${run}-a`)]))
        yield* store.append(append(session, 1, [opened(`${run}-b`)]))
        assert.deepStrictEqual(yield* store.findSessionId(`${run}-a`), Option.some(session))
        assert.deepStrictEqual(yield* store.findSessionId(`${run}-b`), Option.some(session))
        assert.deepStrictEqual(
          Option.map(yield* store.session(session), (summary) => summary.sessionId),
          Option.some(`${run}-b` as SessionId)
        )
      }))

    it.effect.prop(
      "keeps summaries that equal the fold of the journal, rows that equal it, and finds what is open",
      { journal: JournalArbitraries.journal },
      ({ journal }) =>
        Effect.gen(function*() {
          const store = yield* TranscriptStore
          const { session, run } = yield* fresh
          const appends = journal({ session, prefix: run })
          yield* Effect.forEach(appends, (append) => store.append(append), { discard: true })
          const rows = appends.flatMap((append) => append.rows)
          const expected = fold(session, rows)
          assert.deepStrictEqual(yield* store.session(session), Option.some(expected))
          assert.deepStrictEqual(yield* store.read(session, 0), rows)
          assert.strictEqual(
            (yield* store.open).includes(session),
            expected.waiting > 0 || expected.activeRun !== null
          )
        }),
      { fastCheck }
    )

    it.effect.prop(
      "gives payloads back byte for byte, whatever text they hold",
      { texts: FastCheck.array(JournalArbitraries.text, { minLength: 1, maxLength: 8 }) },
      ({ texts }) =>
        Effect.gen(function*() {
          const store = yield* TranscriptStore
          const { session, run } = yield* fresh
          const request = append(session, 0, [opened(`${run}-id`), ...texts.map(note)])
          yield* store.append(request)
          const rows = yield* store.read(session, 0)
          assert.deepStrictEqual(rows.map((row) => row.payload), request.rows.map((row) => row.payload))
          assert.deepStrictEqual(rows.slice(1).map((row) => JSON.parse(row.payload).text), texts)
        }),
      { fastCheck }
    )

    it.effect.prop(
      "pages through sessions in the order of their keys' code points, and misses none",
      {
        names: FastCheck.uniqueArray(JournalArbitraries.sessionKey, { minLength: 1, maxLength: 12 }),
        limit: FastCheck.integer({ min: 1, max: 5 })
      },
      ({ limit, names }) =>
        Effect.gen(function*() {
          const store = yield* TranscriptStore
          const { run } = yield* fresh
          const keys = names.map((name) => `${run}:${name}` as SessionKey)
          yield* Effect.forEach(keys, (key, index) => store.append(append(key, 0, [opened(`${run}-${index}`)])), {
            concurrency: "unbounded"
          })
          const seen: Array<SessionKey> = []
          let after = `${run}:` as SessionKey
          for (;;) {
            const page = yield* store.sessions({ after, limit })
            assert.isAtMost(page.length, limit)
            const ours = page.filter(({ session }) => session.startsWith(`${run}:`))
            for (const { session } of ours) seen.push(session)
            if (ours.length < limit) break
            after = ours[ours.length - 1]!.session
          }
          assert.deepStrictEqual(seen, keys.slice().sort(byCodePoints))
          assert.deepStrictEqual(
            (yield* store.sessions({ after: `${run}:` as SessionKey, limit: 1 })).map(({ session }) => session),
            seen.slice(0, 1)
          )
        }),
      { fastCheck }
    )

    it.effect("begins with the first session when no place is given", () =>
      Effect.gen(function*() {
        const store = yield* TranscriptStore
        const { session, run } = yield* fresh
        yield* store.append(append(session, 0, [opened(`${run}-id`)]))
        const [first] = yield* store.sessions({ limit: 1 })
        const page = yield* store.sessions({ limit: 1_000_000 })
        assert.deepStrictEqual(page[0], first)
        assert.isTrue(page.some((summary) => summary.session === session))
      }))

    it.effect("takes appends of many sessions at once, and each caller sees its own result", () =>
      Effect.gen(function*() {
        const store = yield* TranscriptStore
        const { run } = yield* fresh
        const results = yield* Effect.forEach(
          Array.from({ length: 200 }, (_, index) => index),
          (index) => {
            const session = `${run}:${index}` as SessionKey
            // every tenth claims the id of its neighbour, every tenth follows what is not there
            const claimed = index % 10 === 3 ? index - 1 : index
            const entries = [opened(`${run}-id-${index}`), accepted(`${run}-${claimed}`)]
            return Effect.either(store.append(append(session, index % 10 === 7 ? 5 : 0, entries)))
          },
          { concurrency: "unbounded" }
        )
        for (const [index, result] of results.entries()) {
          const session = `${run}:${index}` as SessionKey
          const rows = yield* store.read(session, 0)
          if (index % 10 === 3) {
            assert.deepStrictEqual(result, Either.left(new RunIdTaken({ run: `${run}-${index - 1}` as RunId })))
          } else if (index % 10 === 7) {
            assert.deepStrictEqual(result, Either.left(new AppendConflict({ session, follows: 5 })))
          } else {
            assert.isTrue(Either.isRight(result))
          }
          assert.strictEqual(rows.length, Either.isRight(result) ? 2 : 0)
        }
      }))

    it.effect("writes an append of many rows whole", () =>
      Effect.gen(function*() {
        const store = yield* TranscriptStore
        const { session, run } = yield* fresh
        const request = append(session, 0, [
          opened(`${run}-id`),
          ...Array.from({ length: 700 }, (_, index) => note(`${index} ${"x".repeat(2_000)}`))
        ])
        yield* store.append(request)
        assert.deepStrictEqual(yield* store.read(session, 0), request.rows)
      }))

    it.effect("never writes part of an append whose caller was interrupted", () =>
      Effect.gen(function*() {
        const store = yield* TranscriptStore
        const { session, run } = yield* fresh
        const entries = [opened(`${run}-id`), accepted(run), note("last")]
        const fiber = yield* Effect.fork(store.append(append(session, 0, entries)))
        yield* Effect.yieldNow()
        yield* fiber.interruptAsFork(fiber.id())
        yield* fiber.await
        // a later append has its place behind whatever was written
        yield* store.append(append(`${session}-after` as SessionKey, 0, [opened(`${run}-after`)]))
        const rows = yield* store.read(session, 0)
        assert.include([0, entries.length], rows.length)
        yield* store.append(append(session, rows.length, [opened(`${run}-next`)]))
      }))
  })
}

const fresh = Effect.map(uuid, (id) => ({ session: `suite:${id}` as SessionKey, run: id as RunId }))

const append = (session: SessionKey, follows: number, entries: ReadonlyArray<Journal.Entry>): Append => ({
  session,
  follows,
  rows: Journal.toRows({ session, activation: "suite", generation: 1, follows, entries })
})

const fold = (session: SessionKey, rows: ReadonlyArray<Journal.Row>): SessionSummary =>
  rows.reduce(summarise, {
    session,
    sessionId: "" as SessionId,
    createdAt: 0,
    updatedAt: 0,
    last: 0,
    waiting: 0,
    activeRun: null
  })

const byCodePoints = (a: string, b: string): number => {
  const [x, y] = [Array.from(a, (c) => c.codePointAt(0)!), Array.from(b, (c) => c.codePointAt(0)!)]
  for (let index = 0; index < Math.min(x.length, y.length); index++) {
    if (x[index] !== y[index]) return x[index]! - y[index]!
  }
  return x.length - y.length
}

const opened = (sessionId: string) => Journal.entry("opened", 1, { sessionId: sessionId as SessionId })

const accepted = (run: string, into: string | null = null, mode: Journal.Row["mode"] = "followup") =>
  Journal.entry("accepted", 2, {
    text: "hello",
    attachments: [],
    disposition: "queued",
    digest: "digest",
    authority: { senderId: "suite", owner: true, scopes: [] },
    route: null,
    sender: null,
    settings: { timeoutMs: null, model: null },
    debounceMs: 0
  }, { run: run as RunId, into: into as RunId | null, mode, authority: "authority" })

const started = (run: string) => Journal.entry("started", 3, { startedAt: 3 }, { run: run as RunId })

const consumed = (run: string, into: string) =>
  Journal.entry("consumed", 4, { message: { role: "user", content: [] } } as never, {
    run: run as RunId,
    into: into as RunId
  })

const cancelled = (run: string) => Journal.entry("cancelled", 5, { cause: "abort" }, { run: run as RunId })

const settled = (run: string) =>
  Journal.entry("settled", 10, { outcome: "completed", startedAt: 3 }, { run: run as RunId })

const message = (kind: "assistant" | "reply", run: string) =>
  Journal.entry(kind, 5, { message: { role: "assistant", content: [] } } as never, { run: run as RunId })

const note = (text: string) => Journal.entry("note", 6, { text })
