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
import { explain } from "./failure.js"
import * as Terminal from "./terminal.js"

/**
 * Reads messages line by line and shows the answers, until the input ends. Ctrl-C ends the answer that is being given;
 * at the prompt it leaves, as Ctrl-D does. During an answer `/stop` is sent at once, and any other line after it.
 */
export const chat = (
  agent: Agent,
  sessionKey: string,
  terminal: { readonly input: NodeJS.ReadableStream; readonly output: NodeJS.WritableStream } = {
    input: process.stdin,
    output: process.stdout
  }
) =>
  Effect.scoped(Effect.gen(function*() {
    const lines = yield* Queue.unbounded<string | undefined>()
    const interrupts = yield* Queue.unbounded<void>()
    const stops = yield* Queue.unbounded<string>()
    let answering = false
    const readline = yield* Effect.acquireRelease(
      Effect.sync(() => {
        const readline = Readline.createInterface({ ...terminal, prompt: "> " })
        readline.on("line", (line) => {
          const queue = answering && line.trim() === "/stop" ? stops : lines
          queue.unsafeOffer(line)
        })
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
        const passingOn = Queue.take(stops).pipe(
          Effect.flatMap((message) => agent.submit({ sessionKey, message })),
          Effect.catchAll((error) => Terminal.note(explain(error))),
          Effect.forever
        )
        const result = yield* Effect.raceFirst(
          Effect.map(follow(agent, runId, { json: false, timeout: undefined }), Option.some),
          Effect.as(Effect.raceFirst(stopping, passingOn), Option.none())
        )
        if (Option.isSome(result)) yield* conclude(result.value)
      }).pipe(
        Effect.catchAllCause((cause) =>
          Option.match(Cause.failureOption(cause), {
            onNone: () => Effect.failCause(cause as Cause.Cause<never>),
            onSome: (error) => Terminal.note(explain(error))
          })
        )
      )

    while (true) {
      const typedAhead = yield* Queue.poll(lines)
      if (Option.isNone(typedAhead)) yield* Effect.sync(() => readline.prompt())
      // It was written somewhere into the answer; here is where it counts.
      else if (typedAhead.value !== undefined) yield* Terminal.line(`> ${typedAhead.value}`)
      const line = Option.isSome(typedAhead) ? typedAhead.value : yield* Queue.take(lines)
      if (line === undefined) return yield* Terminal.line("")
      if (line.trim() === "") continue
      // A stop that came too late for the last answer is not for this one.
      yield* Queue.takeAll(stops)
      answering = true
      yield* answer(line)
      answering = false
    }
  }))
