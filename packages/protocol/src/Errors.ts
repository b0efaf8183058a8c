/**
 * Every error that a caller of Switchyard can meet. Each names a fact, says in plain words what to do, and tells by
 * `retryable` whether the same call may succeed later. A refusal recorded nothing.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { Cursor, RunId, SessionId, SessionKey } from "./Ids.js"

const retryable = (value: boolean) =>
  Schema.Boolean.pipe(Schema.propertySignature, Schema.withConstructorDefault(() => value))

// A holder may have written anything into its lock.
const time = (ms: number): string => Math.abs(ms) <= 8.64e15 ? new Date(ms).toISOString() : "an unknown time"

/**
 * A field of the request is missing or malformed. Correct `field` as `reason` says and call again.
 *
 * @since 0.1.0
 * @category errors
 */
export class InvalidRequest extends Schema.TaggedError<InvalidRequest>()("InvalidRequest", {
  field: Schema.String,
  reason: Schema.String,
  retryable: retryable(false)
}) {
  override get message() {
    return `The request is not valid: ${this.field}: ${this.reason}`
  }
}

/**
 * The message or an attachment is larger than `limitBytes`. Send less.
 *
 * @since 0.1.0
 * @category errors
 */
export class PayloadTooLarge extends Schema.TaggedError<PayloadTooLarge>()("PayloadTooLarge", {
  field: Schema.String,
  bytes: Schema.Finite,
  limitBytes: Schema.Finite,
  retryable: retryable(false)
}) {
  override get message() {
    return `${this.field} has ${this.bytes} bytes, and at most ${this.limitBytes} are taken; send less`
  }
}

/**
 * Why a session takes no message right now: its mailbox is full, or another living process owns the session.
 *
 * @since 0.1.0
 * @category models
 */
export const BusyReason = Schema.Union(
  Schema.TaggedStruct("Mailbox", { capacity: Schema.Int }),
  Schema.TaggedStruct("Owner", { pid: Schema.Int, host: Schema.String, since: Schema.Finite })
)
/**
 * @since 0.1.0
 * @category models
 */
export type BusyReason = typeof BusyReason.Type

/**
 * The session takes no message right now. Nothing was recorded: send the same message again after `retryAfterMs`, or,
 * if another process owns the session, to that process.
 *
 * @since 0.1.0
 * @category errors
 */
export class SessionBusy extends Schema.TaggedError<SessionBusy>()("SessionBusy", {
  sessionKey: SessionKey,
  reason: BusyReason,
  retryAfterMs: Schema.optional(Schema.Finite),
  retryable: retryable(true)
}) {
  override get message() {
    return this.reason._tag === "Mailbox"
      ? `Session "${this.sessionKey}" already has ${this.reason.capacity} messages at its door; send the message again in a moment`
      : `Session "${this.sessionKey}" is in use by process ${this.reason.pid} on ${this.reason.host} since ` +
        `${time(this.reason.since)}; send the message to that process, or end it first`
  }
}

/**
 * The store did not commit within its limit, and the append was withdrawn or is known not to be committed. The same
 * call, with the same id, may succeed later.
 *
 * @since 0.1.0
 * @category errors
 */
export class StoreUnavailable extends Schema.TaggedError<StoreUnavailable>()("StoreUnavailable", {
  reason: Schema.String,
  retryAfterMs: Schema.optional(Schema.Finite),
  retryable: retryable(true)
}) {
  override get message() {
    return `The message store does not answer: ${this.reason}; nothing was recorded, send the message again with the same id`
  }
}

/**
 * The session id named is a past span of the session: the session was reset since. Use the session key, or the id in
 * `currentSessionId`.
 *
 * @since 0.1.0
 * @category errors
 */
export class SessionRotated extends Schema.TaggedError<SessionRotated>()("SessionRotated", {
  sessionId: SessionId,
  currentSessionId: SessionId,
  retryable: retryable(false)
}) {
  override get message() {
    return `Session id ${this.sessionId} has ended; the session goes on as ${this.currentSessionId}`
  }
}

/**
 * The gateway is shutting down and takes no new work. Nothing was recorded: send the message again, with the same id,
 * once it is back.
 *
 * @since 0.1.0
 * @category errors
 */
export class GatewayDraining extends Schema.TaggedError<GatewayDraining>()("GatewayDraining", {
  retryAfterMs: Schema.optional(Schema.Finite),
  retryable: retryable(true)
}) {
  override get message() {
    return "The gateway is shutting down and takes no new messages; send the message again once it is back"
  }
}

/**
 * The id was used before with other content, another session or another authority. Use a new id.
 *
 * @since 0.1.0
 * @category errors
 */
