/**
 * @since 0.1.0
 */

/**
 * Random journals of one session, as its actor could have written them, for property tests of stores and folds.
 *
 * @since 0.1.0
 */
export * as JournalArbitraries from "./JournalArbitraries.js"

/**
 * A model that answers from a script and remembers what it was asked.
 *
 * @since 0.1.0
 */
export * as ScriptedModel from "./ScriptedModel.js"

/**
 * Says whether a `TranscriptStore` is right.
 *
 * @since 0.1.0
 */
export * as TranscriptStoreSuite from "./TranscriptStoreSuite.js"
