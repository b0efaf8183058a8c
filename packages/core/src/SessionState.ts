/**
 * A session's state as a pure fold over its journal: what waits, and which run is open. An actor rebuilt from the
 * journal starts from exactly this.
 *
 * @since 0.1.0
 */
import type { RunId, SessionId } from "@switchyard/protocol/Ids"
import type { QueueMode } from "@switchyard/protocol/Submission"
import type * as Journal from "./Journal.js"

/**
 * An accepted message that is not yet consumed.
 *
 * `boundTo` is the run that a steer will enter while that run is active. `since` is the time at which its quiet window
 * began, in milliseconds of the monotonic clock. `payload` is undefined if the store held one that cannot be read.
 *
 * @since 0.1.0
 * @category models
 */
export interface WaitingRow {
  readonly runId: RunId
  readonly mode: QueueMode
  readonly authority: string
  readonly boundTo: RunId | null
  readonly acceptedAt: number
  readonly since: number
  readonly abort: Journal.AbortCause | null
  /** The run that the abort was meant for, if the row was bound to it. */
  readonly abortInto: RunId | null
  /** An interrupt closed the group of `collect` messages that it waits in. */
  readonly closed: boolean
  readonly payload: Journal.Payloads["accepted"] | undefined
}

/**
 * The run that is started and not settled. `members` are the messages that it answers besides its own.
 *
 * @since 0.1.0
 * @category models
 */
export interface OpenRun {
  readonly runId: RunId
  readonly members: ReadonlyArray<RunId>
  readonly startedAt: number
  readonly abort: Journal.AbortCause | null
  readonly delivering: boolean
}

/**
 * `rows` are in the order in which they will be taken: the interrupts first, each part by acceptance.
 *
 * @since 0.1.0
 * @category models
 */
export interface SessionState {
  readonly sessionId: SessionId | null
  readonly rows: ReadonlyArray<WaitingRow>
  readonly open: OpenRun | null
}

/**
 * A session without a journal.
 *
 * @since 0.1.0
 * @category constructors
 */
export const empty: SessionState = { sessionId: null, rows: [], open: null }

const insert = (rows: ReadonlyArray<WaitingRow>, row: WaitingRow): ReadonlyArray<WaitingRow> => {
  if (row.mode !== "interrupt") return [...rows, row]
  const block = rows.findIndex((other) => other.mode !== "interrupt")
  return block === -1 ? [...rows, row] : [...rows.slice(0, block), row, ...rows.slice(block)]
}

const close = (row: WaitingRow): WaitingRow => row.mode === "collect" ? { ...row, closed: true } : row

/**
 * The state after one more entry. `since` is the monotonic time, in milliseconds, from which a quiet window of the row
 * is counted: the time of acceptance, or of activation when the journal is read again.
 *
 * @since 0.1.0
 * @category folds
 */
export const apply = (state: SessionState, entry: Journal.Entry, since: number): SessionState => {
  switch (entry.kind) {
    case "opened":
      return { ...state, sessionId: entry.payload?.sessionId ?? state.sessionId }
    case "accepted":
      if (entry.mode === "command" || entry.mode === null || entry.run === null) return state
      return {
        ...state,
        rows: insert(entry.mode === "interrupt" ? state.rows.map(close) : state.rows, {
          runId: entry.run,
          mode: entry.mode,
          authority: entry.authority ?? "",
          boundTo: entry.mode === "steer" ? entry.into : null,
          acceptedAt: entry.at,
          since,
          abort: null,
          abortInto: null,
          closed: false,
          payload: entry.payload
        })
      }
    case "started":
      return entry.run === null ? state : {
        ...state,
        open: {
          runId: entry.run,
          members: [],
          startedAt: entry.payload?.startedAt ?? entry.at,
          abort: state.rows.find((row) => row.runId === entry.run)?.abort ?? null,
          delivering: false
        }
      }
    case "consumed": {
      const { open } = state
      return {
        ...state,
        rows: state.rows.filter((row) => row.runId !== entry.run),
        open: open !== null && entry.run !== null && entry.into === open.runId && entry.run !== open.runId
          ? { ...open, members: [...open.members, entry.run] }
          : open
      }
    }
    case "cancelled":
      return { ...state, rows: state.rows.filter((row) => row.runId !== entry.run) }
    case "abort_requested": {
      const cause = entry.payload?.cause ?? "abort"
      if (state.open?.runId === entry.run && state.open !== null) {
        return { ...state, open: { ...state.open, abort: cause } }
      }
      return {
        ...state,
        rows: state.rows.map((row) =>
          row.runId === entry.run ? { ...row, abort: cause, abortInto: entry.into ?? entry.run } : row
        )
      }
    }
    case "delivery_started":
      return state.open?.runId === entry.run && state.open !== null
        ? { ...state, open: { ...state.open, delivering: true } }
        : state
    case "settled":
      return state.open?.runId === entry.run ? { ...state, open: null } : state
    case "assistant":
    case "reply":
    case "tool_result":
    case "note":
      return state
    default:
      // A kind that only a newer program knows.
      return state
  }
}

/**
 * The state after many entries.
 *
 * @since 0.1.0
 * @category folds
 */
export const applyAll = (
  state: SessionState,
  entries: ReadonlyArray<Journal.Entry>,
  since: number
): SessionState => {
  let next = state
  for (const entry of entries) next = apply(next, entry, since)
  return next
}
