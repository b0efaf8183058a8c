/**
 * What callers hold of a session's actor.
 *
 * @since 0.1.0
 */
import type { SessionBusy, StoreUnavailable } from "@switchyard/protocol/Errors"
import type { RunId, SessionId, SessionKey } from "@switchyard/protocol/Ids"
import type { QueueView } from "@switchyard/protocol/Session"
import * as Data from "effect/Data"
import type * as Effect from "effect/Effect"
import type * as QueuePolicy from "./QueuePolicy.js"
import type { RunIdTaken } from "./TranscriptStore.js"

/**
 * The actor ended before it could answer. Open the session again and ask again: a message keeps its run id.
 *
 * @since 0.1.0
 * @category errors
 */
export class ActorGone extends Data.TaggedError("ActorGone")<{ readonly session: SessionKey }> {}

/**
 * Another owner wrote to the session: this activation writes nothing more and ends.
 *
 * @since 0.1.0
 * @category errors
 */
export class SessionSuperseded extends Data.TaggedError("SessionSuperseded")<{ readonly session: SessionKey }> {
  override get message() {
    return `Session "${this.session}" has another owner now`
  }
}

/**
 * Told that a message is with its actor, and that the actor answered, also when its caller is gone by then.
 *
 * @since 0.1.0
 * @category models
 */
export interface Answered {
  readonly asked: () => void
  readonly done: () => void
}

/**
 * What callers hold of an actor. Interrupting a caller changes nothing about what it asked for.
 *
 * @since 0.1.0
 * @category models
 */
export interface SessionRef {
  readonly sessionId: SessionId
  /** Gives the session a message. Refused at once when the mailbox is full. */
  readonly submit: (
    offer: QueuePolicy.Offer,
    answered?: Answered
  ) => Effect.Effect<QueuePolicy.Reply, SessionBusy | StoreUnavailable | RunIdTaken | ActorGone>
  readonly abort: (
    runId: RunId
  ) => Effect.Effect<QueuePolicy.Reply, StoreUnavailable | RunIdTaken | ActorGone>
  /** Ends the run, and with `clearQueued` cancels what was submitted before. `command` is the message that asked for it. */
  readonly stop: (options: {
    readonly clearQueued: boolean
    readonly command: QueuePolicy.Offer | null
    readonly answered?: Answered | undefined
  }) => Effect.Effect<QueuePolicy.Reply, StoreUnavailable | RunIdTaken | ActorGone>
  readonly queue: Effect.Effect<QueueView>
  readonly isRunning: Effect.Effect<boolean>
  /** Whether the run waits, is active, or is merged into the active one, as far as followers have been told. */
  readonly isUnsettled: (runId: RunId) => boolean
  /** Ends the active run as interrupted and starts none; completes when it is settled and all is committed. */
  readonly drain: Effect.Effect<void>
}
