/** @internal */
import type { AgentEvent } from "@switchyard/protocol/AgentEvent"
import type { Cursor, SessionKey } from "@switchyard/protocol/Ids"
import type { WaitResult } from "@switchyard/protocol/Run"
import type { SessionInfo } from "@switchyard/protocol/Session"
import type { Happening } from "../EventHub.js"
import type * as RunFacts from "../RunFacts.js"
import type { SessionSummary } from "../TranscriptStore.js"

/** @internal */
export const toInfo = (summary: SessionSummary): SessionInfo => ({
  sessionKey: summary.session,
  sessionId: summary.sessionId,
  createdAt: summary.createdAt,
  updatedAt: summary.updatedAt,
  lastSeq: summary.last,
  waiting: summary.waiting,
  activeRunId: summary.activeRun
})

/** @internal */
export const pending = (run: RunFacts.RunFacts): WaitResult & { readonly settled: false } => ({
  runId: run.runId,
  status: "timeout",
  settled: false,
  ...(run.startedAt === undefined ? {} : { startedAt: run.startedAt })
})

/**
 * The event that ends a run, from what a wait for it answers.
 *
 * @internal
 */
export const terminal = (result: WaitResult, detached?: true): Extract<Happening, { readonly stream: "lifecycle" }> => {
  const { delivery, endedAt, error, mergedInto, outcome, reply, startedAt, status, usage } = result
  return {
    stream: "lifecycle",
    data: {
      type: status === "ok" ? "end" : "error",
      outcome: outcome ?? "failed",
      endedAt: endedAt ?? 0,
      ...(startedAt === undefined ? {} : { startedAt }),
      ...(error === undefined ? {} : { error }),
      ...(reply === undefined ? {} : { reply }),
      ...(usage === undefined ? {} : { usage }),
      ...(mergedInto === undefined ? {} : { mergedInto }),
      ...(delivery === undefined ? {} : { delivery }),
      ...(detached === undefined ? {} : { detached })
    }
  }
}

/**
 * The event that ends a run whose own events are kept no more.
 *
 * @internal
 */
export const terminalEvent = (sessionKey: SessionKey, result: WaitResult): AgentEvent => ({
  runId: result.runId,
  sessionKey,
  seq: 1,
  cursor: "journal:0:0:0" as Cursor,
  ts: result.endedAt ?? 0,
  ...terminal(result)
})
