/**
 * @since 0.1.0
 */

/**
 * Keeps processes that share a state folder from working on one session at once, with a file per held session.
 *
 * @since 0.1.0
 */
export * as FileWriteLock from "./FileWriteLock.js"

/**
 * Opens the SQLite file that holds the journal, brings its schema up to date, and says in plain words when it cannot.
 *
 * @since 0.1.0
 */
export * as SqliteDatabase from "./SqliteDatabase.js"

/**
 * The journal in a SQLite file.
 *
 * @since 0.1.0
 */
export * as SqliteTranscriptStore from "./SqliteTranscriptStore.js"

/**
 * What the store counts.
 *
 * @since 0.1.0
 */
export * as StoreMetrics from "./StoreMetrics.js"
