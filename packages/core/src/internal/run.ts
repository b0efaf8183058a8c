/** @internal */
import * as Prompt from "@effect/ai/Prompt"
import type * as Response from "@effect/ai/Response"
import type { RunId, SessionKey } from "@switchyard/protocol/Ids"
import type { Route, Usage } from "@switchyard/protocol/Message"
import type { RunError } from "@switchyard/protocol/Run"
import * as Cause from "effect/Cause"
import type * as Chunk from "effect/Chunk"
import * as Context from "effect/Context"
import * as DefaultServices from "effect/DefaultServices"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as Tracer from "effect/Tracer"
import type { Delivery } from "../Delivery.js"
import type { Channel } from "../EventHub.js"
import type { Hooks, PromptChanges } from "../Hooks.js"
import * as Journal from "../Journal.js"
import type { Lanes } from "../Lanes.js"
import type { Model } from "../Model.js"
import { ModelError } from "../Model.js"
import type { Prompts } from "../Prompts.js"
import type * as QueuePolicy from "../QueuePolicy.js"
import type * as Settings from "../Settings.js"
import type { Tools } from "../Tools.js"
import { Sequential, ToolCall } from "../Tools.js"
import type { Transcript } from "../Transcript.js"
import { textOf } from "../Transcript.js"
import { Answer, type Call } from "./answer.js"
import { shorten } from "./text.js"

/** @internal */
export interface RunServices {
  readonly model: Model["Type"]
  readonly tools: Tools["Type"]
  readonly hooks: Hooks["Type"]
  readonly prompts: Prompts["Type"]
  readonly delivery: Delivery["Type"]
  readonly lanes: Lanes["Type"]
  readonly settings: Settings.Values
}

/**
 * What a run may ask of its actor. All of it carries the run's token; once that is void, nothing is written.
 *
 * @internal
 */
export interface RunPort {
  readonly boundary: (boundary: QueuePolicy.Boundary) => Effect.Effect<QueuePolicy.Reply>
  readonly append: (entries: ReadonlyArray<Journal.Entry>) => void
  readonly end: (end: QueuePolicy.End) => void
  /** The run left its lane and is being prepared: its deadline counts from here. */
  readonly preparing: () => void
  readonly now: () => number
}

/** @internal */
export interface RunInfo {
  readonly sessionKey: SessionKey
  readonly runId: RunId
  readonly route: Route | null
  readonly model: string | null
}

/**
 * One run as its actor sees it: what to fork, and what is known of it when it is cut short.
 *
 * @internal
 */
export class Run {
  /** Whether it left its lane. */
  isPrepared = false
  // a run that was detached publishes nothing more
  private detached = false
  private giveBack: (() => void) | undefined
  private answer: Answer
  private openCalls = new Map<string, Call>()
  private readonly started = new Set<string>()
  private usage: Usage | undefined
  private changes: PromptChanges = {}

  constructor(
    private readonly info: RunInfo,
    private readonly services: RunServices,
    private readonly port: RunPort,
    private readonly transcript: Transcript,
    private readonly channel: Channel
  ) {
    this.answer = this.newAnswer()
  }

  /** Executes the run and reports its end. Never fails; interrupting it is how it is aborted. */
  readonly execute: Effect.Effect<void> = Effect.suspend(() =>
    Effect.uninterruptibleMask((restore) =>
      restore(this.services.lanes.take).pipe(
        Effect.flatMap((giveBack) => {
          this.giveBack = giveBack
          return Effect.ensuring(restore(this.work), Effect.sync(giveBack))
        }),
        spanned("Session.run", () => ({ "session.id": this.info.sessionKey, "run.id": this.info.runId })),
        Effect.exit,
        Effect.flatMap((exit) => Exit.isSuccess(exit) ? Effect.void : this.fail(exit.cause))
      )
    )
  )

  /** The run has lost its session: it publishes nothing more, and its permit goes to another. */
  detach(): void {
    this.detached = true
    this.giveBack?.()
  }

  /** How the run stands if it ends now: its partial text, results for its open calls. */
  endNow(outcome: QueuePolicy.End["outcome"], error?: RunError): QueuePolicy.End {
    if (!this.detached) this.channel.endMessage(this.info.runId)
    const partial = this.answer.message(false)
    this.answer = this.newAnswer()
    const now = this.port.now()
    const results = Array.from(this.openCalls.values(), (call) => {
      if (!this.started.has(call.id)) this.publishToolStart(call)
      this.publishToolEnd(call, true, abortedResult)
      return this.resultEntry(call, true, abortedResult, now)
    })
    this.openCalls.clear()
    return {
      outcome,
      results,
      reply: textOf(partial.message).trim() === "" ? null : partial,
      note: null,
      error,
      usage: this.usage
    }
  }

