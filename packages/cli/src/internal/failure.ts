/**
 * How a command ends when it does not end well.
 *
 * @since 0.1.0
 */
import * as Data from "effect/Data"

/**
 * The exit codes, as `--help` explains them.
 */
export const exitCodes = { failed: 1, refused: 2, waitOver: 3, bug: 70 } as const

/**
 * The command ends with this exit code, after `message` on standard error (nothing if it is empty).
 */
export class CommandFailed extends Data.TaggedError("CommandFailed")<{
  readonly exitCode: number
  readonly message: string
}> {}

export const refused = (message: string): CommandFailed => new CommandFailed({ exitCode: exitCodes.refused, message })
