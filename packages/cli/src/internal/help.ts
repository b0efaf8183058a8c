/**
 * The help that shows all commands. It is text, so that it is there at once, without loading what parses options.
 *
 * @since 0.1.0
 */
import { version } from "./version.js"

const overview = `switchyard ${version}: sessions of agent runs as actors

Usage: switchyard <command> [options]

Start
  up                     start a gateway with everything it needs, and chat
                         with it if this is a terminal
  gateway                start a gateway and serve until SIGTERM or Ctrl-C

Talk
  agent --message TEXT   send a message and show the answer as it comes
  wait RUN               wait for a run to end and print its reply
  abort RUN              end a run, or remove a waiting message

Look
  sessions list          list all sessions
  sessions history KEY   print the messages of a session
  sessions abort KEY     end the run of a session; with --clear-queued cancel
                         what waits, too
  queue show KEY         show the run in progress and the messages that wait
  health                 show how a gateway is doing

With what talks and what looks
  --json                 print JSON, one object a line
  --url URL              where the gateway is (ws://127.0.0.1:7420)

Everywhere
  --help                 explain the command
  --version              print the version
  --log-level LEVEL      log to standard error: trace, debug, info, warning
                         (default), error or none
  --completions SHELL    print a completion script for bash, zsh or fish

Environment, if the option is not given
  SWITCHYARD_URL         where commands look for the gateway
  SWITCHYARD_STATE_DIR   where sessions are kept ($XDG_STATE_HOME/switchyard,
                         that is, ~/.local/state/switchyard)
  SWITCHYARD_WORKSPACE   the folder that the tools work in (the current one)
  SWITCHYARD_PORT, SWITCHYARD_HOST, SWITCHYARD_MODEL

Exit codes
  0         it worked
  1         the run did not complete: it failed, was aborted, or reached its
            deadline
  2         refused: wrong options, a refusal of the gateway, or no gateway
  3         the wait is over and the run goes on (--timeout)
  70        a bug in Switchyard
  130, 143  ended by Ctrl-C or SIGTERM before the answer was complete
`

/**
 * The answer to a command line that only asks what there is, or nothing.
 */
export const quickAnswer = (args: ReadonlyArray<string>): string | undefined => {
  if (args.length === 0) return overview
  if (args.length > 1) return undefined
  switch (args[0]) {
    case "--help":
    case "-h":
    case "help":
      return overview
    case "--version":
      return `${version}\n`
    default:
      return undefined
  }
}

// What the library says about each option, and nobody needs.
const chatter = new RegExp(
  "^  (A user-defined piece of text|A true or false value|An integer|One of the following: .*|" +
    "This setting is optional|This option can be set from environment variables)\\.?\\n\\n",
  "gm"
)

/**
 * Makes the help of one command shorter, and lets its usage begin with the whole command as it was typed.
 */
export const tidy = (help: string, args: ReadonlyArray<string>): string => {
  const option = args.findIndex((arg) => arg.startsWith("-"))
  const command = option === -1 ? args : args.slice(0, option)
  const last = command.at(-1)
  const short = help.replace(chatter, "").replace(/^.*\n\n(?=Switchyard )/, "")
  return last === undefined ? short : short.replace(`$ ${last}`, `$ switchyard ${command.join(" ")}`)
}
