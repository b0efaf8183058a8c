/**
 * The commands that ask a running gateway.
 *
 * @since 0.1.0
 */
import * as NodeSocket from "@effect/platform-node/NodeSocket"
import { Client, type ClientConfig, layerWebSocket } from "@switchyard/client/Client"
import { type ContentPart, HistoryMessage } from "@switchyard/protocol/Message"
import type { SessionInfo } from "@switchyard/protocol/Session"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { conclude } from "./converse.js"
import * as Terminal from "./terminal.js"

/** Options that every command has which asks a gateway. */
export interface Remote {
  readonly url: Option.Option<string>
  readonly json: boolean
}

/** Asks the gateway at `url`, or the one in its usual place. */
export const withClient = <A, E, R>(
  url: Option.Option<string>,
  use: (client: Client["Type"]) => Effect.Effect<A, E, R>,
  config?: Partial<ClientConfig>
) =>
  Effect.provide(
    Effect.flatMap(Client, use),
    layerWebSocket({ ...Option.match(url, { onNone: () => ({}), onSome: (url) => ({ url }) }), ...config }).pipe(
      Layer.provide(NodeSocket.layerWebSocketConstructor)
    )
  )

export const wait = (options: Remote & { readonly run: string; readonly timeout: Option.Option<Duration.Duration> }) =>
  withClient(options.url, (client) =>
    Effect.gen(function*() {
      const result = yield* client.waitFor(options.run, { timeout: Option.getOrUndefined(options.timeout) })
      if (options.json) yield* Terminal.json(result)
      else if (result.reply !== undefined) yield* Terminal.line(result.reply)
      yield* conclude(result)
    }))

export const abort = (options: Remote & { readonly run: string }) =>
  withClient(options.url, (client) =>
    Effect.gen(function*() {
      const result = yield* client.abort(options.run)
      if (options.json) return yield* Terminal.json(result)
      switch (result.status) {
        case "aborting":
          return yield* Terminal.line("The run is ending.")
        case "cancelled":
          return yield* Terminal.line("The message was waiting, and will not run.")
        case "delivering":
          return yield* Terminal.line("Too late: the reply is on its way.")
        case "settled":
          return yield* Terminal.line(`The run had ended before${result.outcome ? ` (${result.outcome})` : ""}.`)
      }
    }))

export const health = (options: Remote) =>
  withClient(options.url, (client) =>
    Effect.gen(function*() {
      const health = yield* client.health
      if (options.json) return yield* Terminal.json(health)
      yield* Terminal.line(
        `${health.status}: version ${health.version}, process ${health.pid}, up for ${seconds(health.uptimeMs)}, ` +
          `model ${health.model}, ${count(health.activeSessions, "active session")}, ${
            count(health.activeRuns, "active run")
          }`
      )
    }))

export const sessionsList = (options: Remote) =>
  withClient(options.url, (client) =>
    Effect.gen(function*() {
      const rows: Array<SessionInfo> = []
      let after: string | undefined
      do {
        const page = yield* client.sessions.list({ after })
        if (options.json) yield* Effect.forEach(page.sessions, Terminal.json, { discard: true })
        else for (const session of page.sessions) rows.push(session)
        after = page.next ?? undefined
      } while (after !== undefined)
      if (options.json) return
      if (rows.length === 0) return yield* Terminal.note("There are no sessions yet; a first message makes one.")
      yield* Terminal.line(sessionTable(rows).join("\n"))
    }))

/**
 * A heading and a line for each session. A long key does not widen the column for all.
 */
export const sessionTable = (sessions: ReadonlyArray<SessionInfo>): ReadonlyArray<string> => {
  const width = sessions.reduce((width, { sessionKey }) => Math.max(width, Math.min(sessionKey.length, 40)), 7)
  const row = (key: string, changed: string, waiting: string, state: string) =>
    `${key.padEnd(width)}  ${changed.padEnd(19)}  ${waiting.padStart(7)}  ${state}`
  return [
    row("SESSION", "LAST CHANGE", "WAITING", "STATE"),
    ...sessions.map(({ activeRunId, sessionKey, updatedAt, waiting }) =>
      row(
        sessionKey,
        Terminal.time(updatedAt),
        String(waiting),
        activeRunId === null ? "idle" : `running ${activeRunId}`
      )
    )
  ]
}

