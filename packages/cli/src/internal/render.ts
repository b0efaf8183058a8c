/**
 * Turns the events of a run into what a person reads: the text on standard output as it comes, what the tools do dimmed
 * on standard error.
 *
 * @since 0.1.0
 */
import type { AgentEvent } from "@switchyard/protocol/AgentEvent"
import { oneLine } from "./terminal.js"

/** One piece of output. A `note` is a line of its own. */
export type Piece =
  | { readonly _tag: "text"; readonly text: string }
  | { readonly _tag: "note"; readonly text: string }

export interface Renderer {
  readonly render: (event: AgentEvent) => ReadonlyArray<Piece>
  /**
   * What is left to print at the end: what is missing of the reply, if that is known, and the end of the line.
   */
  readonly end: (reply?: string) => ReadonlyArray<Piece>
}

const text = (text: string): Piece => ({ _tag: "text", text })
const note = (text: string): Piece => ({ _tag: "note", text })

/**
 * For the events of one run. What stands on a terminal cannot be taken back: text that comes again after a reset is held
 * back for as long as it says what is there already.
 */
export const make = (runId: string): Renderer => {
  /** The run, and those that its message joined. */
  const runs = new Set<string>([runId])
  /** The text of the open message since the last reset. */
  let open = ""
  /** What the terminal shows of the open message, or of the one that a reset took back. */
  let screen = ""
  /** `screen` is a whole message, which cannot be continued but may come again. */
  let ended = false
  /** The last message that ended, or the reply that took its place. The terminal shows it. */
  let message = ""
  /** The open message of a run that is not known to be followed. */
  let foreign: { readonly runId: string | null; readonly text: string } | undefined
  let atLineStart = true

  const print = (more: string): ReadonlyArray<Piece> => {
    if (more === "") return []
    atLineStart = more.endsWith("\n")
    return [text(more)]
  }
  const endLine = (): ReadonlyArray<Piece> => atLineStart ? [] : print("\n")
  const aside = (line: string): ReadonlyArray<Piece> => [...endLine(), note(line)]

  /** The open message is `whole` so far, or in the end: prints what the terminal does not show of it. */
  const extend = (whole: string, complete: boolean): ReadonlyArray<Piece> => {
    open = whole
    if (complete ? screen === whole : screen.startsWith(whole)) return []
    if (!ended && whole.startsWith(screen)) {
      const missing = whole.slice(screen.length)
      screen = whole
      return print(missing)
    }
    const before = ended ? endLine() : aside("(the answer starts again)")
    screen = whole
    ended = false
    return [...before, ...print(whole)]
  }

  const close = (): ReadonlyArray<Piece> => {
    message = open
    open = ""
    screen = ""
    ended = false
    return endLine()
  }

  /** The reply is known: prints what the terminal does not show of it. */
  const settle = (whole: string): ReadonlyArray<Piece> => {
    const isShown = whole.trim() === "" || whole.trim() === message.trim()
    return isShown ? endLine() : [...extend(whole, true), ...close()]
  }

  return {
    render: (event) => {
      switch (event.stream) {
        case "assistant":
          if (foreign !== undefined && event.runId === foreign.runId) {
            // The gateway sends what is followed only, so this run is.
            open = foreign.text
            foreign = undefined
          }
          switch (event.data.type) {
            case "delta":
              return extend(open + event.data.text, false)
            case "text":
              return [...extend(event.data.text, true), ...close()]
            case "reset":
              open = ""
              return []
          }
          return []
        case "tool":
          return event.data.type === "start"
            ? aside(`→ ${oneLine(event.data.name, 64)} ${oneLine(JSON.stringify(event.data.params) ?? "", 160)}`)
            : event.data.type === "end" && event.data.isError
            ? aside(`✗ ${oneLine(event.data.name, 64)}: ${oneLine(event.data.text, 160)}`)
            : []
        case "reply":
          return settle(event.data.text)
        case "lifecycle":
          return event.data.type === "start" ? [] : settle(event.data.reply ?? "")
        case "stream": {
          // Earlier events are gone; the text of the open message is not, but it may be that of another run.
          const { activeRunId, text } = event.data
          open = ""
          if (screen === "" && message !== "") {
            screen = message
            ended = true
          }
          const isOurs = activeRunId !== null && runs.has(activeRunId)
          foreign = isOurs ? undefined : { runId: activeRunId, text }
          return isOurs && text !== "" ? extend(text, false) : []
        }
        case "queue":
          if ("into" in event.data) runs.add(event.data.into)
          return event.data.type === "steered" || event.data.type === "merged"
            ? aside(`(joined the run in progress, ${event.data.into})`)
            : event.data.type === "accepted" && event.data.disposition === "queued"
            ? aside("(waits for the run in progress)")
            : []
        default:
          return []
      }
    },
    end: (reply = "") => settle(reply)
  }
}
