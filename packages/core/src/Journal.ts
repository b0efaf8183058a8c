/**
 * The journal of a session: the one truth from which queue, transcript and runs are folded.
 *
 * What decides the queue (kind, run, into, mode, authority) is in columns of a row; `payload` is content, as JSON text.
 * A row whose payload cannot be read is still decided by its columns.
 *
 * @since 0.1.0
 */
import * as Prompt from "@effect/ai/Prompt"
import { type RunId, SessionId, type SessionKey } from "@switchyard/protocol/Ids"
import { Route, Sender, Usage } from "@switchyard/protocol/Message"
import { DeliveryStatus, Disposition, Outcome, RunError } from "@switchyard/protocol/Run"
import { Attachment, type QueueMode } from "@switchyard/protocol/Submission"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { Authority } from "./Authority.js"

/**
 * The kinds of entries.
 *
 * - `opened`: a session id begins; always the first entry
 * - `accepted`: a message is durable and waits; `run` is its id, `into` the run that was active then, if it matters
 *   (the run that a steer will enter, or that an interrupt ends)
 * - `started`: a run begins to execute
 * - `consumed`: a message left the queue and stands in the transcript as a user message; `into` is the run it entered
 * - `assistant`: a message of the model that asks for tools or was followed by more
 * - `reply`: the last message of the model in a run
 * - `tool_result`: the results of tool calls
 * - `note`: something Switchyard tells the model and the reader
 * - `cancelled`: a waiting message was removed
 * - `abort_requested`: the run will be settled `aborted`, whatever happens
 * - `delivery_started`: the reply is on its way to its route
 * - `settled`: the run has its outcome
 *
 * @since 0.1.0
 * @category models
 */
export const kinds = [
  "opened",
  "accepted",
  "started",
  "consumed",
  "assistant",
  "reply",
  "tool_result",
  "note",
  "cancelled",
  "abort_requested",
  "delivery_started",
  "settled"
] as const
/**
 * @since 0.1.0
 * @category models
 */
export type Kind = (typeof kinds)[number]

/**
 * The kinds that {@link TranscriptStore.findRun} returns: what decides a run, and its last answer.
 *
 * @since 0.1.0
 * @category models
 */
export const runKinds: ReadonlyArray<Kind> = [
  "accepted",
  "started",
  "consumed",
  "reply",
  "cancelled",
  "abort_requested",
  "delivery_started",
  "settled"
]

/**
 * One row as a store keeps it. `seq` counts from 1 without gaps within a session. `activation` names the owner that
 * wrote it. `at` is milliseconds since the epoch, for people; order is by `seq` alone.
 *
 * @since 0.1.0
 * @category models
 */
export interface Row {
  readonly session: SessionKey
  readonly seq: number
  readonly activation: string
  readonly generation: number
  readonly kind: Kind
  readonly run: RunId | null
  readonly into: RunId | null
  readonly mode: QueueMode | "command" | null
  readonly authority: string | null
  readonly at: number
  readonly payload: string
}

/**
 * Settings of one run that come with its message. `timeoutMs` is its deadline, 0 for none, null for the default.
 *
 * @since 0.1.0
 * @category models
 */
export const ExecutionSettings = Schema.Struct({
  timeoutMs: Schema.NullOr(Schema.Number),
  model: Schema.NullOr(Schema.String)
})
/**
 * @since 0.1.0
 * @category models
 */
export type ExecutionSettings = typeof ExecutionSettings.Type

/**
 * Why a run is ended early.
 *
 * @since 0.1.0
 * @category models
 */
export const AbortCause = Schema.Literal("abort", "stop", "interrupt", "clear")
/**
 * @since 0.1.0
 * @category models
 */
export type AbortCause = typeof AbortCause.Type

/**
 * Why an assistant message ends early.
 *
 * @since 0.1.0
 * @category models
 */
export const Cut = Schema.Literal("aborted", "deadline", "failed", "interrupted", "length")
/**
 * @since 0.1.0
 * @category models
 */
export type Cut = typeof Cut.Type

const assistantPayload = Schema.Struct({
  message: Schema.encodedSchema(Prompt.AssistantMessage),
  cut: Schema.optional(Cut)
})

/**
 * The payload of each kind.
 *
 * An `accepted` payload's `digest` tells a replay from a conflict. A `consumed` payload's `collected` is the message's
 * place among those that were collected into one run.
 *
 * @since 0.1.0
 * @category models
 */
