/**
 * The session's machine: what a message, an abort, a boundary or the end of a run does. Pure: a state and an event give
 * the next state, the entries to commit, the commands to carry out once they are, and the answer for whoever asked.
 *
 * Entries are already part of the next state. Whoever drives the machine commits them in order; where a commit fails, it
 * goes back to the state before and steps the later events again.
 *
 *             ┌────────────── Submit, timer ──────────────┐
 *             │                                           ▼
 *           idle ──▶ starting ──first boundary──▶ running ──last boundary──▶ closed
 *             ▲         │ End                        │ End                     │ End
 *             └─────────┴────────────────────────────┴─────────────────────────┘
 *
 * @since 0.1.0
 */
import type { RunId, SessionId } from "@switchyard/protocol/Ids"
import type { Route, Sender } from "@switchyard/protocol/Message"
import type { Disposition } from "@switchyard/protocol/Run"
import type { Attachment, QueueMode } from "@switchyard/protocol/Submission"
import type * as Authority from "./Authority.js"
import * as machine from "./internal/queueMachine.js"
import type * as Journal from "./Journal.js"
import type * as SessionState from "./SessionState.js"

/**
 * What the machine is told about its session. Times are milliseconds.
 *
 * @since 0.1.0
 * @category models
 */
export interface Limits {
  /** Longest time that a collect group stays open after its first message. */
  readonly collectMaxWaitMs: number
  /** How many waiting steers enter at one boundary. */
  readonly steering: "all" | "one"
  /** What a steer does to tools that have not begun: skip them, or let them finish first. */
  readonly steerTools: "skip" | "finish"
}

/**
 * Why a run is ended before its time. Only the causes of {@link Journal.AbortCause} are aborts.
 *
 * @since 0.1.0
 * @category models
 */
export type EndCause = Journal.AbortCause | "deadline" | "shutdown"

/**
 * The run that has the session. `group` are the messages it was started for, its own last. `token` is its right to
 * append. `closed` means past the last boundary: no steer enters any more.
 *
 * @since 0.1.0
 * @category models
 */
export interface Active {
  readonly runId: RunId
  readonly group: ReadonlyArray<RunId>
  readonly authority: string
  readonly token: number
  readonly phase: "starting" | "running" | "closed"
  readonly ending: EndCause | null
  readonly startedAt: number
}

/**
 * @since 0.1.0
 * @category models
 */
export interface State {
  readonly session: SessionState.SessionState
  /** The id that the session gets with its first entry. */
  readonly freshId: SessionId
  readonly active: Active | null
  readonly tokens: number
  /** When the quiet window of the group at the head is over, in monotonic milliseconds. */
  readonly due: number | null
  readonly draining: boolean
}

/**
 * The state of an activation that begins with what the journal says.
 *
 * @since 0.1.0
 * @category constructors
 */
export const initial = (session: SessionState.SessionState, freshId: SessionId): State => ({
  session,
  freshId,
  active: null,
  tokens: 0,
  due: null,
  draining: false
})

/**
 * A message at the door, with everything about it decided but what it does.
 *
 * @since 0.1.0
 * @category models
 */
export interface Offer {
  readonly runId: RunId
  readonly text: string
  readonly attachments: ReadonlyArray<Attachment>
  readonly mode: QueueMode
  readonly route: Route | null
  readonly sender: Sender | null
  readonly authority: Authority.Authority
  readonly settings: Journal.ExecutionSettings
  readonly debounceMs: number
  readonly clearQueued: boolean
  readonly digest: string
}

/**
 * `now` is wall-clock milliseconds, for the record; `mono` is monotonic milliseconds, for every decision.
 *
 * @since 0.1.0
 * @category models
 */
export interface Instant {
  readonly now: number
  readonly mono: number
}

/**
 * What can happen to a session.
 *
 * - `Recover`: first event of an activation; closes what a dead owner left open
 * - `Submit`: a message; `covered` names the signal that came later and already removes it
 * - `Abort`, `Stop`: signals; a stop may be the command of a message
 * - `Boundary`: the active run may take steers. `first` consumes its own messages, `step` comes before a model call,
 *   `launch` before tools run (`skipped` are the results to store if a steer skips them), `last` ends the run unless a
 *   steer keeps it going (`reply` becomes its last message)
 * - `Append`: messages of the active run
 * - `End`: the run ended otherwise, or its delivery is over
 * - `Deadline`, `Timer`, `Drain`
 *
 * @since 0.1.0
 * @category models
 */
