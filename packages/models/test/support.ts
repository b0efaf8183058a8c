import * as Prompt from "@effect/ai/Prompt"
import type { ModelPart } from "@switchyard/core/Model"
import * as OfflineModel from "../src/OfflineModel.js"

export type FakeTools = Record<string, (params: Record<string, string>) => string | number>

/** A failing tool throws one of these. */
export class Refused {
  constructor(readonly message: string) {}
}

/** A folder in memory, behind tools that answer like the built-in ones. */
export const memoryTools = (files: Map<string, string>): FakeTools => {
  const content = (path: string) => {
    const found = files.get(path)
    if (found === undefined) throw new Refused(`There is no file or folder ${path}.`)
    return found
  }
  return {
    read: ({ path }) => content(path!),
    count_words: ({ path }) => content(path!).split(/\s+/).filter((word) => word !== "").length,
    write: ({ content, path }) => {
      files.set(path!, content!)
      return `Wrote to ${path}.`
    },
    list: () => [...files.keys()].sort().join("\n"),
    search: ({ text }) =>
      [...files].filter(([, content]) => content.includes(text!)).map(([path]) => `${path}:1`).join("\n")
  }
}

export interface Conversation {
  messages: ReadonlyArray<Prompt.Message>
  /** Names and parameters of the calls so far. */
  readonly calls: Array<readonly [string, unknown]>
}

export const conversation = (...texts: ReadonlyArray<string>): Conversation => ({
  messages: texts.map(user),
  calls: []
})

export const user = (text: string): Prompt.Message => Prompt.userMessage({ content: [Prompt.textPart({ text })] })

export const partsOf = (
  messages: ReadonlyArray<Prompt.Message>,
  toolNames: Iterable<string>
): ReadonlyArray<ModelPart> =>
  OfflineModel.decide(Prompt.fromMessages(messages), toolNames).flatMap(({ parts }) => parts)

/**
 * Runs one step as the run loop does: the answer of the model, then its tool call. Gives the text if it was the last.
 */
export const step = (state: Conversation, tools: FakeTools): string | null => {
  const parts = partsOf(state.messages, Object.keys(tools))
  state.messages = [...state.messages, ...Prompt.fromResponseParts(parts).content]
  const call = parts.find((part) => part.type === "tool-call")
  if (call === undefined) return parts.flatMap((part) => part.type === "text-delta" ? [part.delta] : []).join("")
  state.calls.push([call.name, call.params])
  state.messages = [...state.messages, toolMessage(call.id, call.name, attempt(() => tools[call.name]!(call.params)))]
  return null
}

/** Runs steps until the reply. */
export const run = (state: Conversation, tools: FakeTools): string => {
  for (let count = 0; count < 200; count++) {
    const reply = step(state, tools)
    if (reply !== null) return reply
  }
  throw new Error("the run does not end")
}

export const toolMessage = (
  id: string,
  name: string,
  outcome: { readonly result: unknown; readonly isFailure: boolean }
) => Prompt.toolMessage({ content: [Prompt.toolResultPart({ id, name, providerExecuted: false, ...outcome })] })

const attempt = (f: () => unknown) => {
  try {
    return { result: f(), isFailure: false }
  } catch (error) {
    if (error instanceof Refused) return { result: error.message, isFailure: true }
    throw error
  }
}

export const ask = (text: string, tools: FakeTools): string => run(conversation(text), tools)
