/**
 * @since 0.1.0
 */

/**
 * What a message may do.
 *
 * @since 0.1.0
 */
export * as Authority from "./Authority.js"

/**
 * How replies leave.
 *
 * @since 0.1.0
 */
export * as Delivery from "./Delivery.js"

/**
 * Fan-out of what happens in sessions.
 *
 * @since 0.1.0
 */
export * as EventHub from "./EventHub.js"

/**
 * Places in a run where a team's own code looks on or decides.
 *
 * @since 0.1.0
 */
export * as Hooks from "./Hooks.js"

/**
 * The journal of a session.
 *
 * @since 0.1.0
 */
export * as Journal from "./Journal.js"

/**
 * How many runs execute at once.
 *
 * @since 0.1.0
 */
export * as Lanes from "./Lanes.js"

/**
 * The model, as the run loop sees it.
 *
 * @since 0.1.0
 */
export * as Model from "./Model.js"

/**
 * The system prompt of a run.
 *
 * @since 0.1.0
 */
export * as Prompts from "./Prompts.js"

/**
 * The session's machine.
 *
 * @since 0.1.0
 */
export * as QueuePolicy from "./QueuePolicy.js"

/**
 * What the journal says of one run, from the rows that `TranscriptStore.findRun` gives.
 *
 * @since 0.1.0
 */
export * as RunFacts from "./RunFacts.js"

/**
 * One activation of a session.
 *
 * @since 0.1.0
 */
export * as SessionActor from "./SessionActor.js"

/**
 * Where the actors of sessions live.
 *
 * @since 0.1.0
 */
export * as SessionHost from "./SessionHost.js"

/**
 * What callers hold of a session's actor.
 *
 * @since 0.1.0
 */
export * as SessionRef from "./SessionRef.js"

/**
 * A session's state as a pure fold over its journal.
 *
 * @since 0.1.0
 */
export * as SessionState from "./SessionState.js"

/**
 * Keeps two processes from working on one session at once.
 *
 * @since 0.1.0
 */
export * as SessionWriteLock from "./SessionWriteLock.js"

/**
 * The front door.
 *
 * @since 0.1.0
 */
export * as Sessions from "./Sessions.js"

/**
 * The numbers that core works with.
 *
 * @since 0.1.0
 */
export * as Settings from "./Settings.js"

/**
 * The tools that the model may use, built on `@effect/ai` `Tool` and `Toolkit`.
 *
 * @since 0.1.0
 */
export * as Tools from "./Tools.js"

/**
 * What the model sees of a session, folded from its journal, and what a reader of its history sees.
 *
 * @since 0.1.0
 */
export * as Transcript from "./Transcript.js"

/**
 * Where journals live.
 *
 * @since 0.1.0
 */
export * as TranscriptStore from "./TranscriptStore.js"
