/**
 * Where journals live. The port is small, so that a team can write its own in an afternoon; the suite in
 * `@switchyard/testkit/TranscriptStoreSuite` says whether it is right.
 *
 * A store promises:
 * - an append is all or nothing, and is durable once it succeeded;
 * - an append lands only directly behind the entry that it follows (the fence), else it fails with
 *   {@link AppendConflict} and changes nothing;
 * - no two `accepted` rows, of any session, have the same run ({@link RunIdTaken}).
 *
 * @since 0.1.0
 */
import type { RunId, SessionId, SessionKey } from "@switchyard/protocol/Ids"
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Journal from "./Journal.js"
import { runKinds } from "./Journal.js"

/**
 * The session's last entry is not the one that the append follows: someone else wrote. Read what is there: rows of the
 * caller's own activation mean that an earlier append of its own was committed after all; anything else means that the
 * session has another owner.
 *
 * @since 0.1.0
 * @category errors
 */
export class AppendConflict extends Data.TaggedError("AppendConflict")<{
  readonly session: SessionKey
  readonly follows: number
}> {
  override get message() {
    return `Session "${this.session}" does not end at entry ${this.follows} any more`
  }
}

/**
 * A run of this id was accepted before, in this session or another. Nothing was written.
 *
 * @since 0.1.0
 * @category errors
 */
export class RunIdTaken extends Data.TaggedError("RunIdTaken")<{ readonly run: RunId }> {
  override get message() {
    return `A message with the id ${this.run} was accepted before`
  }
}

/**
 * The store cannot be reached or refused to work. `committed` tells what is known: `no` is certain, `unknown` is not (the
 * caller reads the session's end to find out).
 *
 * @since 0.1.0
 * @category errors
 */
export class StoreFailure extends Data.TaggedError("StoreFailure")<{
  readonly reason: string
  readonly committed: "no" | "unknown"
  readonly cause?: unknown
}> {
  override get message() {
    return `The message store failed: ${this.reason}`
  }
}

/**
 * What an append can fail with.
 *
 * @since 0.1.0
 * @category errors
 */
export type AppendError = AppendConflict | RunIdTaken | StoreFailure

/**
 * One append: rows of one session, `rows[0].seq` being `follows + 1`.
 *
 * @since 0.1.0
 * @category models
 */
export interface Append {
  readonly session: SessionKey
  readonly follows: number
  readonly rows: ReadonlyArray<Journal.Row>
}

/**
 * What a list shows of a session without reading its journal. `waiting` counts `accepted` minus `consumed` and
 * `cancelled` messages; `activeRun` is started and not settled. Times are milliseconds since the epoch.
 *
 * @since 0.1.0
 * @category models
 */
export interface SessionSummary {
  readonly session: SessionKey
  readonly sessionId: SessionId
  readonly createdAt: number
  readonly updatedAt: number
  readonly last: number
  readonly waiting: number
  readonly activeRun: RunId | null
}

/**
 * @since 0.1.0
 * @category context
 */
export class TranscriptStore extends Context.Tag("@switchyard/core/TranscriptStore")<TranscriptStore, {
  /** Commits rows behind `follows`, all or nothing. May be joined with appends of other sessions. */
  readonly append: (append: Append) => Effect.Effect<void, AppendError>
  /** Rows with a `seq` above `after`, in order, at most `limit` (all if not given). */
  readonly read: (
    session: SessionKey,
    after: number,
    limit?: number
  ) => Effect.Effect<ReadonlyArray<Journal.Row>, StoreFailure>
  /** The rows of a run that have one of the {@link runKinds}, in order; empty for an unknown run. */
  readonly findRun: (run: RunId) => Effect.Effect<ReadonlyArray<Journal.Row>, StoreFailure>
  /** The sessions that have a waiting message or an unsettled run. Found without a scan. */
  readonly open: Effect.Effect<ReadonlyArray<SessionKey>, StoreFailure>
  /** Summaries of sessions with a key above `after`, at most `limit`, in the order of the code points of their keys. */
  readonly sessions: (page: {
    readonly after?: SessionKey | undefined
    readonly limit: number
  }) => Effect.Effect<ReadonlyArray<SessionSummary>, StoreFailure>
  /** The summary of one session. */
  readonly session: (session: SessionKey) => Effect.Effect<Option.Option<SessionSummary>, StoreFailure>
  /** The key of the session that a session id belongs to, past ids included. */
  readonly findSessionId: (sessionId: string) => Effect.Effect<Option.Option<SessionKey>, StoreFailure>
}>() {}

/**
 * A store in memory, with the promises of a durable one for as long as the process lives.
 *
 * @since 0.1.0
 * @category constructors
 */
