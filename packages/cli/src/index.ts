/**
 * @since 0.1.0
 */

/**
 * The `switchyard` command.
 *
 * @since 0.1.0
 */
export * as Cli from "./Cli.js"

/**
 * Puts a whole Switchyard together in this process.
 *
 * @since 0.1.0
 */
export * as Runtime from "./Runtime.js"
