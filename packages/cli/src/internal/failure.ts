/**
 * How a command ends when it does not end well.
 *
 * @since 0.1.0
 */
import type { GatewayUnreachable } from "@switchyard/client/Client"
import type { PortInUse } from "@switchyard/gateway/Gateway"
import type { IdempotencyConflict, InvalidConfig, InvalidRequest } from "@switchyard/protocol/Errors"
import * as Data from "effect/Data"
import { commandName } from "./commandName.js"

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

/** Settings and fields, as the person typed them. */
const typed: Record<string, string> = {
  url: "--url (SWITCHYARD_URL)",
  host: "--host (SWITCHYARD_HOST)",
  port: "--port (SWITCHYARD_PORT)",
  model: "--model (SWITCHYARD_MODEL)",
  runId: "RUN",
  sessionKey: "KEY"
}

/**
 * An error in a sentence for the person at the terminal: with options instead of fields, and what to type next.
 */
export const explain = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  // By tag, so that a command that ends well need not load them all.
  const known = error as unknown as
    | IdempotencyConflict
    | InvalidConfig
    | InvalidRequest
    | GatewayUnreachable
    | PortInUse
  switch (known._tag) {
    case "InvalidConfig":
      return `${typed[known.key] ?? known.key} cannot be ${known.value}: ${known.reason}`
    case "InvalidRequest":
      return `${typed[known.field] ?? known.field}: ${known.reason}`
    case "IdempotencyConflict":
      return `The id ${known.runId} was used before for something else: the message, its session, its mode and its ` +
        "settings count. Send this one with a new --id."
    case "GatewayUnreachable":
      return `No gateway answers at ${known.url}: ${known.reason}. Start one with \`${commandName()} gateway\`.`
    case "PortInUse":
      return `Port ${known.port} on ${known.host} is already in use. End the program that listens there, or choose ` +
        "another with --port (0 picks a free one)."
    default:
      return error.message
  }
}
