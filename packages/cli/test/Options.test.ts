import * as Command from "@effect/cli/Command"
import * as CommandDescriptor from "@effect/cli/CommandDescriptor"
import { assert, describe, it } from "@effect/vitest"
import * as Cli from "@switchyard/cli/Cli"
import { WaitResult } from "@switchyard/protocol/Run"
import * as Arbitrary from "effect/Arbitrary"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FastCheck from "effect/FastCheck"
import * as HashMap from "effect/HashMap"
import * as LogLevel from "effect/LogLevel"
import * as Option from "effect/Option"
import { readFileSync } from "node:fs"
import { normalize } from "../src/internal/arguments.js"
import { commandName } from "../src/internal/commandName.js"
import { conclude } from "../src/internal/converse.js"
import { quickAnswer, tidy } from "../src/internal/help.js"
import { parseDuration, parsePort } from "../src/internal/options.js"

describe("--timeout", () => {
  it("reads durations with and without a unit", () => {
    const cases = [["5", 5_000], ["0", 0], ["500ms", 500], ["30s", 30_000], ["1.5m", 90_000], ["2 h", 7_200_000], [
      "30d",
      2_592_000_000
    ]] as const
    for (const [text, millis] of cases) {
      assert.strictEqual(Option.getOrThrow(Option.map(parseDuration(text), Duration.toMillis)), millis, text)
    }
  })

  it("refuses what is no duration, or not a finite one", () => {
    for (const text of ["", "-5", "soon", "5 minutes", "1e3", "NaN", "Infinity", "s", "9".repeat(400)]) {
      assert.isTrue(Option.isNone(parseDuration(text)), text)
    }
  })
})

describe("--log-level and --help", () => {
  it("may stand anywhere", () => {
    for (
      const args of [
        ["--log-level", "debug", "wait", "r", "--json"],
        ["wait", "--log-level=debug", "r", "--json"],
        ["wait", "r", "--json", "--log-level", "debug"]
      ]
    ) {
      assert.deepStrictEqual(normalize(args), { level: LogLevel.Debug, args: ["wait", "r", "--json"] })
    }
    assert.deepStrictEqual(normalize(["wait", "r", "--help"]).args, ["wait", "--help"])
    assert.deepStrictEqual(normalize(["sessions", "abort", "-h", "k"]).args, ["sessions", "abort", "--help"])
    assert.deepStrictEqual(normalize(["--bogus", "--help"]).args, ["--help"])
  })

  it("are text where text is expected", () => {
    for (const args of [["agent", "-m", "--help"], ["agent", "--message", "--log-level"], ["wait", "--", "--help"]]) {
      assert.deepStrictEqual(normalize(args), { level: LogLevel.Warning, args })
    }
  })

  it("names the levels that there are", () => {
    for (const args of [["health", "--log-level", "loud"], ["health", "--log-level"], ["--log-level=", "health"]]) {
      assert.include(normalize(args).wrong?.message ?? "", "trace, debug, info, warning, error, none")
    }
  })
})

describe("--port", () => {
  it("takes 0 to 65535 and nothing else", () => {
    FastCheck.assert(
      FastCheck.property(FastCheck.integer({ min: -10, max: 70_000 }), (port) => {
        const read = parsePort(String(port))
        assert.deepStrictEqual(read, port >= 0 && port <= 65_535 ? Option.some(port) : Option.none())
      })
    )
    for (const text of ["", "80.5", "0x50", "1e3", "http"]) assert.isTrue(Option.isNone(parsePort(text)), text)
  })
})

describe("the exit code", () => {
  it("is 0 for a completed run, 3 for a wait that is over and 1 for every other end", () => {
    FastCheck.assert(
      FastCheck.property(Arbitrary.make(WaitResult), (result) => {
        const exit = Effect.runSyncExit(conclude(result))
        if (result.status === "ok") return assert.isTrue(Exit.isSuccess(exit))
        const failure = Effect.runSync(Effect.flip(conclude(result)))
        assert.strictEqual(failure.exitCode, result.settled ? 1 : 3)
        assert.notMatch(failure.message, /undefined|\n/)
      })
    )
  })
})

describe("the name of the command", () => {
  it("is one that works where it was started", () => {
    assert.strictEqual(commandName("/usr/local/bin/switchyard", {}), "switchyard")
    assert.strictEqual(commandName("/usr/local/bin/switchyard", { npm_execpath: "npm" }), "npx switchyard")
    assert.strictEqual(commandName("/src/node_modules/.bin/switchyard", {}), "npx switchyard")
    assert.strictEqual(commandName("/src/bin/switchyard.mjs", {}), "npx switchyard")
  })
})

describe("help", () => {
  it("shows each command, at once", () => {
    const overview = quickAnswer(["--help"]) ?? ""
    const commands = HashMap.toEntries(Command.getSubcommands(Cli.command))
    assert.isAbove(commands.length, 7)
    for (const [name, command] of commands) {
      const children = HashMap.toEntries(CommandDescriptor.getSubcommands(command))
      for (const path of children.length < 2 ? [name] : children.map(([child]) => `${name} ${child}`)) {
        assert.match(overview, new RegExp(`^  ${path} `, "m"))
      }
    }
    for (const line of overview.split("\n")) assert.isAtMost(line.length, 80, line)
    assert.strictEqual(quickAnswer([]), overview)
    assert.strictEqual(quickAnswer(["-h"]), overview)
  })

  it("shows the version of the package", () => {
    const manifest = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"))
    assert.strictEqual(quickAnswer(["--version"]), `${manifest.version}\n`)
  })

  it("leaves commands to the parser", () => {
    for (const args of [["agent", "--help"], ["up"], ["--bogus"], ["--help", "agent"]]) {
      assert.isUndefined(quickAnswer(args))
    }
  })

  it("says how a nested command is typed, and nothing that helps nobody", () => {
    const help = "Switchyard\n\nSwitchyard 1\n\nUSAGE\n\n$ list [--json]\n\n--json\n\n  A true or false value.\n\n" +
      "  Print JSON.\n\n  This setting is optional.\n\n"
    assert.strictEqual(
      tidy(help, ["sessions", "list", "--help"]),
      "Switchyard 1\n\nUSAGE\n\n$ switchyard sessions list [--json]\n\n--json\n\n  Print JSON.\n\n"
    )
  })
})
