/**
 * What the model sees of a session, folded from its journal, and what a reader of its history sees.
 *
 * The view is repaired while it is folded: a call without a result gets an error result, a result without a call is
 * left out, the calls of a message that was cut are left out. The journal itself is never changed.
 *
 * @since 0.1.0
 */
import * as Prompt from "@effect/ai/Prompt"
import type { HistoryMessage, Sender } from "@switchyard/protocol/Message"
import { unused } from "./internal/text.js"
import * as Journal from "./Journal.js"

/**
 * A transcript that grows with its session. Owned by one activation.
 *
 * @since 0.1.0
 * @category models
 */
export interface Transcript {
  readonly apply: (entry: Journal.Entry) => void
  /** The messages as they may be sent to a model now, behind `first` if given. The array is the caller's own. */
  readonly view: (first?: Prompt.Message) => Array<Prompt.Message>
  /** How many messages the view has. */
  readonly size: () => number
}

/**
 * Begins the text of a message that Switchyard itself tells the model.
 *
 * @since 0.1.0
 * @category constants
 */
export const notePrefix = "[Switchyard note] "

/**
 * The title of messages that were collected into one prompt.
 *
 * @since 0.1.0
 * @category constants
 */
export const collectTitle = "[Queued messages while agent was busy]"

/**
 * The result that the model sees for a call whose result was never recorded.
 *
 * @since 0.1.0
 * @category constants
 */
export const unknownResult =
  "The program ended before this call gave a result. Whether it took effect is unknown; check before repeating it."

/**
 * An empty transcript.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (): Transcript => {
  const messages: Array<Prompt.Message> = []
  // The calls of the last assistant message, and what is known of their results, in call order.
  let batch: {
    readonly at: number
    /** By the id that the journal has. */
    readonly calls: ReadonlyMap<string, Prompt.ToolCallPart>
    readonly results: Map<string, Prompt.ToolResultPart>
  } | null = null
  const usedIds = new Set<string>()
  let collected: Array<Journal.Payloads["consumed"]> = []

  const results = (open: NonNullable<typeof batch>, fill: boolean) =>
    Array.from(open.calls).flatMap(([id, call]) => {
      const result = open.results.get(id)
      if (result !== undefined) return [result]
      return fill
        ? [Prompt.toolResultPart({ id: call.id, name: call.name, isFailure: true, result: unknownResult } as never)]
        : []
    })
  const setResults = (fill: boolean) => {
    if (batch === null) return
    const content = results(batch, fill)
    if (content.length > 0) messages[batch.at] = Prompt.toolMessage({ content })
  }
  const seal = () => {
    if (batch !== null && batch.results.size < batch.calls.size) setResults(true)
    batch = null
    if (collected.length > 0) flushCollected()
  }
  const flushCollected = () => {
    messages.push(Prompt.userMessage({ content: collectedContent(collected) }))
    collected = []
  }

  const assistant = (payload: Journal.Payloads["assistant"]) => {
    const parts = assistantParts(payload.message).filter((part) =>
      !(part.type === "tool-call" && payload.cut !== undefined) && !(part.type === "text" && part.text === "")
    )
    if (parts.length === 0) return
    // Providers refuse a repeated call id, and some repeat theirs in every answer.
    const calls = new Map<string, Prompt.ToolCallPart>()
    const kept = parts.flatMap((part): ReadonlyArray<Prompt.AssistantMessagePart> => {
      if (part.type !== "tool-call") return [part]
      if (calls.has(part.id)) return []
      const id = unused(part.id, usedIds)
      usedIds.add(id)
      const call = id === part.id ? part : Prompt.toolCallPart({ ...part, id } as never)
      calls.set(part.id, call)
      return [call]
    })
    messages.push(Prompt.assistantMessage({ content: kept }))
    if (calls.size > 0) batch = { at: messages.length, calls, results: new Map() }
  }

  return {
    apply: (entry) => {
      switch (entry.kind) {
        case "consumed": {
          const payload = entry.payload
          if (payload === undefined) {
            seal()
            messages.push(Prompt.userMessage({ content: [Prompt.textPart({ text: unreadable })] }))
            return
          }
          if (payload.collected === undefined) {
            seal()
            messages.push(Prompt.userMessage({ content: userParts(payload.message) }))
            return
          }
          if (payload.collected.index === 1) seal()
          collected.push(payload)
          if (payload.collected.index === payload.collected.of) flushCollected()
          return
        }
        case "assistant":
        case "reply":
          seal()
          if (entry.payload !== undefined) assistant(entry.payload)
          return
        case "tool_result": {
          if (batch === null || entry.payload === undefined) return
          for (const part of entry.payload.message.content) {
            const call = batch.calls.get(part.id)
            if (call === undefined || batch.results.has(part.id)) continue
            batch.results.set(part.id, toolResult({ ...part, id: call.id }))
          }
          setResults(false)
          return
        }
        case "note":
          seal()
          messages.push(Prompt.userMessage({
            content: [Prompt.textPart({ text: notePrefix + (entry.payload?.text ?? unreadable) })]
          }))
          return
        default:
          return
      }
    },
    view: (first) => {
      seal()
      return first === undefined ? messages.slice() : [first, ...messages]
    },
    size: () => {
      seal()
      return messages.length
    }
  }
}

