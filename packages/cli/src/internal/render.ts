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
  /** What is left to print at the end, for example the end of the line. */
  readonly end: () => ReadonlyArray<Piece>
}

const text = (text: string): Piece => ({ _tag: "text", text })
const note = (text: string): Piece => ({ _tag: "note", text })

export const make = (): Renderer => {
  /** The text of the message that is open, as printed. */
  let open = ""
  /** The last message that ended. */
  let last = ""
  let atLineStart = true

  const print = (more: string): ReadonlyArray<Piece> => {
    if (more === "") return []
    atLineStart = more.endsWith("\n")
    return [text(more)]
  }
  const endLine = (): ReadonlyArray<Piece> => atLineStart ? [] : print("\n")
  const aside = (line: string): ReadonlyArray<Piece> => [...endLine(), note(line)]

  /** The whole of the open message is known: prints what is missing of it. */
  const complete = (whole: string): ReadonlyArray<Piece> => {
    if (whole.startsWith(open)) {
      const missing = whole.slice(open.length)
      open = whole
      return print(missing)
    }
    const before = endLine()
    open = whole
    return [...before, ...print(whole)]
  }

  const close = (): ReadonlyArray<Piece> => {
    last = open
    open = ""
    return endLine()
  }

  return {
    render: (event) => {
      switch (event.stream) {
        case "assistant":
          switch (event.data.type) {
            case "delta":
              open += event.data.text
              return print(event.data.text)
            case "text":
              return [...complete(event.data.text), ...close()]
            case "reset": {
              const was = open
              open = ""
              return was === "" ? [] : aside("(the model starts this answer again)")
            }
          }
          return []
        case "tool":
          return event.data.type === "start"
            ? aside(`→ ${oneLine(event.data.name, 64)} ${oneLine(JSON.stringify(event.data.params) ?? "", 160)}`)
            : event.data.type === "end" && event.data.isError
            ? aside(`✗ ${oneLine(event.data.name, 64)}: ${oneLine(event.data.text, 160)}`)
            : []
        case "reply": {
          const shown = last.trim() === event.data.text.trim() || last.trim().endsWith(event.data.text.trim())
          if (shown) return []
          return [...endLine(), ...print(event.data.text), ...endLine()]
        }
        case "stream":
          // Earlier events are gone; the text of the open message is not.
          return complete(event.data.text)
        case "queue":
          return event.data.type === "steered" || event.data.type === "merged"
            ? aside(`(joined the run in progress, ${event.data.into})`)
            : event.data.type === "accepted" && event.data.disposition === "queued"
            ? aside("(waits for the run in progress)")
            : []
        default:
          return []
      }
    },
    end: endLine
  }
}
