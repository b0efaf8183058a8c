/**
 * What a caller learns about a run: the answer to a submission, the result of a wait, the answer to an abort.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { RunId, SessionId, SessionKey } from "./Ids.js"
import { Usage } from "./Message.js"

/**
 * What an accepted message is about to do.
 *
 * - `started`: its run starts now
 * - `steering`: it enters the active run at its next boundary
 * - `queued`: it waits for its turn
 * - `collecting`: it waits for others, to be answered together
 * - `interrupting`: the active run ends for it
 * - `command`: it was a command, and is done
 *
 * @since 0.1.0
 * @category models
 */
export const Disposition = Schema.Literal("started", "steering", "queued", "collecting", "interrupting", "command")
/**
 * @since 0.1.0
 * @category models
 */
export type Disposition = typeof Disposition.Type

/**
 * The answer to a submission: the message is durable. `acceptedAt` is milliseconds since the epoch. `replayed` is set
 * when the same message was accepted before under this id.
 *
 * @since 0.1.0
 * @category models
 */
export const Accepted = Schema.Struct({
  runId: RunId,
  sessionKey: SessionKey,
  sessionId: SessionId,
  acceptedAt: Schema.Finite,
  disposition: Disposition,
  replayed: Schema.optional(Schema.Literal(true))
})
/**
 * @since 0.1.0
 * @category models
 */
export type Accepted = typeof Accepted.Type

/**
 * How a run ended, for ever.
 *
 * @since 0.1.0
 * @category models
 */
export const Outcome = Schema.Literal(
  "completed",
  "failed",
  "aborted",
  "deadline",
  "merged",
  "dropped",
  "cancelled",
  "interrupted"
)
/**
 * @since 0.1.0
 * @category models
 */
export type Outcome = typeof Outcome.Type

/**
 * Why a run did not complete: a code to branch on, and a sentence for a person.
 *
 * @since 0.1.0
 * @category models
 */
export const RunError = Schema.Struct({ code: Schema.String, message: Schema.String })
/**
 * @since 0.1.0
 * @category models
 */
export type RunError = typeof RunError.Type

/**
 * What became of sending the reply to its route.
 *
 * @since 0.1.0
 * @category models
 */
export const DeliveryStatus = Schema.Literal("confirmed", "failed", "unknown")
/**
 * @since 0.1.0
 * @category models
 */
export type DeliveryStatus = typeof DeliveryStatus.Type

/**
 * The answer of a wait. `status` is `ok` for a completed run, `timeout` when the wait was over first (`settled: false`)
 * or the run's own deadline ended it (`settled: true`), else `error` with a code. Times are milliseconds since the
 * epoch. A merged message has the status and times of the run in `mergedInto`.
 *
 * @since 0.1.0
 * @category models
 */
export const WaitResult = Schema.Struct({
  runId: RunId,
  status: Schema.Literal("ok", "error", "timeout"),
  settled: Schema.Boolean,
  outcome: Schema.optional(Outcome),
  startedAt: Schema.optional(Schema.Finite),
  endedAt: Schema.optional(Schema.Finite),
  error: Schema.optional(RunError),
  reply: Schema.optional(Schema.String),
  mergedInto: Schema.optional(RunId),
  usage: Schema.optional(Usage),
  delivery: Schema.optional(DeliveryStatus)
})
/**
 * @since 0.1.0
 * @category models
 */
export type WaitResult = typeof WaitResult.Type

/**
 * The answer to an abort.
 *
 * - `aborting`: the wish is durable, the run is ending
 * - `cancelled`: the message waited, and will not run
 * - `delivering`: too late, its reply is on its way and the run will complete
 * - `settled`: it had ended before, with `outcome`; nothing was recorded
 *
 * @since 0.1.0
 * @category models
 */
export const AbortResult = Schema.Struct({
  runId: RunId,
  status: Schema.Literal("aborting", "cancelled", "delivering", "settled"),
  outcome: Schema.optional(Outcome)
})
/**
 * @since 0.1.0
 * @category models
 */
export type AbortResult = typeof AbortResult.Type

/**
 * The answer to a stop of a session: the run that is ending, if there was one, and the waiting messages that were
 * cancelled.
 *
 * @since 0.1.0
 * @category models
 */
export const StopResult = Schema.Struct({
  sessionKey: SessionKey,
  aborted: Schema.NullOr(RunId),
  cancelled: Schema.Array(RunId)
})
/**
 * @since 0.1.0
 * @category models
 */
export type StopResult = typeof StopResult.Type