export const payloads = {
  opened: Schema.Struct({ sessionId: SessionId }),
  accepted: Schema.Struct({
    text: Schema.String,
    attachments: Schema.Array(Attachment),
    disposition: Disposition,
    digest: Schema.String,
    authority: Authority,
    route: Schema.NullOr(Route),
    sender: Schema.NullOr(Sender),
    settings: ExecutionSettings,
    debounceMs: Schema.Number
  }),
  started: Schema.Struct({ startedAt: Schema.Number }),
  consumed: Schema.Struct({
    message: Schema.encodedSchema(Prompt.UserMessage),
    sender: Schema.optional(Sender),
    collected: Schema.optional(Schema.Struct({ index: Schema.Int, of: Schema.Int }))
  }),
  assistant: assistantPayload,
  reply: assistantPayload,
  tool_result: Schema.Struct({ message: Schema.encodedSchema(Prompt.ToolMessage) }),
  note: Schema.Struct({ text: Schema.String }),
  cancelled: Schema.Struct({ cause: AbortCause }),
  abort_requested: Schema.Struct({ cause: AbortCause }),
  delivery_started: Schema.Struct({ route: Route }),
  settled: Schema.Struct({
    outcome: Outcome,
    startedAt: Schema.Number,
    error: Schema.optional(RunError),
    usage: Schema.optional(Usage),
    delivery: Schema.optional(DeliveryStatus),
    detached: Schema.optional(Schema.Literal(true)),
    reply: Schema.optional(Schema.String)
  })
} satisfies Record<Kind, Schema.Schema.AnyNoContext>

/**
 * @since 0.1.0
 * @category models
 */
export type Payloads = { readonly [K in Kind]: (typeof payloads)[K]["Type"] }

/**
 * An entry as the session's machine makes it, before it has a place. A payload of `undefined` is one that a store held
 * and that could not be read.
 *
 * @since 0.1.0
 * @category models
 */
export type Entry = {
  readonly [K in Kind]: {
    readonly kind: K
    readonly run: RunId | null
    readonly into: RunId | null
    readonly mode: QueueMode | "command" | null
    readonly authority: string | null
    readonly at: number
    readonly payload: Payloads[K] | undefined
  }
}[Kind]

/**
 * An entry of one kind.
 *
 * @since 0.1.0
 * @category models
 */
export type EntryOf<K extends Kind> = Extract<Entry, { readonly kind: K }>

/**
 * Makes an entry. Columns that are not given are null.
 *
 * @since 0.1.0
 * @category constructors
 */
export const entry = <K extends Kind>(
  kind: K,
  at: number,
  payload: Payloads[K],
  columns?: {
    readonly run?: RunId | null
    readonly into?: RunId | null
    readonly mode?: QueueMode | "command" | null
    readonly authority?: string | null
  }
): EntryOf<K> =>
  ({
    kind,
    at,
    payload,
    run: columns?.run ?? null,
    into: columns?.into ?? null,
    mode: columns?.mode ?? null,
    authority: columns?.authority ?? null
  }) as EntryOf<K>

/**
 * Gives entries their places after `follows` and writes their payloads as JSON.
 *
 * @since 0.1.0
 * @category encoding
 */
export const toRows = (options: {
  readonly session: SessionKey
  readonly activation: string
  readonly generation: number
  readonly follows: number
  readonly entries: ReadonlyArray<Entry>
}): ReadonlyArray<Row> =>
  options.entries.map((entry, index) => ({
    session: options.session,
    seq: options.follows + index + 1,
    activation: options.activation,
    generation: options.generation,
    kind: entry.kind,
    run: entry.run,
    into: entry.into,
    mode: entry.mode,
    authority: entry.authority,
    at: entry.at,
    payload: JSON.stringify(entry.payload)
  }))

const readers = Object.fromEntries(
  kinds.map((kind) => [kind, Schema.decodeUnknownOption(Schema.parseJson(payloads[kind] as Schema.Schema<unknown>))])
) as Record<Kind, (payload: string) => Option.Option<unknown>>

/**
 * Reads a row. Its columns are taken as they are; a payload that cannot be read becomes `undefined` and decides nothing.
 *
 * @since 0.1.0
 * @category decoding
 */
export const fromRow = (row: Row): Entry =>
  ({
    kind: row.kind,
    run: row.run,
    into: row.into,
    mode: row.mode,
    authority: row.authority,
    at: row.at,
    payload: Option.getOrUndefined(readers[row.kind]?.(row.payload) ?? Option.none())
  }) as Entry