  private readonly fail = (cause: Cause.Cause<ModelError>): Effect.Effect<void> => {
    const failure = Cause.failureOption(cause)
    if (Option.isSome(failure)) {
      const { code, message } = failure.value
      return Effect.sync(() => this.port.end(this.endNow("failed", { code: `model_${code}`, message })))
    }
    if (Cause.isInterrupted(cause)) return Effect.sync(() => this.port.end(this.endNow("interrupted")))
    return Effect.zipRight(
      Effect.logError("A run failed because of a fault in the program", cause),
      Effect.sync(() =>
        this.port.end(this.endNow("failed", {
          code: "internal",
          message: "The run failed because of a fault in the program; its log has the details."
        }))
      )
    )
  }

  // --- the loop ---

  private readonly work: Effect.Effect<void, ModelError> = Effect.suspend(() => this.loop())

  private loop = Effect.fnUntraced(function*(this: Run) {
    this.isPrepared = true
    this.port.preparing()
    const system = yield* this.services.prompts.system(this.info)
    const firstOwn = this.transcript.size()
    yield* this.enter({ _tag: "first" })
    this.changes = this.services.hooks.registrations.length === 0
      ? {}
      : yield* this.services.hooks.beforePromptBuild({ ...this.info, messages: this.transcript.view() })
    // A boundary that has just been passed is not passed again.
    let passed = true
    for (let step = 1;; step += 1) {
      if (!passed) yield* this.enter({ _tag: "step" })
      const finish = yield* this.callModel(step, system, firstOwn)
      const { calls } = this.answer
      if (finish === "tool-calls" && calls.length > 0) {
        passed = yield* this.runTools(calls)
        continue
      }
      // Calls of an answer that was not ended to run tools are not kept.
      const reply = this.answer.message(false)
      const closed = yield* this.port.boundary({
        _tag: "last",
        reply: finish === "length" ? { ...reply, cut: "length" } : reply,
        route: this.info.route,
        usage: this.usage
      })
      if (closed._tag === "Entered" || closed._tag === "Closed") this.answer = this.newAnswer()
      if (closed._tag === "Entered") {
        passed = true
        continue
      }
      if (closed._tag !== "Closed") return yield* Effect.interrupt
      if (!closed.settled) yield* this.deliver(textOf(reply.message))
      return
    }
  })

  // Takes what may enter at a boundary. A run whose token is void has no business here any more.
  private enter = (boundary: QueuePolicy.Boundary) =>
    Effect.flatMap(
      this.port.boundary(boundary),
      (reply) => reply._tag === "Entered" ? Effect.succeed(reply.messages.length > 0) : Effect.interrupt
    )

  private deliver(text: string): Effect.Effect<void> {
    const { route } = this.info
    const ended = { outcome: "completed", results: [], reply: null, note: null, usage: this.usage } as const
    if (route === null || text.trim() === "") return Effect.sync(() => this.port.end(ended))
    return this.services.delivery.send({ ...this.info, route, text }).pipe(
      Effect.as("confirmed" as const),
      Effect.catchAll((error) => Effect.as(Effect.logWarning(error.message), "failed" as const)),
      // A send that dies may have sent.
      Effect.catchAllDefect((defect) => Effect.as(Effect.logError("A delivery died", defect), "unknown" as const)),
      // One that does not let itself be interrupted is left behind at the limit.
      Effect.disconnect,
      Effect.timeoutTo({
        duration: this.services.settings.deliveryTimeoutMs,
        onSuccess: (status) => status,
        onTimeout: () => "unknown" as const
      }),
      Effect.map((delivery) => this.port.end({ ...ended, delivery }))
    )
  }

  // --- the model ---

  private callModel(
    step: number,
    system: string,
    firstOwn: number
  ): Effect.Effect<Response.FinishReason, ModelError> {
    return Effect.suspend(() => {
      const answer = this.answer = this.newAnswer()
      return this.services.model.stream({
        sessionKey: this.info.sessionKey,
        runId: this.info.runId,
        step,
        model: this.info.model,
        prompt: this.prompt(system, firstOwn),
        tools: this.services.tools.tools
      }).pipe(
        (stream) =>
          forEachChunk(stream, (parts) => {
            for (const part of parts) {
              const reported = answer.add(part)
              if (reported !== undefined) {
                return new ModelError({
                  provider: this.services.model.name,
                  code: "unknown",
                  reason: describe(reported.error),
                  cause: reported.error
                })
              }
            }
            answer.publishGrown()
            return undefined
          }),
        spanned("Model.stream", () => ({ step })),
        Effect.flatMap(() => {
          this.channel.endMessage(this.info.runId)
          const { finish } = answer
          this.addUsage(answer.usage)
          return finish === undefined || finish === "error"
            ? new ModelError({
              provider: this.services.model.name,
              code: "unavailable",
              reason: finish === "error" ? "it reported an error" : "its answer ended before it was complete"
            })
            : Effect.succeed(finish)
        })
      )
    })
  }

