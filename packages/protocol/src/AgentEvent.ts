/**
 * What happens in a session, as a stream of events.
 *
 * `seq` counts from 1 within one run and activation. A delta that stands for several (a slow reader, a resumed stream)
 * spans `fromSeq` to `seq`. `cursor` is a position to resume from. `ts` is milliseconds since the epoch.
 *
 * Exactly one terminal `lifecycle` event (`end` or `error`) ends each run, after all its other events. To one follower,
 * the `assistant` deltas since the last `reset` concatenate to exactly the text.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { Cursor, RunId, SessionKey } from "./Ids.js"
import { Usage } from "./Message.js"
import { DeliveryStatus, Disposition, Outcome, RunError } from "./Run.js"

const envelope = {
  runId: Schema.NullOr(RunId),
  sessionKey: SessionKey,
  seq: Schema.Int,
  fromSeq: Schema.optional(Schema.Int),
  cursor: Cursor,
  ts: Schema.Finite
}

/**
 * The data of an event, by stream.
 *
 * - `lifecycle`: `start`, then one of `end` (completed) and `error` (every other outcome)
 * - `assistant`: `delta` carries new text, `text` the whole message once it ended, `reset` says that the text so far
 *   does not count
 * - `reasoning`: like `assistant`
 * - `tool`: `start`, `update`, `end`, in the order in which things happen
 * - `reply`: `final` is what is shown or delivered to the user
 * - `queue`: what happened to one message
 * - `stream`: `reset`: earlier events are not available; `text` is the open message so far
 *
 * @since 0.1.0
 * @category models
 */
export const AgentEvent = Schema.Union(
  Schema.Struct({
    ...envelope,
    stream: Schema.Literal("lifecycle"),
    data: Schema.Union(
      Schema.Struct({ type: Schema.Literal("start"), startedAt: Schema.Finite }),
      Schema.Struct({
        type: Schema.Literal("end", "error"),
        outcome: Outcome,
        startedAt: Schema.optional(Schema.Finite),
        endedAt: Schema.Finite,
        error: Schema.optional(RunError),
        reply: Schema.optional(Schema.String),
        usage: Schema.optional(Usage),
        mergedInto: Schema.optional(RunId),
        delivery: Schema.optional(DeliveryStatus),
        detached: Schema.optional(Schema.Literal(true))
      })
    )
  }),
  Schema.Struct({
    ...envelope,
    stream: Schema.Literal("assistant", "reasoning"),
    data: Schema.Union(
      Schema.Struct({ type: Schema.Literal("delta"), text: Schema.String }),
      Schema.Struct({ type: Schema.Literal("text"), text: Schema.String }),
      Schema.Struct({ type: Schema.Literal("reset") })
    )
  }),
  Schema.Struct({
    ...envelope,
    stream: Schema.Literal("tool"),
    data: Schema.Union(
      Schema.Struct({
        type: Schema.Literal("start"),
        callId: Schema.String,
        name: Schema.String,
        params: Schema.Unknown
      }),
      Schema.Struct({
        type: Schema.Literal("update"),
        callId: Schema.String,
        name: Schema.String,
        text: Schema.String
      }),
      Schema.Struct({
        type: Schema.Literal("end"),
        callId: Schema.String,
        name: Schema.String,
        isError: Schema.Boolean,
        text: Schema.String
      })
    )
  }),
  Schema.Struct({
    ...envelope,
    stream: Schema.Literal("reply"),
    data: Schema.Struct({ type: Schema.Literal("final"), text: Schema.String })
  }),
  Schema.Struct({
    ...envelope,
    stream: Schema.Literal("queue"),
    data: Schema.Union(
      Schema.Struct({ type: Schema.Literal("accepted"), disposition: Disposition }),
      Schema.Struct({ type: Schema.Literal("steered", "merged"), into: RunId }),
      Schema.Struct({ type: Schema.Literal("cancelled") })
    )
  }),
  Schema.Struct({
    ...envelope,
    stream: Schema.Literal("stream"),
    data: Schema.Struct({
      type: Schema.Literal("reset"),
      lastSeq: Schema.Int,
      text: Schema.String,
      activeRunId: Schema.NullOr(RunId),
      waiting: Schema.Array(RunId)
    })
  })
)
/**
 * @since 0.1.0
 * @category models
 */
export type AgentEvent = typeof AgentEvent.Type

/**
 * Whether the event ends its run.
 *
 * @since 0.1.0
 * @category guards
 */
export const isTerminal = (event: AgentEvent): boolean => event.stream === "lifecycle" && event.data.type !== "start"
