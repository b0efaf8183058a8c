// Fills the slot of the peer benchmark: the embedded API over SQLite, driven by a fake model.
// Run by the peer runner as `node --expose-gc runtime.mjs <job>`; prints one JSON object a line.
import * as Response from "@effect/ai/Response"
import * as Tool from "@effect/ai/Tool"
import * as Toolkit from "@effect/ai/Toolkit"
import * as Delivery from "@switchyard/core/Delivery"
import * as Hooks from "@switchyard/core/Hooks"
import * as Journal from "@switchyard/core/Journal"
import { Model } from "@switchyard/core/Model"
import * as Prompts from "@switchyard/core/Prompts"
import { layer as layerSessions, Sessions } from "@switchyard/core/Sessions"
import * as Tools from "@switchyard/core/Tools"
import { TranscriptStore } from "@switchyard/core/TranscriptStore"
import * as FileWriteLock from "@switchyard/sql/FileWriteLock"
import * as SqliteTranscriptStore from "@switchyard/sql/SqliteTranscriptStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { join } from "node:path"

const lib = process.env.BENCH_LIB
if (lib === undefined) {
  process.stderr.write("BENCH_LIB must name the runner's lib.mjs; docs/benchmarks.md says how to run this\n")
  process.exit(2)
}
const { DELTAS, FILL, runAgentPeer, SYSTEM, TOOL, USER_TEXT } = await import(lib)

let wantTool = false
const usage = new Response.Usage({ inputTokens: 1, outputTokens: 1, totalTokens: 2 })
let calls = 0

// One delta at a time, each after a turn of the microtask queue, as from a socket that is never idle.
async function* answer(request) {
  await null
  const last = request.prompt.content[request.prompt.content.length - 1]
  if (wantTool && last.role === "user") {
    calls += 1
    yield Response.toolCallPart({ id: `call-${calls}`, name: TOOL.name, params: TOOL.args, providerExecuted: false })
    yield Response.finishPart({ reason: "tool-calls", usage })
    return
  }
  yield Response.textStartPart({ id: "text" })
  for (const delta of DELTAS) {
    await null
    yield Response.textDeltaPart({ id: "text", delta })
  }
  yield Response.textEndPart({ id: "text" })
  yield Response.finishPart({ reason: "stop", usage })
}

const model = Layer.succeed(Model, {
  name: "fake",
  stream: (request) => Stream.fromAsyncIterable(answer(request), (error) => error)
})

const toolkit = Toolkit.make(
  Tool.make(TOOL.name, {
    description: TOOL.description,
    parameters: { value: Schema.String },
    success: Schema.String
  })
)
const tools = Layer.provide(Tools.layer(toolkit), toolkit.toLayer({ [TOOL.name]: () => Effect.succeed(TOOL.result) }))

await runAgentPeer({
  peer: "ours",
  open: async ({ dir }) => {
    const layer = layerSessions.pipe(
      Layer.provideMerge(SqliteTranscriptStore.layer({ filename: join(dir, "switchyard.db") })),
      Layer.provide(Layer.mergeAll(
        FileWriteLock.layerFile({ directory: join(dir, "locks") }),
        model,
        tools,
        Hooks.layerEmpty,
        Prompts.layerText(SYSTEM),
        Delivery.layerMemory
      ))
    )
    const runtime = ManagedRuntime.make(layer)
    return { runtime, sessions: await runtime.runPromise(Sessions), store: await runtime.runPromise(TranscriptStore) }
  },
  session: async (rt, id) => {
    const session = { key: id, runs: new Map(), events: 0, deltas: 0 }
    session.fiber = rt.runtime.runFork(
      rt.sessions.events({ sessionKey: id }).pipe(
        Stream.runForEachChunk((events) =>
          Effect.sync(() => {
            for (const event of events) onEvent(session, event)
          })
        )
      )
    )
    return session
  },
  turn: async (rt, session, { tool }) => {
    wantTool = tool
    const run = { events: 0, deltas: 0, text: "", tools: 0 }
    const ended = new Promise((resolve) => {
      run.resolve = resolve
    })
    session.current = run
    await rt.runtime.runPromise(rt.sessions.submit({ sessionKey: session.key, message: USER_TEXT }))
    const data = await ended
    if (data.outcome !== "completed") throw new Error(`the run ended ${data.outcome}: ${data.error?.message}`)
    if (run.text !== data.reply) throw new Error("the events and the reply differ")
    return { text: run.text, events: run.events, deltas: run.deltas, tool: run.tools === 1 }
  },
  prefill: async (rt, session, n) => {
    const entries = []
    for (let i = 0; i < n; i += 1) {
      entries.push(
        i % 2 === 0
          ? Journal.entry("consumed", 0, { message: { role: "user", content: [{ type: "text", text: FILL.user }] } })
          : Journal.entry("assistant", 0, {
            message: { role: "assistant", content: [{ type: "text", text: FILL.assistant }] }
          })
      )
    }
    const opened = [Journal.entry("opened", 0, { sessionId: session.key })]
    let follows = 0
    for (let at = 0; at < entries.length; at += 500) {
      const rows = Journal.toRows({
        session: session.key,
        activation: "prefill",
        generation: 0,
        follows,
        entries: [...(at === 0 ? opened : []), ...entries.slice(at, at + 500)]
      })
      await rt.runtime.runPromise(rt.store.append({ session: session.key, follows, rows }))
      follows += rows.length
    }
  },
  close: (rt) => rt.runtime.dispose()
})

function onEvent(session, event) {
  const run = session.current
  if (run === undefined) return
  run.events += 1
  if (event.stream === "assistant" && event.data.type === "delta") {
    run.deltas += 1
    run.text += event.data.text
  } else if (event.stream === "tool" && event.data.type === "end") run.tools += 1
  else if (event.stream === "lifecycle" && event.data.type !== "start") run.resolve(event.data)
}
