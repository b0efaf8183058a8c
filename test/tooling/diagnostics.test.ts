import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { diagnose, rewriteImports, rules } from "../../scripts/diagnostics.mjs"

const imports = `
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { pipe } from "effect/Function"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"

export class A extends Context.Tag("A")<A, number>() {}
export class B extends Context.Tag("B")<B, number>() {}
export class Failure extends Schema.TaggedError<Failure>()("Failure", {}) {}
export const fallible: Effect.Effect<number, Failure> = Effect.fail(new Failure())
export const unused = [Cause.empty, Layer.empty, pipe(1, String)]
`

const plants: Record<string, string> = {
  catchAllToMapError: `export const x = fallible.pipe(Effect.catchAll((cause) => Effect.fail({ cause })))`,
  catchUnfailableEffect: `export const x = Effect.succeed(1).pipe(Effect.catchAll(() => Effect.void))`,
  classSelfMismatch: `export class X extends Context.Tag("X")<A, number>() {}`,
  deterministicKeys: `export class X extends Context.Tag("@switchyard/planted/Y")<X, number>() {}`,
  effectFnIife: `export const x = Effect.fn("x")(function*() { return yield* A })()`,
  effectFnImplicitAny: `export const x = Effect.fn("x")(function*(n) { yield* A; return n })`,
  effectGenUsesAdapter: `export const x = Effect.gen(function*(_) { return yield* _(A) })`,
  effectInFailure: `export const x = Effect.fail(Effect.succeed(1))`,
  effectInVoidSuccess: `export const x: Effect.Effect<void> = Effect.succeed(Effect.log("lost"))`,
  effectMapFlatten: `export const x = A.pipe(Effect.map((n) => Effect.succeed(n)), Effect.flatten)`,
  effectMapVoid: `export const x = A.pipe(Effect.map(() => void 0))`,
  effectSucceedWithVoid: `export const x = Effect.succeed(undefined)`,
  flatMapToMap: `export const x = A.pipe(Effect.flatMap((n) => Effect.succeed(n + 1)))`,
  floatingEffect: `export const x = Effect.gen(function*() { Effect.log("lost"); return yield* A })`,
  genericEffectServices: `export class X<T> extends Context.Tag("X")<X<any>, { readonly x: T }>() {}`,
  globalErrorInEffectCatch: `export const x = Effect.try({ try: () => 1, catch: () => new Error("which?") })`,
  globalErrorInEffectFailure: `export const x = Effect.fail(new Error("which?"))`,
  layerMergeAllWithDependencies: `
    export const x = Layer.mergeAll(Layer.succeed(A, 1), Layer.effect(B, Effect.map(A, (n) => n + 1)))`,
  lazyPromiseInEffectSync: `export const x = Effect.sync(() => Promise.resolve(1))`,
  leakingRequirements: `
    export class X extends Context.Tag("X")<X, {
      readonly one: Effect.Effect<void, never, A>
      readonly two: Effect.Effect<number, never, A>
    }>() {}`,
  missingReturnYieldStar: `
    export const x = Effect.gen(function*() { if ((yield* A) > 1) { yield* new Failure() } return 1 })
    export const y = Effect.gen(function*() { if ((yield* A) > 1) { yield* Effect.interrupt } return 1 })`,
  missingStarInYieldEffectGen: `export const x = Effect.gen(function*() { yield A })`,
  multipleEffectProvide: `
    export const x = Effect.zip(A, B).pipe(Effect.provide(Layer.succeed(A, 1)), Effect.provide(Layer.succeed(B, 1)))`,
  nonObjectEffectServiceType: `export class X extends Effect.Service<X>()("X", { succeed: 1 as any as string }) {}`,
  overriddenSchemaConstructor: `
    export class X extends Schema.Class<X>("X")({ x: Schema.Number }) { constructor() { super({ x: 1 }) } }`,
  returnEffectInGen: `export const x = Effect.gen(function*() { yield* A; return Effect.log("lost") })`,
  runEffectInsideEffect:
    `export const x = Effect.gen(function*() { yield* A; return Effect.runSync(Effect.succeed(1)) })`,
  schemaSyncInEffect: `
    export const x = Effect.gen(function*() { return Schema.decodeUnknownSync(Schema.Number)(yield* A) })`,
  scopeInLayerEffect: `
    export const x = Layer.effect(A, Effect.as(Effect.addFinalizer(() => Effect.void), 1))`,
  tryCatchInEffectGen: `
    export const x = Effect.gen(function*() { try { return yield* A } catch { return 1 } })`,
  unknownInEffectCatch: `export const x = Effect.try({ try: () => 1, catch: (error) => error })`,
  unnecessaryEffectGen: `export const x = Effect.gen(function*() { return yield* A })`,
  unnecessaryFailYieldableError: `
    export const x = Effect.gen(function*() { yield* A; return yield* Effect.fail(new Failure()) })`,
  unnecessaryPipe: `export const x = pipe(A)`,
  unnecessaryPipeChain: `export const x = A.pipe(Effect.asVoid).pipe(Effect.asVoid)`
}

const withFolder = <A>(use: (folder: string) => Promise<A>) =>
  Effect.acquireUseRelease(
    Effect.sync(() => mkdtempSync(path.join(tmpdir(), "switchyard-plants-"))),
    (folder) => Effect.promise(() => use(folder)),
    (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
  )

describe("diagnostics", () => {
  it("has a planted violation for each rule", () => {
    assert.deepStrictEqual(Object.keys(plants).sort(), [...rules].sort())
  })

  it.effect("reports each planted violation in a file that imports modules", () =>
    Effect.gen(function*() {
      const findings = yield* withFolder((base) => {
        writeFileSync(path.join(base, "package.json"), `{ "name": "@switchyard/planted" }`)
        const files = Object.entries(plants).map(([rule, code]) => {
          const file = path.join(base, `${rule}.ts`)
          writeFileSync(file, imports + code)
          return file
        })
        return diagnose({ base, cache: "diagnostics-planted", files })
      })
      const missed = rules.filter((rule) =>
        !findings.some((finding) => finding.rule === rule && path.basename(finding.file) === `${rule}.ts`)
      )
      assert.deepStrictEqual(missed, [])
    }), 120_000)

  it("keeps the line of each import and leaves other imports alone", () => {
    assert.strictEqual(
      rewriteImports(`import type * as Scope from "effect/Scope"\nimport * as Arr from "effect/Array"\n`),
      `import type { Scope } from "effect"\nimport { Array as Arr } from "effect"\n`
    )
    const untouched = `import { pipe } from "effect/Function"\nimport * as Tool from "@effect/ai/Tool"\n`
    assert.strictEqual(rewriteImports(untouched), untouched)
  })
})