  private newAnswer(): Answer {
    return new Answer((stream, text) => {
      if (!this.detached) this.channel.delta(this.info.runId, stream, text)
    })
  }

  private addUsage(usage: Usage | undefined) {
    if (usage === undefined) return
    this.usage = {
      inputTokens: (this.usage?.inputTokens ?? 0) + usage.inputTokens,
      outputTokens: (this.usage?.outputTokens ?? 0) + usage.outputTokens
    }
  }

  private prompt(system: string, firstOwn: number): Prompt.Prompt {
    const { appendContext, appendSystemContext, prependContext, prependSystemContext, systemPrompt } = this.changes
    const content = [prependSystemContext, systemPrompt ?? system, appendSystemContext].filter((text) =>
      text !== undefined && text !== ""
    ).join("\n\n")
    const first = content === "" ? undefined : Prompt.systemMessage({ content })
    const messages = this.transcript.view(first)
    const at = first === undefined ? firstOwn : firstOwn + 1
    const own = messages[at]
    if (own?.role === "user" && (prependContext !== undefined || appendContext !== undefined)) {
      messages[at] = Prompt.userMessage({
        content: [
          ...(prependContext === undefined ? [] : [Prompt.textPart({ text: prependContext })]),
          ...own.content,
          ...(appendContext === undefined ? [] : [Prompt.textPart({ text: appendContext })])
        ]
      })
    }
    return Prompt.fromMessages(messages)
  }

  // --- tools ---

  // Runs the calls. True if a steer entered at a checkpoint and skipped those that had not begun.
  private runTools = Effect.fnUntraced(function*(this: Run, calls: ReadonlyArray<Call>) {
    const message = this.answer.message(true)
    this.answer = this.newAnswer()
    this.started.clear()
    for (const call of calls) this.openCalls.set(call.id, call)
    this.port.append([
      Journal.entry("assistant", this.port.now(), message, { run: this.info.runId })
    ])
    const allowed: Array<Call> = []
    for (const call of calls) {
      const decision = this.services.hooks.registrations.length === 0
        ? {}
        : yield* this.services.hooks.beforeToolCall({
          ...this.info,
          callId: call.id,
          name: call.name,
          params: call.params
        })
      if (decision.block === true) {
        this.publishToolStart(call)
        this.settleCall(call, true, decision.reason ?? "This call is not allowed.")
      } else allowed.push("params" in decision ? { ...call, params: decision.params } : call)
    }
    const sequential = allowed.some((call) => {
      const tool = this.services.tools.tools.find((tool) => tool.name === call.name)
      return tool !== undefined && Context.get(tool.annotations, Sequential)
    })
    if (!sequential) {
      if (!(yield* this.launch(allowed))) return true
      yield* Effect.forEach(allowed, (call) => this.runTool(call), { concurrency: "unbounded", discard: true })
      return false
    }
    for (let index = 0; index < allowed.length; index += 1) {
      if (!(yield* this.launch(allowed.slice(index)))) return true
      yield* this.runTool(allowed[index]!)
    }
    return false
  })

  // The checkpoint before calls run: a steer that waits here skips them all. True if they may run.
  private launch(calls: ReadonlyArray<Call>): Effect.Effect<boolean> {
    return Effect.suspend(() => {
      const now = this.port.now()
      const skipped = calls.map((call) => this.resultEntry(call, true, skippedResult, now))
      // What is skipped gets its result here or not at all: an abort in between must not give it a second one.
      return Effect.map(Effect.uninterruptible(this.enter({ _tag: "launch", skipped })), (steered) => {
        if (!steered) return true
        for (const call of calls) {
          this.publishToolStart(call)
          this.publishToolEnd(call, true, skippedResult)
          this.openCalls.delete(call.id)
        }
        return false
      })
    })
  }

