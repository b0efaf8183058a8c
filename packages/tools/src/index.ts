/**
 * @since 0.1.0
 */

/**
 * The tools that come with Switchyard.
 *
 * @since 0.1.0
 */
export * as BuiltinTools from "./BuiltinTools.js"

/**
 * The folder that tools work in, and the one place where a path that a model wrote becomes a path on disk.
 *
 * @since 0.1.0
 */
export * as Workspace from "./Workspace.js"
