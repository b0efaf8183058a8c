/**
 * What lists and status pages show of sessions and their queues.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { RunId, SessionId, SessionKey } from "./Ids.js"
import { HistoryMessage } from "./Message.js"
import { QueueMode } from "./Submission.js"

/**
 * One session. `waiting` counts messages not yet consumed; `activeRunId` is the run that is started and not settled.
 * Times are milliseconds since the epoch.
 *
 * @since 0.1.0
 * @category models
 */
export const SessionInfo = Schema.Struct({
  sessionKey: SessionKey,
  sessionId: SessionId,
  createdAt: Schema.Finite,
  updatedAt: Schema.Finite,
  lastSeq: Schema.Int,
  waiting: Schema.Int,
  activeRunId: Schema.NullOr(RunId)
})
/**
 * @since 0.1.0
 * @category models
 */
export type SessionInfo = typeof SessionInfo.Type

/**
 * A page of sessions, by key. Hand `next` back as `after` for the following page; it is null on the last.
 *
 * @since 0.1.0
 * @category models
 */
export const SessionPage = Schema.Struct({
  sessions: Schema.Array(SessionInfo),
  next: Schema.NullOr(Schema.String)
})
/**
 * @since 0.1.0
 * @category models
 */
export type SessionPage = typeof SessionPage.Type

/**
 * A page of messages, oldest first. Hand `next` back as `after` for the following page; it is null on the last.
 *
 * @since 0.1.0
 * @category models
 */
export const HistoryPage = Schema.Struct({
  sessionKey: SessionKey,
  sessionId: SessionId,
  messages: Schema.Array(HistoryMessage),
  next: Schema.NullOr(Schema.Int)
})
/**
 * @since 0.1.0
 * @category models
 */
export type HistoryPage = typeof HistoryPage.Type

/**
 * One waiting message. `place` counts from 1 in the order in which messages will be taken; `boundTo` is the run that it
 * will enter at its next boundary.
 *
 * @since 0.1.0
 * @category models
 */
export const QueueRow = Schema.Struct({
  runId: RunId,
  place: Schema.Int,
  mode: QueueMode,
  acceptedAt: Schema.Finite,
  preview: Schema.String,
  boundTo: Schema.NullOr(RunId)
})
/**
 * @since 0.1.0
 * @category models
 */
export type QueueRow = typeof QueueRow.Type

/**
 * The run in progress. `phase` follows the order of a run; `merged` names the messages that it answers besides its own.
 *
 * @since 0.1.0
 * @category models
 */
export const ActiveRun = Schema.Struct({
  runId: RunId,
  phase: Schema.Literal("waiting", "preparing", "running", "delivering", "ending"),
  startedAt: Schema.Finite,
  merged: Schema.Array(RunId)
})
/**
 * @since 0.1.0
 * @category models
 */
export type ActiveRun = typeof ActiveRun.Type

/**
 * The queue of one session as it stands.
 *
 * @since 0.1.0
 * @category models
 */
export const QueueView = Schema.Struct({
  sessionKey: SessionKey,
  active: Schema.NullOr(ActiveRun),
  rows: Schema.Array(QueueRow)
})
/**
 * @since 0.1.0
 * @category models
 */
export type QueueView = typeof QueueView.Type

/**
 * How the gateway is doing. `uptimeMs` is milliseconds since it began to listen.
 *
 * @since 0.1.0
 * @category models
 */
export const Health = Schema.Struct({
  status: Schema.Literal("ok", "draining"),
  version: Schema.String,
  pid: Schema.Int,
  uptimeMs: Schema.Finite,
  activeSessions: Schema.Int,
  activeRuns: Schema.Int,
  model: Schema.String
})
/**
 * @since 0.1.0
 * @category models
 */
export type Health = typeof Health.Type
