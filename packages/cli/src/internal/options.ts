/**
 * The options that several commands share.
 *
 * @since 0.1.0
 */
import * as Args from "@effect/cli/Args"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import * as ValidationError from "@effect/cli/ValidationError"
import * as Config from "effect/Config"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"

const units = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const

/**
 * Reads `90`, `90s`, `1.5m`, `2h`, `500ms`. A bare number is in seconds.
 */
export const parseDuration = (text: string): Option.Option<Duration.Duration> => {
  const match = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?$/.exec(text.trim())
  if (match === null) return Option.none()
  const millis = Number(match[1]) * units[(match[2] ?? "s") as keyof typeof units]
  return Number.isFinite(millis) ? Option.some(Duration.millis(millis)) : Option.none()
}

/**
 * Reads a port, 0 to 65535.
 */
export const parsePort = (text: string): Option.Option<number> =>
  /^\d{1,5}$/.test(text.trim()) && Number(text) <= 65_535 ? Option.some(Number(text)) : Option.none()

const modes = ["steer", "followup", "collect", "interrupt"] as const

/** A text that is not empty, from the option or else from the environment, where an empty one means not given. */
const given = (option: string, variable: string) =>
  Options.text(option).pipe(
    Options.filterMap(
      (text) => text.trim() === "" ? Option.none() : Option.some(text),
      `--${option} must not be empty; leave it out for the default`
    ),
    Options.withFallbackConfig(Config.nonEmptyString(variable))
  )

export const url = given("url", "SWITCHYARD_URL").pipe(
  Options.withDescription("Where the gateway is (SWITCHYARD_URL; default ws://127.0.0.1:7420)."),
  Options.optional
)

export const mode = Options.text("mode").pipe(
  Options.withPseudoName(modes.join(" | ")),
  Options.withDescription("What the message does if a run is in progress (default steer)."),
  Options.mapEffect((text) => {
    const mode = modes.find((mode) => mode === text)
    return mode === undefined
      ? Effect.fail(
        ValidationError.invalidValue(HelpDoc.p(`--mode is one of ${modes.join(", ")}, and not ${JSON.stringify(text)}`))
      )
      : Effect.succeed(mode)
  }),
  Options.optional
)

export const json = Options.boolean("json").pipe(
  Options.withDescription("Print JSON, one object a line.")
)

export const timeout = Options.text("timeout").pipe(
  Options.withPseudoName("duration"),
  Options.withDescription(
    "How long to wait, as 30s, 5m or 500ms. Then the command ends with exit code 3, and the run goes on. " +
      "Without it, as long as it takes."
  ),
  Options.filterMap(parseDuration, "--timeout looks like 30s, 5m, 1.5h or 500ms; a bare number is in seconds"),
  Options.optional
)

export const session = Options.text("session").pipe(
  Options.withAlias("s"),
  Options.withPseudoName("key"),
  Options.withDescription("The session that gets the message (default main)."),
  Options.withDefault("main")
)

/** What `up`, `gateway` and `agent --local` take. */
export const embedded = {
  port: given("port", "SWITCHYARD_PORT").pipe(
    Options.withPseudoName("number"),
    Options.withDescription("The port to listen on (SWITCHYARD_PORT; default 7420). 0 picks a free one and prints it."),
    Options.filterMap(parsePort, "--port is a whole number from 0 to 65535"),
    Options.optional
  ),
  host: given("host", "SWITCHYARD_HOST").pipe(
    Options.withDescription("The loopback address to listen on (SWITCHYARD_HOST; default 127.0.0.1)."),
    Options.withDefault("127.0.0.1")
  ),
  stateDir: given("state-dir", "SWITCHYARD_STATE_DIR").pipe(
    Options.withPseudoName("folder"),
    Options.withDescription(
      "Where sessions are kept (SWITCHYARD_STATE_DIR; default $XDG_STATE_HOME/switchyard, that is, ~/.local/state/switchyard)."
    ),
    Options.optional
  ),
  workspace: given("workspace", "SWITCHYARD_WORKSPACE").pipe(
    Options.withPseudoName("folder"),
    Options.withDescription("The folder that the tools work in (SWITCHYARD_WORKSPACE; default the current folder)."),
    Options.withDefault(".")
  ),
  model: given("model", "SWITCHYARD_MODEL").pipe(
    Options.withDescription("The model that answers (SWITCHYARD_MODEL; default offline, the only one so far)."),
    Options.withDefault("offline")
  )
}

/** The values of {@link embedded}. */
export interface Embedded {
  readonly port: Option.Option<number>
  readonly host: string
  readonly stateDir: Option.Option<string>
  readonly workspace: string
  readonly model: string
}

export const runArg = Args.text({ name: "run" }).pipe(Args.withDescription("The id of a run, as `agent` prints it."))

export const sessionArg = Args.text({ name: "key" }).pipe(Args.withDescription("The key of a session."))