export const sessionsHistory = (options: Remote & { readonly key: string }) =>
  withClient(options.url, (client) =>
    Effect.gen(function*() {
      let after: number | undefined
      do {
        const page = yield* client.sessions.history(options.key, { after })
        for (const message of page.messages) {
          yield* options.json ? Terminal.json(encodeMessage(message)) : Terminal.line(messageText(message))
        }
        after = page.next ?? undefined
      } while (after !== undefined)
    }))

export const sessionsAbort = (options: Remote & { readonly key: string; readonly clearQueued: boolean }) =>
  withClient(options.url, (client) =>
    Effect.gen(function*() {
      const result = yield* client.stop(options.key, { clearQueued: options.clearQueued })
      if (options.json) return yield* Terminal.json(result)
      yield* Terminal.line(result.aborted === null ? "No run was in progress." : `Run ${result.aborted} is ending.`)
      if (options.clearQueued) yield* Terminal.line(`${count(result.cancelled.length, "waiting message")} cancelled.`)
    }))

export const queueShow = (options: Remote & { readonly key: string }) =>
  withClient(options.url, (client) =>
    Effect.gen(function*() {
      const queue = yield* client.queue(options.key)
      if (options.json) return yield* Terminal.json(queue)
      yield* Terminal.line(
        queue.active === null
          ? "No run is in progress."
          : `Run ${queue.active.runId} is ${queue.active.phase}, since ${Terminal.time(queue.active.startedAt)}.`
      )
      if (queue.rows.length === 0) return yield* Terminal.line("Nothing waits.")
      for (const row of queue.rows) {
        yield* Terminal.line(
          `${row.place}. ${row.mode}  ${row.runId}  ${Terminal.time(row.acceptedAt)}` +
            `${row.boundTo === null ? "" : `  (enters ${row.boundTo})`}  ${Terminal.oneLine(row.preview, 80)}`
        )
      }
    }))

/** As it came over the wire: content parts are classes with markers of their own. */
const encodeMessage = Schema.encodeSync(HistoryMessage)

const count = (n: number, what: string): string => `${n} ${what}${n === 1 ? "" : "s"}`

const seconds = (ms: number): string => ms < 60_000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.floor(ms / 60_000)} min`

/**
 * A message of a history as a person reads it. Ends with an empty line.
 */
export const messageText = (message: HistoryMessage): string => {
  const body = message.unreadable === true ? "(cannot be read)" : message.content.map(partText).join("\n")
  const cut = message.cut === undefined ? "" : ` (cut: ${message.cut})`
  return `[${Terminal.time(message.at)}] ${message.role}${cut}\n${Terminal.paragraphs(body)}\n`
}

const partText = (part: ContentPart): string => {
  switch (part.type) {
    case "text":
      return part.text
    case "reasoning":
      return `(thinks) ${part.text}`
    case "file":
      return `[file ${part.fileName ?? ""} ${part.mediaType}]`
    case "tool-call":
      return `→ ${part.name} ${Terminal.oneLine(JSON.stringify(part.params) ?? "", 200)}`
    case "tool-result":
      return `${part.isFailure ? "✗" : "←"} ${part.name} ${resultText(part.result)}`
  }
}

/** How much of a tool's result a history shows: lines, and characters of each. */
const shownLines = 10
const shownColumns = 200

const resultText = (result: unknown): string => {
  const text = typeof result === "string" ? result : JSON.stringify(result, null, 2) ?? ""
  const lines = Terminal.paragraphs(text).split("\n")
  const shown = lines.slice(0, shownLines)
    .map((line) => line.length > shownColumns ? `${line.slice(0, shownColumns - 1)}…` : line)
  const left = lines.length - shown.length
  if (left > 0) shown.push(`… (${count(left, "more line")}; --json shows all)`)
  return shown.length === 1 ? shown[0]! : ["", ...shown].join("\n  ")
}
