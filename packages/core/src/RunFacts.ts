/**
 * What the journal says of one run, from the rows that `TranscriptStore.findRun` gives.
 *
 * @since 0.1.0
 */
import type { RunId, SessionId, SessionKey } from "@switchyard/protocol/Ids"
import type { Usage } from "@switchyard/protocol/Message"
import type { Accepted, DeliveryStatus, Outcome, RunError, WaitResult } from "@switchyard/protocol/Run"
import * as Journal from "./Journal.js"
import { textOf } from "./Transcript.js"

/**
 * A run that ended.
 *
 * @since 0.1.0
 * @category models
 */
export interface Settled {
  readonly outcome: Outcome
  readonly startedAt: number | undefined
  readonly endedAt: number
  readonly error: RunError | undefined
  readonly usage: Usage | undefined
  readonly delivery: DeliveryStatus | undefined
}

/**
 * `into` is the run that the message entered, if it is another; its own outcome is then `merged` once that run settles.
 *
 * @since 0.1.0
 * @category models
 */
export interface RunFacts {
  readonly runId: RunId
  readonly sessionKey: SessionKey
  readonly acceptedAt: number
  readonly authority: string | null
  readonly accepted: Journal.Payloads["accepted"] | undefined
  readonly startedAt: number | undefined
  readonly into: RunId | undefined
  readonly reply: string | undefined
  readonly settled: Settled | undefined
}

/**
 * Folds the rows of one run. Undefined if there are none.
 *
 * @since 0.1.0
 * @category folds
 */
export const fromRows = (rows: ReadonlyArray<Journal.Row>): RunFacts | undefined => {
  const first = rows[0]
  if (first === undefined || first.run === null) return undefined
  let facts: RunFacts = {
    runId: first.run,
    sessionKey: first.session,
    acceptedAt: first.at,
    authority: first.authority,
    accepted: undefined,
    startedAt: undefined,
    into: undefined,
    reply: undefined,
    settled: undefined
  }
  for (const row of rows) {
    const entry = Journal.fromRow(row)
    switch (entry.kind) {
      case "accepted":
        facts = { ...facts, accepted: entry.payload }
        break
      case "started":
        facts = { ...facts, startedAt: entry.payload?.startedAt ?? entry.at }
        break
      case "consumed":
        if (entry.into !== null && entry.into !== entry.run) facts = { ...facts, into: entry.into }
        break
      case "reply":
        facts = { ...facts, reply: entry.payload === undefined ? undefined : textOf(entry.payload.message) }
        break
      case "cancelled":
        facts = { ...facts, settled: settled("cancelled", undefined, entry.at) }
        break
      case "settled":
        facts = {
          ...facts,
          reply: entry.payload?.reply ?? facts.reply,
          settled: settledFrom(entry)
        }
        break
    }
  }
  return facts
}

/**
 * An end of which nothing but the outcome is known.
 *
 * @since 0.1.0
 * @category constructors
 */
export const settled = (outcome: Outcome, startedAt: number | undefined, endedAt: number): Settled => ({
  outcome,
  startedAt,
  endedAt,
  error: undefined,
  usage: undefined,
  delivery: undefined
})

/**
 * What a `settled` entry says.
 *
 * @since 0.1.0
 * @category constructors
 */
export const settledFrom = (entry: Journal.EntryOf<"settled">): Settled => ({
  ...settled(entry.payload?.outcome ?? "failed", entry.payload?.startedAt, entry.at),
  error: entry.payload === undefined ? unreadable : entry.payload.error,
  usage: entry.payload?.usage,
  delivery: entry.payload?.delivery
})

const unreadable: RunError = { code: "unreadable", message: "The stored outcome of this run could not be read." }

/**
 * What a wait answers for a run that ended. A merged message (`mergedInto`) has the status, times and reply of the run
 * that it entered.
 *
 * @since 0.1.0
 * @category conversions
 */
export const waitResult = (
  runId: RunId,
  run: { readonly settled: Settled; readonly reply: string | undefined },
  mergedInto?: RunId
): WaitResult => {
  const { delivery, endedAt, error, outcome, startedAt, usage } = run.settled
  const status = outcome === "completed" ? "ok" : outcome === "deadline" ? "timeout" : "error"
  return {
    runId,
    status,
    settled: true,
    outcome: mergedInto === undefined ? outcome : "merged",
    endedAt,
    ...(startedAt === undefined ? {} : { startedAt }),
    ...(status === "error" ? { error: error ?? sentences[outcome] ?? unreadable } : {}),
    ...(run.reply === undefined ? {} : { reply: run.reply }),
    ...(mergedInto === undefined ? {} : { mergedInto }),
    ...(usage === undefined ? {} : { usage }),
    ...(delivery === undefined ? {} : { delivery })
  }
}

const sentences: { readonly [K in Outcome]?: RunError } = {
  failed: { code: "failed", message: "The run failed." },
  aborted: { code: "aborted", message: "The run was stopped." },
  cancelled: { code: "cancelled", message: "The message was removed before it ran." },
  dropped: { code: "dropped", message: "The message was dropped because too many were waiting." },
  interrupted: { code: "interrupted", message: "The program ended while the run was in progress." }
}

/**
 * The stored answer to a submission, given again.
 *
 * @since 0.1.0
 * @category conversions
 */
export const replayed = (facts: RunFacts, sessionId: SessionId): Accepted => ({
  runId: facts.runId,
  sessionKey: facts.sessionKey,
  sessionId,
  acceptedAt: facts.acceptedAt,
  disposition: facts.accepted?.disposition ?? "queued",
  replayed: true
})
