/**
 * Places in a run where a team's own code looks on or decides.
 *
 * | hook | when | may | on failure or timeout |
 * |---|---|---|---|
 * | `before_prompt_build` | before the first model call | add context, replace or extend the system prompt | goes on without |
 * | `before_tool_call` | before each call | change the arguments, block the call | the call is denied |
 * | `agent_end` | after the run is settled | nothing | logged |
 *
 * Higher priority runs first, ties in the order of registration. The first two run one after another; the last side by
 * side. Each has a time limit (15 s; `agent_end` 30 s), at which it is interrupted.
 *
 * @since 0.1.0
 */
import type * as Prompt from "@effect/ai/Prompt"
import type { RunId, SessionKey } from "@switchyard/protocol/Ids"
import type { Outcome } from "@switchyard/protocol/Run"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/**
 * Which run a hook is asked about.
 *
 * @since 0.1.0
 * @category models
 */
export interface HookRun {
  readonly sessionKey: SessionKey
  readonly runId: RunId
}

/**
 * What `before_prompt_build` may change. Contexts of several hooks are joined; the first defined `systemPrompt` wins.
 *
 * @since 0.1.0
 * @category models
 */
export interface PromptChanges {
  readonly systemPrompt?: string | undefined
  readonly prependSystemContext?: string | undefined
  readonly appendSystemContext?: string | undefined
  readonly prependContext?: string | undefined
  readonly appendContext?: string | undefined
}

/**
 * What `before_tool_call` may decide. `block: false` is no opinion.
 *
 * @since 0.1.0
 * @category models
 */
export interface ToolDecision {
  readonly params?: unknown
  readonly block?: boolean | undefined
  readonly reason?: string | undefined
}

/**
 * The hooks that one registration brings.
 *
 * @since 0.1.0
 * @category models
 */
export interface HookMap<R = never> {
  readonly before_prompt_build?: (
    run: HookRun & { readonly messages: ReadonlyArray<Prompt.Message> }
  ) => Effect.Effect<PromptChanges | void, unknown, R>
  readonly before_tool_call?: (
    call: HookRun & { readonly callId: string; readonly name: string; readonly params: unknown }
  ) => Effect.Effect<ToolDecision | void, unknown, R>
  readonly agent_end?: (
    run: HookRun & { readonly outcome: Outcome; readonly messages: ReadonlyArray<Prompt.Message> }
  ) => Effect.Effect<void, unknown, R>
}

/**
 * One registration: hooks with a name for logs and a priority (0 if not given).
 *
 * @since 0.1.0
 * @category models
 */
export interface Registration {
  readonly name: string
  readonly priority: number
  readonly hooks: HookMap
}

/**
 * The hooks port: what the run loop calls. Merging, order, limits and failure rules are already applied; nothing fails.
 *
 * @since 0.1.0
 * @category context
 */
export class Hooks extends Context.Tag("@switchyard/core/Hooks")<Hooks, {
  readonly registrations: ReadonlyArray<Registration>
  readonly beforePromptBuild: (
    run: HookRun & { readonly messages: ReadonlyArray<Prompt.Message> }
  ) => Effect.Effect<PromptChanges>
  readonly beforeToolCall: (
    call: HookRun & { readonly callId: string; readonly name: string; readonly params: unknown }
  ) => Effect.Effect<ToolDecision>
  /** Undefined if nobody listens, so that a run need not prepare for it. */
  readonly agentEnd:
    | ((
      run: HookRun & { readonly outcome: Outcome; readonly messages: ReadonlyArray<Prompt.Message> }
    ) => Effect.Effect<void>)
    | undefined
}>() {}