const unreadable = "[This message could not be read from the store.]"

const collectedContent = (payloads: ReadonlyArray<Journal.Payloads["consumed"]>): Array<Prompt.UserMessagePart> => {
  const files: Array<Prompt.UserMessagePart> = []
  const blocks = payloads.map((payload, index) => {
    const parts = userParts(payload.message)
    for (const part of parts) if (part.type === "file") files.push(part)
    const text = parts.flatMap((part) => part.type === "text" ? [part.text] : []).join("\n")
    return `---\n\nQueued #${index + 1}${from(payload.sender)}\n\n${text}`
  })
  return [Prompt.textPart({ text: [collectTitle, ...blocks].join("\n\n") }), ...files]
}

const from = (sender: Sender | undefined) => sender === undefined ? "" : ` (from ${sender.name ?? sender.id})`

const userParts = (message: Prompt.UserMessageEncoded): Array<Prompt.UserMessagePart> =>
  typeof message.content === "string"
    ? [Prompt.textPart({ text: message.content })]
    : message.content.map((part) => Prompt.makePart(part.type, part as never) as Prompt.UserMessagePart)

const assistantParts = (message: Prompt.AssistantMessageEncoded): Array<Prompt.AssistantMessagePart> =>
  typeof message.content === "string"
    ? [Prompt.textPart({ text: message.content })]
    : message.content.map((part) =>
      part.type === "tool-call"
        ? Prompt.toolCallPart({ ...part, providerExecuted: part.providerExecuted ?? false } as never)
        : Prompt.makePart(part.type, part as never) as Prompt.AssistantMessagePart
    )

const toolResult = (part: Prompt.ToolResultPartEncoded): Prompt.ToolResultPart => Prompt.toolResultPart(part as never)

/**
 * The text of an assistant message.
 *
 * @since 0.1.0
 * @category getters
 */
export const textOf = (message: Prompt.AssistantMessageEncoded): string =>
  typeof message.content === "string"
    ? message.content
    : message.content.flatMap((part) => part.type === "text" ? [part.text] : []).join("")

/**
 * What a reader of the history sees of a row; undefined for rows that are not messages.
 *
 * @since 0.1.0
 * @category decoding
 */
export const toHistory = (row: Journal.Row): HistoryMessage | undefined => {
  const role = roles[row.kind]
  if (role === undefined) return undefined
  const entry = Journal.fromRow(row)
  const base = { seq: row.seq, runId: row.run, at: row.at, role }
  switch (entry.kind) {
    case "consumed":
      if (entry.payload === undefined) break
      return {
        ...base,
        content: userParts(entry.payload.message),
        ...(entry.payload.sender === undefined ? {} : { sender: entry.payload.sender })
      }
    case "assistant":
    case "reply":
      if (entry.payload === undefined) break
      return {
        ...base,
        content: assistantParts(entry.payload.message),
        ...(entry.payload.cut === undefined ? {} : { cut: entry.payload.cut })
      }
    case "tool_result":
      if (entry.payload === undefined) break
      return { ...base, content: entry.payload.message.content.map(toolResult) }
    case "note":
      if (entry.payload === undefined) break
      return { ...base, content: [Prompt.textPart({ text: entry.payload.text })] }
  }
  return { ...base, content: [Prompt.textPart({ text: unreadable })], unreadable: true }
}

const roles: { readonly [K in Journal.Kind]?: HistoryMessage["role"] } = {
  consumed: "user",
  assistant: "assistant",
  reply: "assistant",
  tool_result: "tool",
  note: "note"
}
