/**
 * @since 0.1.0
 */

/**
 * What happens in a session, as a stream of events.
 *
 * @since 0.1.0
 */
export * as AgentEvent from "./AgentEvent.js"

/**
 * Every error that a caller of Switchyard can meet.
 *
 * @since 0.1.0
 */
export * as Errors from "./Errors.js"

/**
 * The names of things on the wire.
 *
 * @since 0.1.0
 */
export * as Ids from "./Ids.js"

/**
 * Messages as people and models see them.
 *
 * @since 0.1.0
 */
export * as Message from "./Message.js"

/**
 * What a caller learns about a run.
 *
 * @since 0.1.0
 */
export * as Run from "./Run.js"

/**
 * What lists and status pages show of sessions and their queues.
 *
 * @since 0.1.0
 */
export * as Session from "./Session.js"

/**
 * A message on its way into a session.
 *
 * @since 0.1.0
 */
export * as Submission from "./Submission.js"

/**
 * The calls of a Switchyard gateway.
 *
 * @since 0.1.0
 */
export * as SwitchyardRpcs from "./SwitchyardRpcs.js"
