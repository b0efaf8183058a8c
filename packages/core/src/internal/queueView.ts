/** @internal */
import type { SessionKey } from "@switchyard/protocol/Ids"
import type { ActiveRun, QueueView } from "@switchyard/protocol/Session"
import type * as QueuePolicy from "../QueuePolicy.js"
import { shorten } from "./text.js"

/** @internal */
export const previewLength = 160

/**
 * What a person is shown of a queue.
 *
 * @internal
 */
export const queueView = (sessionKey: SessionKey, state: QueuePolicy.State, prepared: boolean): QueueView => {
  const { active, session } = state
  const rows = session.rows.filter((row) => !active?.group.includes(row.runId))
  return {
    sessionKey,
    active: active === null ? null : {
      runId: active.runId,
      phase: phase(active, prepared),
      startedAt: active.startedAt,
      merged: session.open?.members ?? active.group.filter((runId) => runId !== active.runId)
    },
    rows: rows.map((row, index) => ({
      runId: row.runId,
      place: index + 1,
      mode: row.mode,
      acceptedAt: row.acceptedAt,
      preview: preview(row.payload?.text ?? ""),
      boundTo: row.boundTo === active?.runId ? row.boundTo : null
    }))
  }
}

const phase = (active: QueuePolicy.Active, prepared: boolean): ActiveRun["phase"] => {
  if (active.phase === "closed") return "delivering"
  if (active.ending !== null) return "ending"
  if (active.phase === "running") return "running"
  return prepared ? "preparing" : "waiting"
}

const preview = (text: string): string => shorten(text.replace(/\s+/g, " ").trim(), previewLength)