  private runTool(call: Call): Effect.Effect<void> {
    const { info } = this
    return Effect.suspend(() => {
      this.publishToolStart(call)
      const handler = this.services.tools.call(call.name, call.params).pipe(
        Effect.provideService(ToolCall, {
          sessionKey: info.sessionKey,
          runId: info.runId,
          callId: call.id,
          name: call.name,
          progress: (text) =>
            Effect.sync(() => {
              if (!this.detached && this.openCalls.has(call.id)) {
                this.channel.publish(info.runId, {
                  stream: "tool",
                  data: { type: "update", callId: call.id, name: call.name, text: forEvent(text) }
                })
              }
            })
        }),
        spanned("Tool.run", () => ({ tool: call.name }))
      )
      return Effect.map(abandonable(handler, this.services.settings.abandonGraceMs), (exit) => {
        if (Exit.isSuccess(exit)) this.settleCall(call, exit.value.isFailure, exit.value.result)
        else this.settleCall(call, true, `The tool failed: ${describe(Cause.squash(exit.cause))}`)
      })
    })
  }

  private settleCall(call: Call, failed: boolean, outcome: unknown) {
    if (!this.openCalls.delete(call.id)) return
    const result = asJson(outcome)
    const isFailure = failed || result === notJson
    this.port.append([this.resultEntry(call, isFailure, result, this.port.now())])
    this.publishToolEnd(call, isFailure, result)
  }

  private resultEntry(call: Call, isFailure: boolean, result: unknown, now: number) {
    return Journal.entry("tool_result", now, {
      message: {
        role: "tool",
        content: [{ type: "tool-result", id: call.id, name: call.name, isFailure, result, providerExecuted: false }]
      }
    }, { run: this.info.runId })
  }

  private publishToolStart(call: Call) {
    this.started.add(call.id)
    if (this.detached) return
    this.channel.publish(this.info.runId, {
      stream: "tool",
      data: { type: "start", callId: call.id, name: call.name, params: call.params }
    })
  }

  private publishToolEnd(call: Call, isError: boolean, result: unknown) {
    if (this.detached) return
    const text = typeof result === "string" ? result : JSON.stringify(result) ?? ""
    this.channel.publish(this.info.runId, {
      stream: "tool",
      data: { type: "end", callId: call.id, name: call.name, isError, text: forEvent(text) }
    })
  }
}

const untraced = Context.get(DefaultServices.liveServices, Tracer.Tracer)

// A span where someone looks at spans. Effect's own tracer keeps none, so without another nothing is made.
const spanned =
  (name: string, attributes: () => Record<string, unknown>) => <A, E, R>(effect: Effect.Effect<A, E, R>) =>
    Effect.flatMap(Effect.tracer, (tracer) =>
      tracer === untraced
        ? effect
        : Effect.withSpan(effect, name, { attributes: attributes(), captureStackTrace: false }))

// Pulling is several times cheaper than running the stream through a sink, which matters at one chunk a token.
const forEachChunk = <A, E>(
  stream: Stream.Stream<A, E>,
  f: (chunk: Chunk.Chunk<A>) => E | undefined
): Effect.Effect<void, E> =>
  Effect.scoped(Effect.flatMap(Stream.toPull(stream), (pull) => {
    const next: Effect.Effect<void, Option.Option<E>> = Effect.flatMap(pull, (chunk) => {
      const error = f(chunk)
      return error === undefined ? next : Effect.fail(Option.some(error))
    })
    return Effect.catchAll(next, Option.match({ onNone: () => Effect.void, onSome: Effect.fail }))
  }))

const abortedResult = "Aborted: the run was stopped before this call finished. It may have taken effect in part."
const skippedResult = "Skipped: a newer message arrived."

const notJson = "The tool gave a result that cannot be stored."

// What cannot be written into the journal must not come near it.
const asJson = (value: unknown): unknown => {
  const text = Option.getOrUndefined(Option.liftThrowable(() => JSON.stringify(value ?? null))())
  return text === undefined ? notJson : value ?? null
}

const maxEventText = 8_000

const forEvent = (text: string) => shorten(text, maxEventText)

const describe = (error: unknown): string =>
  error instanceof Error && error.message !== "" ? error.message : typeof error === "string" ? error : "unknown error"

// Runs an effect that may refuse to be interrupted. When the caller is interrupted it waits for the effect to end, but no
// longer than the grace; what the effect comes to after that is discarded.
const abandonable = <A, E>(effect: Effect.Effect<A, E>, graceMs: number): Effect.Effect<Exit.Exit<A, E>> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(Effect.forkDaemon(Effect.interruptible(effect)), (fiber) =>
      restore(Fiber.await(fiber)).pipe(
        Effect.onInterrupt(() =>
          Fiber.interruptFork(fiber).pipe(
            Effect.zipRight(Effect.interruptible(Effect.timeoutOption(Fiber.await(fiber), graceMs)))
          )
        )
      ))
  )