export type Event =
  & Instant
  & (
    | { readonly _tag: "Recover"; readonly outcome: "interrupted" | "failed" }
    | { readonly _tag: "Submit"; readonly offer: Offer; readonly covered: "abort" | "stop" | null }
    | { readonly _tag: "Abort"; readonly runId: RunId }
    | { readonly _tag: "Stop"; readonly clearQueued: boolean; readonly command: Offer | null }
    | { readonly _tag: "Boundary"; readonly token: number; readonly boundary: Boundary }
    | { readonly _tag: "Append"; readonly token: number; readonly entries: ReadonlyArray<Journal.Entry> }
    | { readonly _tag: "End"; readonly token: number; readonly end: End }
    | { readonly _tag: "Deadline"; readonly token: number }
    | { readonly _tag: "Timer" }
    | { readonly _tag: "Drain" }
  )

/**
 * @since 0.1.0
 * @category models
 */
export type Boundary =
  | { readonly _tag: "first" }
  | { readonly _tag: "step" }
  | { readonly _tag: "launch"; readonly skipped: ReadonlyArray<Journal.Entry> }
  | {
    readonly _tag: "last"
    readonly reply: Journal.Payloads["reply"]
    readonly route: Route | null
    readonly usage: Journal.Payloads["settled"]["usage"]
  }

/**
 * How a run ended. `reply` is its last (partial) message; `results` are results for its open calls.
 *
 * @since 0.1.0
 * @category models
 */
export interface End {
  readonly outcome: "completed" | "failed" | "deadline" | "interrupted" | "aborted"
  readonly results: ReadonlyArray<Journal.Entry>
  readonly reply: Journal.Payloads["reply"] | null
  readonly note: string | null
  readonly error?: Journal.Payloads["settled"]["error"]
  readonly usage?: Journal.Payloads["settled"]["usage"]
  readonly delivery?: Journal.Payloads["settled"]["delivery"]
  readonly detached?: true
}

/**
 * What to carry out once the entries are committed. `AbortRun` is carried out at once: a stop does not wait for a disk.
 *
 * @since 0.1.0
 * @category models
 */
export type Command =
  | {
    readonly _tag: "StartRun"
    readonly runId: RunId
    readonly token: number
    readonly startedAt: number
    readonly rows: ReadonlyArray<SessionState.WaitingRow>
  }
  | { readonly _tag: "AbortRun"; readonly token: number; readonly cause: EndCause }

/**
 * The answer for whoever asked.
 *
 * - `Accepted`; `Known`: the id is in the journal, which has the answer; `Draining`: refused
 * - `Aborting`, `Cancelled`, `Delivering`, `Merged`, `Elsewhere` (not in this state: the journal has the answer)
 * - `Stopped`
 * - `Entered`: the messages now in the transcript; `Closed`: the run is past its last boundary, `settled` if it is over
 * - `Revoked`: the token is void, nothing was written
 *
 * @since 0.1.0
 * @category models
 */
export type Reply =
  | { readonly _tag: "Accepted"; readonly acceptedAt: number; readonly disposition: Disposition }
  | { readonly _tag: "Known" }
  | { readonly _tag: "Draining" }
  | { readonly _tag: "Aborting" }
  | { readonly _tag: "Cancelled" }
  | { readonly _tag: "Delivering" }
  | { readonly _tag: "Merged"; readonly into: RunId }
  | { readonly _tag: "Elsewhere" }
  | { readonly _tag: "Stopped"; readonly aborted: RunId | null; readonly cancelled: ReadonlyArray<RunId> }
  | { readonly _tag: "Entered"; readonly messages: ReadonlyArray<Journal.EntryOf<"consumed">> }
  | { readonly _tag: "Closed"; readonly settled: boolean }
  | { readonly _tag: "Revoked" }
  | { readonly _tag: "Done" }

/**
 * @since 0.1.0
 * @category models
 */
export interface Step {
  readonly state: State
  readonly entries: ReadonlyArray<Journal.Entry>
  readonly commands: ReadonlyArray<Command>
  readonly reply: Reply
}

/**
 * What the model is told after a run that did not complete.
 *
 * @since 0.1.0
 * @category constants
 */
export const notes: Record<Exclude<End["outcome"], "completed">, string> = machine.notes

/**
 * One step of the machine.
 *
 * @since 0.1.0
 * @category machine
 */
export const step: (limits: Limits, state: State, event: Event) => Step = machine.step
