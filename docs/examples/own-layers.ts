import { Response } from "@effect/ai"
import { Delivery, Hooks, Model, Prompts, Sessions, SessionWriteLock, Tools, TranscriptStore } from "@switchyard/core"
import { Effect, Layer, Stream } from "effect"

export const seen: Array<string> = [] // what each model call saw
export const stored: Array<string> = [] // what the journal got

const usage = new Response.Usage({ inputTokens: 1, outputTokens: 1, totalTokens: 2 })
const erase = Response.toolCallPart({ id: "1", name: "erase", params: {} as never, providerExecuted: false })
const answer = Response.textDeltaPart({ id: "1", delta: "It costs 7." })

const OwnModel = Layer.succeed(Model.Model, {
  name: "own",
  stream: ({ prompt, step }) => {
    seen.push(JSON.stringify(prompt.content))
    return step === 1
      ? Stream.make(erase, Response.finishPart({ reason: "tool-calls", usage }))
      : Stream.make(answer, Response.finishPart({ reason: "stop", usage }))
  }
})

const OwnHooks = Hooks.layer({
  before_prompt_build: () => Effect.succeed({ appendContext: "Prices are in euros." }),
  before_tool_call: ({ name }) => Effect.succeed({ block: name === "erase", reason: "Nothing is erased here." })
})

const OwnStore = Layer.effect(
  TranscriptStore.TranscriptStore,
  Effect.map(TranscriptStore.makeMemory, (memory) => ({
    ...memory,
    append: (append) => Effect.tap(memory.append(append), () => append.rows.forEach((row) => stored.push(row.kind)))
  }))
)

export const program = Effect.gen(function*() {
  const sessions = yield* Sessions.Sessions
  const { runId } = yield* sessions.submit({ sessionKey: "shop", message: "What does it cost?" })
  return yield* sessions.wait({ runId })
}).pipe(Effect.provide(Layer.provide(
  Sessions.layer,
  [
    OwnModel,
    OwnHooks,
    OwnStore,
    Tools.layerEmpty,
    Prompts.layerDefault,
    Delivery.layerMemory,
    SessionWriteLock.layerMemory
  ]
)))
