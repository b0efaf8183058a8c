/**
 * The `switchyard` command.
 *
 * @since 0.1.0
 */
import type * as CliApp from "@effect/cli/CliApp"
import * as CliConfig from "@effect/cli/CliConfig"
import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Span from "@effect/cli/HelpDoc/Span"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import { normalize } from "./internal/arguments.js"
import { tidy } from "./internal/help.js"
import { embedded, json, mode, runArg, session, sessionArg, timeout, url } from "./internal/options.js"
import * as Terminal from "./internal/terminal.js"
import { version } from "./internal/version.js"

// What a command needs is loaded when it runs: `--help` needs none of it, and `agent` no server.
const load = <M, A, E, R>(module: () => Promise<M>, use: (module: M) => Effect.Effect<A, E, R>) =>
  Effect.promise(module).pipe(
    Effect.flatMap(use),
    Effect.asVoid,
    Effect.tapErrorCause((cause) => Effect.logDebug("The command failed", cause))
  )
const serve = () => import("./internal/serve.js")
const remote = () => import("./internal/remote.js")

const up = Command.make(
  "up",
  {
    message: Options.text("message").pipe(
      Options.withAlias("m"),
      Options.withDescription("Send this one message, print the reply and end."),
      Options.optional
    ),
    session,
    ...embedded
  },
  (options) => load(serve, ({ up }) => up(options))
).pipe(
  Command.withDescription("Start a gateway with everything it needs, and chat with it if this is a terminal.")
)

const gateway = Command.make("gateway", embedded, (options) => load(serve, ({ gateway }) => gateway(options))).pipe(
  Command.withDescription("Start a gateway and serve until SIGTERM or Ctrl-C.")
)

const agent = Command.make(
  "agent",
  {
    message: Options.text("message").pipe(Options.withAlias("m"), Options.withDescription("What to say.")),
    session,
    mode,
    id: Options.text("id").pipe(
      Options.withDescription(
        "The id of the run. The same message under the same id again is answered, not run again."
      ),
      Options.optional
    ),
    url,
    local: Options.boolean("local").pipe(
      Options.withDescription("Run it in this process instead of asking a gateway.")
    ),
    noWait: Options.boolean("no-wait").pipe(
      Options.withDescription("Print that the message was accepted, and do not wait for the answer.")
    ),
    json,
    timeout,
    ...embedded
  },
  (options) => load(() => import("./internal/agent.js"), ({ agent }) => agent(options))
).pipe(Command.withDescription("Send a message to a session and show the answer as it comes."))

const wait = Command.make(
  "wait",
  { run: runArg, timeout, json, url },
  (options) => load(remote, ({ wait }) => wait(options))
).pipe(Command.withDescription("Wait for a run to end and print its reply."))

const abort = Command.make(
  "abort",
  { run: runArg, json, url },
  (options) => load(remote, ({ abort }) => abort(options))
).pipe(Command.withDescription("End a run, or remove a waiting message."))

const sessions = Command.make("sessions").pipe(
  Command.withDescription("Look at sessions and stop them."),
  Command.withSubcommands([
    Command.make("list", { json, url }, (options) => load(remote, ({ sessionsList }) => sessionsList(options))).pipe(
      Command.withDescription("List all sessions.")
    ),
    Command.make(
      "history",
      { key: sessionArg, json, url },
      (options) => load(remote, ({ sessionsHistory }) => sessionsHistory(options))
    ).pipe(Command.withDescription("Print the messages of a session.")),
    Command.make(
      "abort",
      {
        key: sessionArg,
        clearQueued: Options.boolean("clear-queued").pipe(
          Options.withDescription("Cancel the messages that wait, too.")
        ),
        json,
        url
      },
      (options) => load(remote, ({ sessionsAbort }) => sessionsAbort(options))
    ).pipe(Command.withDescription("End the run of a session."))
  ])
)

const queue = Command.make("queue").pipe(
  Command.withDescription("Look at what waits."),
  Command.withSubcommands([
    Command.make(
      "show",
      { key: sessionArg, json, url },
      (options) => load(remote, ({ queueShow }) => queueShow(options))
    ).pipe(Command.withDescription("Show the run in progress and the messages that wait in a session."))
  ])
)

const health = Command.make("health", { json, url }, (options) => load(remote, ({ health }) => health(options))).pipe(
  Command.withDescription("Show how a gateway is doing.")
)

/**
 * All commands, for whoever wants to list them or to add their own.
 *
 * @since 0.1.0
 * @category commands
 */
export const command = Command.make("switchyard").pipe(
  Command.withDescription("Sessions of agent runs as actors."),
  Command.withSubcommands([up, gateway, agent, wait, abort, sessions, queue, health])
)

const footer = HelpDoc.p("Exit codes and what else holds everywhere: switchyard --help")

const parse = Command.run(command, {
  name: "Switchyard",
  version,
  executable: "switchyard",
  summary: Span.text("sessions of agent runs as actors"),
  footer
})

/**
 * Runs the command line: `args` as in `process.argv`.
 *
 * Help goes to standard output, complaints to standard error. Fails with an error whose message is for the person at the
 * terminal; `bin.ts` turns it into an exit code.
 *
 * @since 0.1.0
 * @category running
 */
export const run = (args: ReadonlyArray<string>): Effect.Effect<void, unknown, CliApp.CliApp.Environment> =>
  Effect.gen(function*() {
    const given = normalize(args.slice(2))
    if (given.wrong !== undefined) return yield* given.wrong
    const console = yield* Effect.console
    yield* parse([...args.slice(0, 2), ...given.args]).pipe(
      Effect.withConsole({
        ...console,
        log: (...lines) => Terminal.write(tidy(styled(process.stdout, lines), given.args)),
        error: (...lines) => Terminal.note(styled(process.stderr, lines).trimEnd())
      }),
      Logger.withMinimumLogLevel(given.level)
    )
  }).pipe(
    Effect.provide([
      CliConfig.layer({ showBuiltIns: false, isCaseSensitive: true }),
      Logger.replace(
        Logger.defaultLogger,
        process.stderr.isTTY ? Logger.prettyLogger({ stderr: true }) : Logger.withConsoleError(Logger.logfmtLogger)
      )
    ])
  )

const styled = (stream: NodeJS.WriteStream, lines: ReadonlyArray<unknown>): string => {
  const text = `${lines.join(" ")}\n`
  return stream.isTTY && stream.hasColors() ? text : Terminal.withoutStyle(text)
}