/**
 * Makes the port from registrations.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (registrations: ReadonlyArray<Registration>): Hooks["Type"] => {
  const sorted = registrations.toSorted((a, b) => b.priority - a.priority)
  const having = <K extends keyof HookMap>(name: K) =>
    sorted.flatMap((registration) => {
      const hook = registration.hooks[name]
      return hook === undefined ? [] : [{ name: registration.name, hook: hook as NonNullable<HookMap[K]> }]
    })
  const builders = having("before_prompt_build")
  const guards = having("before_tool_call")
  const observers = having("agent_end")
  return {
    registrations: sorted,
    beforePromptBuild: (run) =>
      Effect.reduce(builders, {} as PromptChanges, (changes, { hook, name }) =>
        Effect.map(
          guarded("before_prompt_build", name, "15 seconds", Effect.suspend(() => hook(run))),
          (more) => more._tag === "Failed" ? changes : join(changes, more.value ?? {})
        )),
    beforeToolCall: (call) =>
      Effect.reduce(
        guards,
        {} as ToolDecision,
        (decision, { hook, name }) =>
          decision.block === true ? Effect.succeed(decision) : Effect.map(
            guarded(
              "before_tool_call",
              name,
              "15 seconds",
              Effect.suspend(() => hook("params" in decision ? { ...call, params: decision.params } : call))
            ),
            (more) => {
              if (more._tag === "Failed") {
                return { block: true, reason: `The hook "${name}" that guards this call ${more.reason}.` }
              }
              if (more.value === undefined) return decision
              if (more.value.block === true) {
                return { block: true, reason: more.value.reason ?? `The hook "${name}" does not allow this call.` }
              }
              return more.value.params === undefined ? decision : { params: more.value.params }
            }
          )
      ),
    agentEnd: observers.length === 0 ? undefined : (run) =>
      Effect.forEach(
        observers,
        ({ hook, name }) => guarded("agent_end", name, "30 seconds", Effect.suspend(() => hook(run))),
        { concurrency: "unbounded", discard: true }
      )
  }
}

/**
 * Registers hooks. Effects that the hooks need are taken from where the layer is built.
 *
 *     Hooks.layer({ before_tool_call: ({ name }) => Effect.succeed({ block: name === "write" }) }, { priority: 10 })
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = <R = never>(
  hooks: HookMap<R>,
  options?: { readonly name?: string; readonly priority?: number }
): Layer.Layer<Hooks, never, R> =>
  Layer.effect(
    Hooks,
    Effect.map(Effect.context<R>(), (context) => {
      const provided: Record<string, unknown> = {}
      for (const [name, hook] of Object.entries(hooks) as Array<[string, (input: never) => Effect.Effect<unknown>]>) {
        provided[name] = (input: never) => Effect.provide(hook(input), context as Context.Context<never>)
      }
      return make([{ name: options?.name ?? "hooks", priority: options?.priority ?? 0, hooks: provided as HookMap }])
    })
  )

/**
 * No hooks.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerEmpty: Layer.Layer<Hooks> = Layer.succeed(Hooks, make([]))

/**
 * Joins several hook layers into one. Registration order is that of the arguments.
 *
 * @since 0.1.0
 * @category layers
 */
export const merge = <R>(...layers: ReadonlyArray<Layer.Layer<Hooks, never, R>>): Layer.Layer<Hooks, never, R> =>
  Layer.scoped(
    Hooks,
    Effect.map(
      Effect.forEach(layers, (layer) => Effect.map(Layer.build(Layer.fresh(layer)), Context.get(Hooks))),
      (all) => make(all.flatMap((hooks) => hooks.registrations))
    )
  )

type Guarded<A> = { readonly _tag: "Ok"; readonly value: A } | { readonly _tag: "Failed"; readonly reason: string }

// Runs one hook within its limit. Its failure, its defect and its own interruption become a value and a log line;
// interruption of the run passes through.
const guarded = <A>(
  hook: string,
  name: string,
  limit: "15 seconds" | "30 seconds",
  effect: Effect.Effect<A, unknown>
): Effect.Effect<Guarded<A>> =>
  effect.pipe(
    Effect.map((value): Guarded<A> => ({ _tag: "Ok", value })),
    Effect.sandbox,
    Effect.catchAll((cause) =>
      Effect.as(
        Effect.logWarning("A hook failed", cause),
        { _tag: "Failed", reason: Cause.isInterruptedOnly(cause) ? "was interrupted" : "failed" } as Guarded<A>
      )
    ),
    // One that does not let itself be interrupted is left behind at its limit.
    Effect.disconnect,
    Effect.timeoutTo({
      duration: limit,
      onSuccess: (result) => Effect.succeed(result),
      onTimeout: () =>
        Effect.as(
          Effect.logWarning("A hook was interrupted at its time limit"),
          { _tag: "Failed", reason: `did not answer within ${limit}` } as Guarded<A>
        )
    }),
    Effect.flatten,
    Effect.annotateLogs({ hook, registration: name })
  )

const lines = (...texts: ReadonlyArray<string | undefined>): string | undefined => {
  const given = texts.filter((text) => text !== undefined && text !== "")
  return given.length === 0 ? undefined : given.join("\n\n")
}

const join = (a: PromptChanges, b: PromptChanges): PromptChanges => ({
  systemPrompt: a.systemPrompt ?? b.systemPrompt,
  prependSystemContext: lines(a.prependSystemContext, b.prependSystemContext),
  appendSystemContext: lines(a.appendSystemContext, b.appendSystemContext),
  prependContext: lines(a.prependContext, b.prependContext),
  appendContext: lines(a.appendContext, b.appendContext)
})
