/**
 * The tools that the model may use, built on `@effect/ai` `Tool` and `Toolkit`.
 *
 * @since 0.1.0
 */
import type * as Tool from "@effect/ai/Tool"
import type * as Toolkit from "@effect/ai/Toolkit"
import type { RunId, SessionKey } from "@switchyard/protocol/Ids"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/**
 * Marks a tool that must not run beside others: its whole batch then runs one call after another, in order.
 *
 *     Tool.make("deploy", { … }).annotate(Tools.Sequential, true)
 *
 * @since 0.1.0
 * @category annotations
 */
export class Sequential extends Context.Reference<Sequential>()("@switchyard/core/Tools/Sequential", {
  defaultValue: () => false as boolean
}) {}

/**
 * Which call is being run. Handlers may ask for it: it is in the context of each call.
 *
 * @since 0.1.0
 * @category context
 */
export class ToolCall extends Context.Tag("@switchyard/core/Tools/ToolCall")<ToolCall, {
  readonly sessionKey: SessionKey
  readonly runId: RunId
  readonly callId: string
  readonly name: string
  /** Tells followers how far the call is. Never fails, never waits. */
  readonly progress: (text: string) => Effect.Effect<void>
}>() {}

/**
 * What a call came to. `result` is JSON; `isFailure` marks one that the model is told failed.
 *
 * @since 0.1.0
 * @category models
 */
export interface ToolOutcome {
  readonly result: unknown
  readonly isFailure: boolean
}

/**
 * The toolkit port. `call` never fails: a wrong name, wrong arguments or a failing handler come back as an outcome that
 * the model can act on. Defects and interruption pass through.
 *
 * @since 0.1.0
 * @category context
 */
export class Tools extends Context.Tag("@switchyard/core/Tools")<Tools, {
  readonly tools: ReadonlyArray<Tool.Any>
  readonly call: (name: string, params: unknown) => Effect.Effect<ToolOutcome, never, ToolCall>
}>() {}

const failure = (text: string): ToolOutcome => ({ result: text, isFailure: true })

/**
 * Makes the port from a toolkit whose handlers are provided. The toolkit's requirements are met from where the port is
 * made, except {@link ToolCall}, which each call brings.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = <Kit extends Record<string, Tool.Any>>(
  toolkit: Toolkit.Toolkit<Kit>
): Effect.Effect<Tools["Type"], never, Tool.HandlersFor<Kit>> =>
  Effect.map(toolkit, (handlers) => {
    const handle = handlers.handle as (
      name: string,
      params: unknown
    ) => Effect.Effect<Tool.HandlerResult<Tool.Any>, { readonly message?: string; readonly description?: string }>
    const tools = Object.values(toolkit.tools)
    const names = tools.map((tool) => tool.name)
    return {
      tools,
      call: (name, params) =>
        names.includes(name)
          ? handle(name, params).pipe(
            Effect.map(({ encodedResult, isFailure }) => ({ result: encodedResult as unknown, isFailure })),
            Effect.catchAll((error) => Effect.succeed(failure(describe(error))))
          )
          : Effect.succeed(failure(`There is no tool "${name}". The tools are: ${names.join(", ")}.`))
    }
  })

/**
 * @since 0.1.0
 * @category layers
 */
export const layer = <Kit extends Record<string, Tool.Any>>(
  toolkit: Toolkit.Toolkit<Kit>
): Layer.Layer<Tools, never, Tool.HandlersFor<Kit>> => Layer.effect(Tools, make(toolkit))

/**
 * No tools at all.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerEmpty: Layer.Layer<Tools> = Layer.succeed(Tools, {
  tools: [],
  call: (name) => Effect.succeed(failure(`There is no tool "${name}".`))
})

const describe = (error: { readonly message?: string; readonly description?: string; readonly cause?: unknown }) => {
  const cause = error.cause
  const detail = cause instanceof Error && cause.message !== "" ? `: ${cause.message}` : ""
  return (error.description ?? error.message ?? "The tool failed") + detail
}
