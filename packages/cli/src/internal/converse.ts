/**
 * One message and its answer.
 *
 * @since 0.1.0
 */
import type { Client, Message } from "@switchyard/client/Client"
import type { AgentEvent } from "@switchyard/protocol/AgentEvent"
import type { WaitResult } from "@switchyard/protocol/Run"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import { commandName } from "./commandName.js"
import { CommandFailed, exitCodes } from "./failure.js"
import * as Render from "./render.js"
import * as Terminal from "./terminal.js"

/** What a conversation needs of a gateway, near or far. */
export type Agent = Pick<Client["Type"], "submit" | "waitFor" | "follow" | "abort">

/** Shows the events of a run, and at the end what they did not hold of its reply. Tools are shown to a person only. */
const show = (runId: string, options: { readonly json: boolean }) => {
  if (options.json) {
    return { event: (event: AgentEvent) => Terminal.json(event), end: () => Effect.void }
  }
  const renderer = Render.make(runId)
  const tools = process.stderr.isTTY === true
  const print = (pieces: ReadonlyArray<Render.Piece>) =>
    Effect.forEach(
      pieces,
      (piece) =>
        piece._tag === "text"
          ? Terminal.write(piece.text)
          : tools
          ? Terminal.note(Terminal.dim(piece.text))
          : Effect.void,
      { discard: true }
    )
  return {
    event: (event: AgentEvent) => Effect.suspend(() => print(renderer.render(event))),
    end: (result: WaitResult) => Effect.suspend(() => print(renderer.end(result.reply)))
  }
}

/** How long the last events may take to arrive once a run is known to have ended. */
const lastEvents = "5 seconds"

/**
 * Follows a run to its end, showing what happens, at most for `timeout`.
 */
export const follow = (agent: Agent, runId: string, options: {
  readonly json: boolean
  readonly timeout: Duration.Duration | undefined
}) =>
  Effect.gen(function*() {
    const screen = show(runId, options)
    const following = yield* Effect.fork(Stream.runForEach(agent.follow({ runId }), screen.event))
    const result = yield* Effect.raceFirst(
      agent.waitFor(runId, { timeout: options.timeout }),
      // It ends when the run does, which the wait knows better; only its failure ends the race.
      Effect.zipRight(Fiber.join(following), Effect.never)
    )
    if (result.settled) yield* Effect.timeoutOption(Fiber.join(following), lastEvents)
    yield* Fiber.interrupt(following)
    yield* screen.end(result)
    return result
  })

/**
 * Sends a message and, unless told not to wait, shows its answer. Succeeds if the run completed.
 */
export const converse = (agent: Agent, message: Message, options: {
  readonly json: boolean
  readonly wait: boolean
  readonly timeout: Duration.Duration | undefined
  /** Called with the id of the run once there is one, and without when it has ended. */
  readonly onRun?: ((runId: string | undefined) => void) | undefined
}) =>
  Effect.gen(function*() {
    const accepted = yield* agent.submit(message)
    if (!options.wait) {
      return yield* options.json
        ? Terminal.json(accepted)
        : Terminal.line(
          `${accepted.runId} ${accepted.disposition}${accepted.replayed === true ? " (sent before)" : ""}`
        )
    }
    if (options.json) yield* Terminal.json(accepted)
    else if (accepted.replayed) yield* Terminal.note(Terminal.dim("Sent before: this is the answer it got."))
    options.onRun?.(accepted.runId)
    const result = yield* follow(agent, accepted.runId, options)
    options.onRun?.(undefined)
    if (options.json) yield* Terminal.json(result)
    yield* conclude(result)
  })

/**
 * Succeeds if the run completed, else fails with the exit code and the sentence for it.
 */
export const conclude = (result: WaitResult): Effect.Effect<void, CommandFailed> => {
  if (result.status === "ok") return Effect.void
  if (!result.settled) {
    return new CommandFailed({
      exitCode: exitCodes.waitOver,
      message: `The run has not ended yet. It goes on; wait for it with \`${commandName()} wait ${result.runId}\`.`
    })
  }
  return new CommandFailed({ exitCode: exitCodes.failed, message: sentence(result) })
}

const sentence = (result: WaitResult): string => {
  const why = result.error === undefined ? "" : `: ${result.error.message}`
  switch (result.outcome) {
    case "aborted":
      return "The run was aborted."
    case "cancelled":
      return "The message was cancelled before it ran."
    case "dropped":
      return "The message was dropped: too many were waiting."
    case "deadline":
      return "The run reached its deadline and was ended."
    case "interrupted":
      return "The run was interrupted: its process ended."
    default:
      return `The run failed${why}${/[.!?]$/.test(why) ? "" : "."}`
  }
}
