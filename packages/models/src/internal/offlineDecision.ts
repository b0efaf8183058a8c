/**
 * From a prompt to the next step of the offline model.
 *
 * The open messages are the user messages since the last answer, an assistant message without tool calls, or since the
 * run that Switchyard says was cut short. Each is worked on by its own plan. What came last is worked on first, since a
 * message that enters a run is meant to be heard now; what came together is worked on in its order. When every plan has
 * its answer, one reply gives all of them in the order in which the messages came.
 *
 * The id of a call ends with the number of its message among the open ones and of its step, so that results find back.
 */
import type * as Prompt from "@effect/ai/Prompt"
import { collectTitle, notePrefix } from "@switchyard/core/Transcript"
import { parse } from "./offlineGrammar.js"
import { answer, type Call, helpText, type Piece, type Result } from "./offlineTasks.js"

export type Decision =
  | { readonly _tag: "Call"; readonly id: string; readonly call: Call }
  | { readonly _tag: "Reply"; readonly pieces: ReadonlyArray<Piece> }

interface Open {
  readonly text: string
  /** Messages that came together have the same number; later ones have a higher one. */
  readonly batch: number
}

export const decide = (prompt: Prompt.Prompt, toolNames: Iterable<string>): Decision => {
  const { calls, messages, results } = read(prompt)
  const tools = new Set(toolNames)
  const work = messages.map(({ batch, text }, index) => ({
    batch,
    index,
    state: progress(answer(parse(text), tools), (step) => results.get(`${index + 1}-${step}`))
  }))
  const order = [...work].sort((a, b) => b.batch - a.batch || a.index - b.index)
  for (const { index, state } of order) {
    if (state._tag === "Waits") {
      return { _tag: "Call", id: `call-${calls + 1}-${index + 1}-${state.step}`, call: state.call }
    }
  }
  const pieces: Array<Piece> = []
  for (const { state } of work) {
    if (state._tag === "Waits") continue
    const before = pieces[pieces.length - 1]
    if (before !== undefined) pieces.push({ text: before.text.endsWith("\n") ? "\n" : "\n\n", delayMs: 0 })
    for (const piece of state.pieces) pieces.push(piece)
  }
  return { _tag: "Reply", pieces: pieces.length === 0 ? [{ text: helpText, delayMs: 0 }] : pieces }
}

/** Runs a plan as far as the results go. */
const progress = (
  plan: Generator<Call, ReadonlyArray<Piece>, Result>,
  resultOf: (step: number) => Result | undefined
) => {
  let next = plan.next()
  for (let step = 1;; step++) {
    if (next.done === true) return { _tag: "Answered", pieces: next.value } as const
    const result = resultOf(step)
    if (result === undefined) return { _tag: "Waits", step, call: next.value } as const
    next = plan.next(result)
  }
}

const read = (prompt: Prompt.Prompt) => {
  let messages: Array<Open> = []
  let results = new Map<string, Result>()
  let calls = 0
  let batch = 0
  let closed = false
  const close = () => {
    messages = []
    results = new Map()
    closed = false
  }
  for (const message of prompt.content) {
    switch (message.role) {
      case "system":
        break
      case "user": {
        const text = message.content.flatMap((part) => part.type === "text" ? [part.text] : []).join("\n")
        if (text.startsWith(notePrefix.trim())) {
          // Says that the run before ended early: what it was asked counts as dealt with once something new is asked.
          closed = true
          break
        }
        if (closed) close()
        for (const block of blocks(text)) messages.push({ text: block, batch })
        break
      }
      case "assistant": {
        closed = false
        batch++
        const asked = message.content.filter((part) => part.type === "tool-call").length
        calls += asked
        if (asked === 0 && message.content.some((part) => part.type === "text")) close()
        break
      }
      case "tool":
        for (const { id, isFailure, result } of message.content) {
          const key = /^call-\d+-(\d+-\d+)$/.exec(id)?.[1]
          if (key !== undefined && !(isFailure && isSkipped(result))) results.set(key, { isFailure, result })
        }
    }
  }
  return { messages, results, calls }
}

/** A call that was not made because a newer message came is made later. */
const isSkipped = (result: unknown) => typeof result === "string" && result.startsWith("Skipped")

/** The messages in one that was collected from several. */
const blocks = (text: string): ReadonlyArray<string> =>
  text.startsWith(collectTitle)
    ? text.split(/\n\s*---\s*\n\s*(?=Queued #\d)/).slice(1).map((block) => block.replace(/^Queued #\d.*\n?/, "").trim())
    : [text]
