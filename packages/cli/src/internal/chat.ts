/**
 * A conversation in the terminal.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Readline from "node:readline"
import { type Agent, conclude, follow } from "./converse.js"
import * as Terminal from "./terminal.js"

/**
 * Reads messages line by line and shows the answers, until the input ends. Ctrl-C ends the answer that is being given;
 * at the prompt it leaves, as Ctrl-D does. What is typed during an answer is sent after it.
 */
export const chat = (agent: Agent, sessionKey: string) =>
  Effect.scoped(Effect.gen(function*() {
    const lines = yield* Queue.unbounded<string | undefined>()
    const interrupts = yield* Queue.unbounded<void>()
    let answering = false
    const readline = yield* Effect.acquireRelease(
      Effect.sync(() => {
        const readline = Readline.createInterface({ input: process.stdin, output: process.stdout, prompt: "> " })
        readline.on("line", (line) => lines.unsafeOffer(line))
        readline.on("close", () => lines.unsafeOffer(undefined))
        readline.on("SIGINT", () => {
          if (answering) interrupts.unsafeOffer(undefined)
          else readline.close()
        })
        return readline
      }),
      (readline) => Effect.sync(() => readline.close())
    )
    yield* Terminal.line(
      Terminal.dim(`Session "${sessionKey}". Write a message; Ctrl-C stops an answer, Ctrl-D leaves.`)
    )

    const answer = (message: string) =>
      Effect.gen(function*() {
        const { runId } = yield* agent.submit({ sessionKey, message })
        const stopping = Effect.gen(function*() {
          yield* Queue.take(interrupts)
          yield* Effect.ignore(agent.abort(runId)) // The run may have ended meanwhile.
          yield* Queue.take(interrupts)
          // Twice means now: the run ends with this process.
          return yield* Effect.sync(() => readline.close())
        })
        const result = yield* Effect.raceFirst(
          Effect.map(follow(agent, runId, { json: false, timeout: undefined }), Option.some),
          Effect.as(stopping, Option.none())
        )
        if (Option.isSome(result)) yield* conclude(result.value)
      }).pipe(
        Effect.catchAllCause((cause) =>
          Option.match(Cause.failureOption(cause), {
            onNone: () => Effect.failCause(cause as Cause.Cause<never>),
            onSome: (error) => Terminal.note(error.message)
          })
        )
      )

    while (true) {
      yield* Effect.sync(() => readline.prompt())
      const line = yield* Queue.take(lines)
      if (line === undefined) return yield* Terminal.line("")
      if (line.trim() === "") continue
      answering = true
      yield* answer(line)
      answering = false
    }
  }))
