/**
 * @since 0.1.0
 */

/**
 * A gateway, as a program on the other side of a network sees it.
 *
 * @since 0.1.0
 */
export * as Client from "./Client.js"