export class IdempotencyConflict extends Schema.TaggedError<IdempotencyConflict>()("IdempotencyConflict", {
  runId: RunId,
  retryable: retryable(false)
}) {
  override get message() {
    return `The id ${this.runId} was used before for another message; send this one with a new id`
  }
}

/**
 * No run of this id was ever accepted here. Check the id.
 *
 * @since 0.1.0
 * @category errors
 */
export class RunNotFound extends Schema.TaggedError<RunNotFound>()("RunNotFound", {
  runId: Schema.String,
  retryable: retryable(false)
}) {
  override get message() {
    return `There is no run ${this.runId}; check the id`
  }
}

/**
 * No session of this key or id exists. Check it, or send it a message, which creates it.
 *
 * @since 0.1.0
 * @category errors
 */
export class SessionNotFound extends Schema.TaggedError<SessionNotFound>()("SessionNotFound", {
  session: Schema.String,
  retryable: retryable(false)
}) {
  override get message() {
    return `There is no session "${this.session}"; a first message creates it`
  }
}

/**
 * The message is already part of the run `into` and cannot be stopped alone. Abort that run instead.
 *
 * @since 0.1.0
 * @category errors
 */
export class AlreadyMerged extends Schema.TaggedError<AlreadyMerged>()("AlreadyMerged", {
  runId: RunId,
  into: RunId,
  retryable: retryable(false)
}) {
  override get message() {
    return `Message ${this.runId} is already part of run ${this.into}; abort that run instead`
  }
}

/**
 * The subscriber read too slowly and was closed. Subscribe again with `after: cursor`.
 *
 * @since 0.1.0
 * @category errors
 */
export class SubscriberTooSlow extends Schema.TaggedError<SubscriberTooSlow>()("SubscriberTooSlow", {
  cursor: Schema.NullOr(Cursor),
  retryable: retryable(true)
}) {
  override get message() {
    return "The event stream was closed because its reader was too slow; follow again from the last cursor"
  }
}

/**
 * A configuration value is not usable. Correct `key`.
 *
 * @since 0.1.0
 * @category errors
 */
export class InvalidConfig extends Schema.TaggedError<InvalidConfig>()("InvalidConfig", {
  key: Schema.String,
  value: Schema.String,
  reason: Schema.String,
  retryable: retryable(false)
}) {
  override get message() {
    return `The setting ${this.key} cannot be ${this.value}: ${this.reason}`
  }
}

/**
 * What a submission can be refused with.
 *
 * @since 0.1.0
 * @category errors
 */
export const SubmitError = Schema.Union(
  InvalidRequest,
  PayloadTooLarge,
  SessionBusy,
  StoreUnavailable,
  SessionRotated,
  GatewayDraining,
  IdempotencyConflict
)
/**
 * @since 0.1.0
 * @category errors
 */
export type SubmitError = typeof SubmitError.Type

/**
 * What waiting for a run can fail with. The wait being over is not an error.
 *
 * @since 0.1.0
 * @category errors
 */
export const WaitError = Schema.Union(InvalidRequest, RunNotFound, StoreUnavailable)
/**
 * @since 0.1.0
 * @category errors
 */
export type WaitError = typeof WaitError.Type

/**
 * What aborting one run can fail with.
 *
 * @since 0.1.0
 * @category errors
 */
export const AbortError = Schema.Union(
  InvalidRequest,
  RunNotFound,
  AlreadyMerged,
  SessionBusy,
  StoreUnavailable,
  GatewayDraining
)
/**
 * @since 0.1.0
 * @category errors
 */
export type AbortError = typeof AbortError.Type

/**
 * What stopping a session can fail with.
 *
 * @since 0.1.0
 * @category errors
 */
export const StopError = Schema.Union(InvalidRequest, SessionNotFound, SessionBusy, StoreUnavailable, GatewayDraining)
/**
 * @since 0.1.0
 * @category errors
 */
export type StopError = typeof StopError.Type

/**
 * What following events can fail with.
 *
 * @since 0.1.0
 * @category errors
 */
export const EventsError = Schema.Union(InvalidRequest, RunNotFound, SubscriberTooSlow, StoreUnavailable)
/**
 * @since 0.1.0
 * @category errors
 */
export type EventsError = typeof EventsError.Type

/**
 * What reading sessions can fail with.
 *
 * @since 0.1.0
 * @category errors
 */
export const ReadError = Schema.Union(InvalidRequest, SessionNotFound, StoreUnavailable)
/**
 * @since 0.1.0
 * @category errors
 */
export type ReadError = typeof ReadError.Type
