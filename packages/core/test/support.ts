import { Tool, Toolkit } from "@effect/ai"
import * as Delivery from "@switchyard/core/Delivery"
import * as EventHub from "@switchyard/core/EventHub"
import * as Hooks from "@switchyard/core/Hooks"
import * as Lanes from "@switchyard/core/Lanes"
import type { Model } from "@switchyard/core/Model"
import * as Prompts from "@switchyard/core/Prompts"
import * as SessionHost from "@switchyard/core/SessionHost"
import * as Sessions from "@switchyard/core/Sessions"
import * as SessionWriteLock from "@switchyard/core/SessionWriteLock"
import * as Settings from "@switchyard/core/Settings"
import * as Tools from "@switchyard/core/Tools"
import * as TranscriptStore from "@switchyard/core/TranscriptStore"
import type { AgentEvent } from "@switchyard/protocol/AgentEvent"
import type { HistoryMessage } from "@switchyard/protocol/Message"
import * as ScriptedModel from "@switchyard/testkit/ScriptedModel"
import type { Scope } from "effect"
import { Chunk, Deferred, Effect, Fiber, Layer, Schema, Stream } from "effect"

/** A gate that a test opens, and that tells when somebody stands at it. */
export interface Gate {
  readonly reached: Effect.Effect<void>
  readonly open: Effect.Effect<void>
  /** What the code under test runs into. */
  readonly wait: Effect.Effect<void>
}

export const gate: Effect.Effect<Gate> = Effect.map(
  Effect.all([Deferred.make<void>(), Deferred.make<void>()]),
  ([reached, opened]) => ({
    reached: Deferred.await(reached),
    open: Effect.asVoid(Deferred.succeed(opened, undefined)),
    wait: Effect.zipRight(Deferred.succeed(reached, undefined), Deferred.await(opened))
  })
)

const Echo = Tool.make("echo", {
  description: "Gives back its text.",
  parameters: { text: Schema.String },
  success: Schema.String,
  failure: Schema.String,
  failureMode: "return"
})
const Alone = Tool.make("alone", {
  description: "Like echo, but runs alone.",
  parameters: { text: Schema.String },
  success: Schema.String
}).annotate(Tools.Sequential, true)

export const toolkit = Toolkit.make(Echo, Alone)

/** Tools whose handlers run `onCall` first. */
export const tools = (onCall: (text: string) => Effect.Effect<void> = () => Effect.void) =>
  Layer.provide(
    Tools.layer(toolkit),
    toolkit.toLayer({
      echo: ({ text }) => Effect.as(onCall(text), `echo ${text}`),
      alone: ({ text }) => Effect.as(onCall(text), `alone ${text}`)
    })
  )

export interface Options {
  readonly model?: Layer.Layer<Model | ScriptedModel.ScriptedModel>
  readonly tools?: Layer.Layer<Tools.Tools>
  readonly hooks?: Layer.Layer<Hooks.Hooks>
  readonly store?: Layer.Layer<TranscriptStore.TranscriptStore>
  readonly lock?: Layer.Layer<SessionWriteLock.SessionWriteLock>
  readonly lanes?: number
  readonly prompts?: Layer.Layer<Prompts.Prompts>
  readonly settings?: Partial<Settings.Values>
}

export type World =
  | Sessions.Sessions
  | SessionHost.SessionHost
  | TranscriptStore.TranscriptStore
  | EventHub.EventHub
  | ScriptedModel.ScriptedModel
  | Delivery.Outbox

/** Everything in memory, around a scripted model. */
export const world = (
  answers: ScriptedModel.Answers,
  options: Options = {}
): Layer.Layer<World> =>
  Sessions.layerHost.pipe(
    Layer.provideMerge(SessionHost.layerLocal),
    Layer.provideMerge(Layer.mergeAll(
      options.store ?? TranscriptStore.layerMemory,
      options.model ?? ScriptedModel.layer(answers),
      options.tools ?? tools(),
      options.hooks ?? Hooks.layerEmpty,
      options.lock ?? SessionWriteLock.layerMemory,
      options.prompts ?? Prompts.layerText("system"),
      Delivery.layerMemory,
      EventHub.layer,
      Lanes.layer({ main: options.lanes ?? 8 })
    )),
    Layer.provide(Layer.orDie(Settings.layer(options.settings ?? {})))
  )

/** Waits for a run, however long its gates keep it. */
export const settled = (runId: string) =>
  Effect.flatMap(Sessions.Sessions, (sessions) => sessions.wait({ runId, timeoutMs: 1_000_000_000 }))