export const makeMemory: Effect.Effect<TranscriptStore["Type"]> = Effect.sync(() => {
  interface Stored {
    readonly rows: Array<Journal.Row>
    summary: SessionSummary
  }
  const sessions = new Map<SessionKey, Stored>()
  const runs = new Map<RunId, Array<Journal.Row>>()
  const accepted = new Set<RunId>()
  const ids = new Map<string, SessionKey>()
  const open = new Set<SessionKey>()
  const inFindRun = new Set<string>(runKinds)

  const append = (append: Append) =>
    Effect.suspend((): Effect.Effect<void, AppendError> => {
      const stored = sessions.get(append.session)
      if ((stored?.rows.length ?? 0) !== append.follows) {
        return Effect.fail(new AppendConflict({ session: append.session, follows: append.follows }))
      }
      const fresh = new Set<RunId>()
      for (const row of append.rows) {
        if (row.kind === "accepted" && row.run !== null) {
          if (accepted.has(row.run) || fresh.has(row.run)) return Effect.fail(new RunIdTaken({ run: row.run }))
          fresh.add(row.run)
        }
      }
      const target = stored ?? { rows: [], summary: emptySummary(append.session) }
      sessions.set(append.session, target)
      for (const row of append.rows) {
        target.rows.push(row)
        target.summary = summarise(target.summary, row)
        if (row.kind === "opened") ids.set(target.summary.sessionId, append.session)
        if (row.run === null) continue
        if (row.kind === "accepted") accepted.add(row.run)
        if (inFindRun.has(row.kind)) {
          const found = runs.get(row.run)
          if (found === undefined) runs.set(row.run, [row])
          else found.push(row)
        }
      }
      if (target.summary.waiting > 0 || target.summary.activeRun !== null) open.add(append.session)
      else open.delete(append.session)
      return Effect.void
    })

  return TranscriptStore.of({
    append,
    read: (session, after, limit) =>
      Effect.sync(() =>
        sessions.get(session)?.rows.slice(after, limit === undefined ? undefined : after + limit) ?? []
      ),
    findRun: (run) => Effect.sync(() => runs.get(run)?.slice() ?? []),
    open: Effect.sync(() => Array.from(open)),
    sessions: ({ after, limit }) =>
      Effect.sync(() =>
        Array.from(sessions.keys())
          .filter((key) => after === undefined || byCodePoint(key, after) > 0)
          .sort(byCodePoint)
          .slice(0, limit)
          .map((key) => sessions.get(key)!.summary)
      ),
    session: (session) => Effect.sync(() => Option.fromNullable(sessions.get(session)?.summary)),
    findSessionId: (sessionId) => Effect.sync(() => Option.fromNullable(ids.get(sessionId)))
  })
})

/**
 * @since 0.1.0
 * @category layers
 */
export const layerMemory: Layer.Layer<TranscriptStore> = Layer.effect(TranscriptStore, makeMemory)

// The order of UTF-8 bytes, in which databases sort. By code units, a character beyond U+FFFF would come before U+E000.
const byCodePoint = (a: string, b: string): number => {
  const length = Math.min(a.length, b.length)
  for (let index = 0; index < length; index++) {
    const x = a.charCodeAt(index)
    const y = b.charCodeAt(index)
    if (x !== y) return isSurrogate(x) === isSurrogate(y) ? x - y : isSurrogate(x) ? 1 : -1
  }
  return a.length - b.length
}

const isSurrogate = (unit: number): boolean => unit >= 0xd800 && unit < 0xe000

const emptySummary = (session: SessionKey): SessionSummary => ({
  session,
  sessionId: "" as SessionId,
  createdAt: 0,
  updatedAt: 0,
  last: 0,
  waiting: 0,
  activeRun: null
})

/**
 * The summary of a session after one more row. Stores that keep summaries in their own way agree with this.
 *
 * @since 0.1.0
 * @category folds
 */
export const summarise = (summary: SessionSummary, row: Journal.Row): SessionSummary => ({
  session: summary.session,
  sessionId: row.kind === "opened"
    ? (JSON.parse(row.payload) as Journal.Payloads["opened"]).sessionId
    : summary.sessionId,
  createdAt: summary.last === 0 ? row.at : summary.createdAt,
  updatedAt: row.at,
  last: row.seq,
  // a command is accepted and settled without ever waiting
  waiting: row.kind === "accepted" && row.mode !== "command"
    ? summary.waiting + 1
    : row.kind === "consumed" || row.kind === "cancelled"
    ? summary.waiting - 1
    : summary.waiting,
  activeRun: row.kind === "started"
    ? row.run
    : row.kind === "settled" && row.run === summary.activeRun
    ? null
    : summary.activeRun
})
