/** @internal */
import type * as Prompt from "@effect/ai/Prompt"
import type * as Response from "@effect/ai/Response"
import type { Usage } from "@switchyard/protocol/Message"
import type * as Journal from "../Journal.js"
import type { ModelPart } from "../Model.js"
import { unused } from "./text.js"

type Block = { readonly type: "text" | "reasoning"; readonly id: string; text: string } | Call

/** @internal */
export interface Call {
  readonly type: "tool-call"
  readonly id: string
  readonly name: string
  readonly params: unknown
}

type TextStream = "assistant" | "reasoning"

// Providers report what they like.
const count = (tokens: number | undefined): number => Number.isFinite(tokens) ? tokens! : 0

/**
 * One answer of the model in the making: its blocks, and why it ended.
 *
 * @internal
 */
export class Answer {
  finish: Response.FinishReason | undefined
  usage: Usage | undefined
  private blocks: Array<Block> = []
  private grown: { readonly stream: TextStream; text: string } | null = null

  constructor(private readonly publish: (stream: TextStream, text: string) => void) {}

  get calls(): ReadonlyArray<Call> {
    return this.blocks.filter((block) => block.type === "tool-call")
  }

  /** Takes one part. Gives the error that the part reports, if it does. */
  add(part: ModelPart): { readonly error: unknown } | undefined {
    switch (part.type) {
      case "text-start":
        this.blocks.push({ type: "text", id: part.id, text: "" })
        return
      case "text-delta":
        return this.grow("text", part.id, part.delta)
      case "reasoning-start":
        this.blocks.push({ type: "reasoning", id: part.id, text: "" })
        return
      case "reasoning-delta":
        return this.grow("reasoning", part.id, part.delta)
      case "tool-call": {
        // A repeated call id would pair one result with two calls.
        const id = unused(part.id, new Set(this.calls.map((call) => call.id)))
        this.blocks.push({ type: "tool-call", id, name: part.name, params: part.params ?? {} })
        return
      }
      case "finish":
        this.finish = part.reason
        this.usage = {
          inputTokens: count(part.usage.inputTokens),
          outputTokens: count(part.usage.outputTokens)
        }
        return
      case "error":
        return { error: part.error }
      default:
        return
    }
  }

  /** Publishes the text that was added since the last time: what came in one chunk is one event. */
  publishGrown(): void {
    const { grown } = this
    this.grown = null
    if (grown !== null) this.publish(grown.stream, grown.text)
  }

  /** The message as it stands, without calls unless they are to be run, and without empty text. */
  message(keepCalls: boolean): Journal.Payloads["assistant"] {
    const content = this.blocks.flatMap((block): ReadonlyArray<Prompt.AssistantMessagePartEncoded> => {
      if (block.type !== "tool-call") return block.text === "" ? [] : [{ type: block.type, text: block.text }]
      const { id, name, params } = block
      return keepCalls ? [{ type: "tool-call", id, name, params, providerExecuted: false }] : []
    })
    return { message: { role: "assistant", content } }
  }

  private grow(type: "text" | "reasoning", id: string, delta: string): undefined {
    if (delta === "") return
    let block = this.blocks.findLast((block) => block.type === type && block.id === id)
    if (block === undefined || block.type === "tool-call") {
      block = { type, id, text: "" }
      this.blocks.push(block)
    }
    block.text += delta
    const stream = type === "text" ? "assistant" : "reasoning"
    if (this.grown !== null && this.grown.stream !== stream) this.publishGrown()
    if (this.grown === null) this.grown = { stream, text: delta }
    else this.grown.text += delta
  }
}