export const submit = (
  message: string,
  extra: { readonly [field: string]: unknown } = {},
  authority?: Parameters<Sessions.Sessions["Type"]["submit"]>[1]
) => Effect.flatMap(Sessions.Sessions, (sessions) => sessions.submit({ sessionKey: "s", message, ...extra }, authority))

/** One word per message: who said what. */
export const transcript = (sessionKey = "s") =>
  Effect.flatMap(
    Sessions.Sessions,
    (sessions) => Effect.map(sessions.history({ sessionKey, limit: 1_000 }), ({ messages }) => messages.map(line))
  )

export const line = (message: HistoryMessage): string => {
  const parts = message.content.map((part) =>
    part.type === "text" || part.type === "reasoning" ?
      part.text
      : part.type === "tool-call" ?
      `${part.name}(${JSON.stringify(part.params)})`
      : part.type === "tool-result" ?
      `${part.isFailure ? "!" : ""}${String(part.result)}`
      : part.type
  )
  return `${message.role}${message.cut === undefined ? "" : `[${message.cut}]`}: ${parts.join(" | ")}`
}

/** Follows a run to its end, in the background; the fiber gives all its events. */
export const followRun = (runId: string): Effect.Effect<
  Fiber.Fiber<ReadonlyArray<AgentEvent>, unknown>,
  never,
  Sessions.Sessions | Scope.Scope
> =>
  Effect.flatMap(Sessions.Sessions, (sessions) =>
    sessions.events({ runId }).pipe(
      Stream.runCollect,
      Effect.map(Chunk.toReadonlyArray),
      Effect.forkScoped
    ))

export const events = (runId: string) => Effect.scoped(Effect.flatMap(followRun(runId), Fiber.join))

/** `stream:type` of an event. */
export const name = (event: AgentEvent): string => `${event.stream}:${event.data.type}`

export const text = (events: ReadonlyArray<AgentEvent>): string => {
  let all = ""
  for (const event of events) {
    if (event.stream === "assistant" && event.data.type === "delta") all += event.data.text
    if (event.stream === "stream") all = event.data.text
  }
  return all
}

/** A store whose appends a test can refuse, hold back, or end for good. */
export interface FaultyStore {
  readonly layer: Layer.Layer<TranscriptStore.TranscriptStore>
  /** Runs before each append; what it fails with is what the append fails with. */
  readonly beforeAppend: (
    f: (append: TranscriptStore.Append) => Effect.Effect<void, TranscriptStore.AppendError>
  ) => Effect.Effect<void>
  /** Runs after each append that was written; what it fails with is what the caller is told. */
  readonly afterAppend: (
    f: (append: TranscriptStore.Append) => Effect.Effect<void, TranscriptStore.AppendError>
  ) => Effect.Effect<void>
  readonly appends: Effect.Effect<ReadonlyArray<TranscriptStore.Append>>
  /** The store behind it, which never fails. */
  readonly behind: TranscriptStore.TranscriptStore["Type"]
}

export const faultyStore = (
  behind?: TranscriptStore.TranscriptStore["Type"]
): Effect.Effect<FaultyStore> =>
  Effect.map(behind === undefined ? TranscriptStore.makeMemory : Effect.succeed(behind), (behind) => {
    let before: (append: TranscriptStore.Append) => Effect.Effect<void, TranscriptStore.AppendError> = () => Effect.void
    let after = before
    const appends: Array<TranscriptStore.Append> = []
    return {
      behind,
      layer: Layer.succeed(TranscriptStore.TranscriptStore, {
        ...behind,
        append: (append) =>
          Effect.suspend(() => before(append)).pipe(
            Effect.zipRight(behind.append(append)),
            Effect.zipRight(Effect.suspend(() => {
              appends.push(append)
              return after(append)
            }))
          )
      }),
      beforeAppend: (f) =>
        Effect.sync(() => {
          before = f
        }),
      afterAppend: (f) =>
        Effect.sync(() => {
          after = f
        }),
      appends: Effect.sync(() => appends.slice())
    }
  })

/**
 * Runs an effect in a world and then ends the world as a kill does: nothing that it does while it goes down reaches the
 * store.
 */
export const killedWorld = <A, E>(
  store: TranscriptStore.TranscriptStore["Type"],
  answers: ScriptedModel.Answers,
  effect: Effect.Effect<A, E, World | Scope.Scope>,
  options: Options = {}
) =>
  Effect.gen(function*() {
    const faulty = yield* faultyStore(store)
    return yield* effect.pipe(
      Effect.zipLeft(faulty.beforeAppend(() => Effect.never)),
      Effect.scoped,
      Effect.provide(world(answers, { ...options, store: faulty.layer }))
    )
  })
