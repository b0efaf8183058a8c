/**
 * From effect to exit code.
 *
 * @since 0.1.0
 */
import { isValidationError } from "@effect/cli/ValidationError"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as Cause from "effect/Cause"
import type * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import { commandName } from "./commandName.js"
import { CommandFailed, exitCodes, explain } from "./failure.js"

/** A message whose run belongs to this process, or which somebody waits for here. An interruption cuts it short. */
let answering = false

export const setAnswering = (value: boolean): void => {
  answering = value
}

/**
 * Runs the command line. The first SIGINT or SIGTERM ends it in order, the second one at once. Its exit code is that of
 * {@link CommandFailed}; 2 for any other error; 0 after a signal, unless that cut an answer short (130 or 143).
 */
export const runMain = (program: Effect.Effect<void, unknown>): void => {
  let signal: "SIGINT" | "SIGTERM" | "SIGPIPE" | undefined

  const onSignal = (name: "SIGINT" | "SIGTERM") => () => {
    signal ??= name
    // Nobody listens any more, so the next one does what signals do.
    process.off("SIGINT", onInterrupt)
    process.off("SIGTERM", onTerminate)
  }
  const onInterrupt = onSignal("SIGINT")
  const onTerminate = onSignal("SIGTERM")
  process.on("SIGINT", onInterrupt)
  process.on("SIGTERM", onTerminate)

  for (const stream of [process.stdout, process.stderr]) {
    stream.on("error", (error: NodeJS.ErrnoException) => {
      // The reader has gone, as `head` does. That is no error, and there is nobody to tell.
      if (error.code !== "EPIPE" || signal !== undefined) return
      signal = "SIGPIPE"
      process.kill(process.pid, "SIGTERM")
    })
  }

  NodeRuntime.runMain(program, {
    disableErrorReporting: true,
    disablePrettyLogger: true,
    teardown: (exit) => {
      const { code, message } = report(exit, signal)
      if (message !== "") process.stderr.write(`${message}\n`)
      // Also when all is well: an open terminal would keep the process alive.
      process.exit(code)
    }
  })
}

/**
 * The exit code for how the program ended, and what is left to tell.
 */
export const report = (
  exit: Exit.Exit<unknown, unknown>,
  signal: string | undefined
): { readonly code: number; readonly message: string } => {
  if (Exit.isSuccess(exit) || signal === "SIGPIPE") return { code: 0, message: "" }
  if (Cause.isInterruptedOnly(exit.cause)) {
    return { code: answering ? signal === "SIGTERM" ? 143 : 130 : 0, message: "" }
  }
  const error = Option.getOrUndefined(Cause.failureOption(exit.cause))
  if (error === undefined) {
    const defect = Cause.squash(exit.cause)
    return {
      code: exitCodes.bug,
      message:
        `Something went wrong inside Switchyard: ${defect instanceof Error ? defect.message : String(defect)}\n` +
        "This is a bug; run the command again with --log-level debug to see more."
    }
  }
  if (error instanceof CommandFailed) return { code: error.exitCode, message: error.message }
  // The command line library has printed what is wrong.
  const message = isValidationError(error)
    ? `\`${commandName()} --help\` shows the commands, and \`${commandName()} <command> --help\` their options.`
    : explain(error)
  return { code: exitCodes.refused, message }
}
