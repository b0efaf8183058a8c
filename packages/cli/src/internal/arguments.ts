/**
 * What may stand anywhere in a command line. The library that parses it takes these options only in some places.
 *
 * @since 0.1.0
 */
import * as LogLevel from "effect/LogLevel"
import { refused } from "./failure.js"

const levels = ["trace", "debug", "info", "warning", "error", "none"]

const shells = ["bash", "zsh", "fish"]

/** Options whose next argument is their value, whatever it looks like. */
const taking = new Set([
  ...["-m", "--message", "-s", "--session", "--mode", "--id", "--url", "--timeout", "--port", "--host"],
  ...["--state-dir", "--workspace", "--model"]
])

/** Commands that only have commands. */
const groups = new Set(["sessions", "queue"])

/**
 * A command line without `--log-level`, which applies to all of it, and with nothing but the command and `--help` if that
 * is asked for. A level or a shell that does not exist is `wrong`.
 */
export const normalize = (args: ReadonlyArray<string>) => {
  const rest: Array<string> = []
  let level: LogLevel.LogLevel = LogLevel.Warning
  let help = false
  for (let i = 0; i < args.length; i++) {
    const arg = args[i]!
    if (arg === "--") {
      for (const word of args.slice(i)) rest.push(word)
      break
    }
    if (arg === "--log-level" || arg.startsWith("--log-level=")) {
      const name = arg === "--log-level" ? args[++i] : arg.slice("--log-level=".length)
      if (name === undefined || !levels.includes(name)) {
        return { wrong: refused(`--log-level is one of ${levels.join(", ")}${andNot(name)}.`) }
      }
      level = LogLevel.fromLiteral(literal(name))
    } else if (arg === "--completions" || arg.startsWith("--completions=")) {
      const shell = arg === "--completions" ? args[++i] : arg.slice("--completions=".length)
      if (shell === undefined || !shells.includes(shell)) {
        return { wrong: refused(`--completions is one of ${shells.join(", ")}${andNot(shell)}.`) }
      }
      rest.push("--completions", shell)
    } else if (arg === "--help" || arg === "-h") {
      help = true
    } else {
      rest.push(arg)
      if (taking.has(arg) && i + 1 < args.length) rest.push(args[++i]!)
    }
  }
  if (!help) return { level, args: rest }
  const command = rest.slice(0, groups.has(rest[0] ?? "") ? 2 : 1).filter((word) => !word.startsWith("-"))
  return { level, args: [...command, "--help"] }
}

const andNot = (given: string | undefined): string => given === undefined ? "" : `, and not ${JSON.stringify(given)}`

const literal = (name: string): LogLevel.Literal => (name[0]!.toUpperCase() + name.slice(1)) as LogLevel.Literal
