import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert } from "@effect/vitest"
import * as Tools from "@switchyard/core/Tools"
import { RunId, SessionKey } from "@switchyard/protocol/Ids"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Layer from "effect/Layer"
import * as BuiltinTools from "../src/BuiltinTools.js"
import * as Workspace from "../src/Workspace.js"

const toolCall: Tools.ToolCall["Type"] = {
  sessionKey: SessionKey.make("test"),
  runId: RunId.make("test"),
  callId: "call",
  name: "tool",
  progress: () => Effect.void
}

/** A fresh folder with a workspace in `workspace` and, beside it, `outside/secret.txt`. */
export const inWorkspace = <A, E>(
  body: (at: {
    readonly root: string
    readonly outside: string
    readonly fs: FileSystem.FileSystem
    readonly paths: Path.Path
    readonly workspace: Workspace.Workspace["Type"]
    readonly call: (name: string, params: unknown) => Effect.Effect<Tools.ToolOutcome>
    /** The result of a call that must succeed. */
    readonly ok: (name: string, params: unknown) => Effect.Effect<unknown>
    /** The sentence of a call that must fail. */
    readonly fails: (name: string, params: unknown) => Effect.Effect<string>
  }) => Effect.Effect<A, E, NodeContext.NodeContext>
) =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    const folder = yield* Effect.flatMap(fs.makeTempDirectoryScoped(), fs.realPath)
    const outside = paths.join(folder, "outside")
    yield* fs.makeDirectory(outside)
    yield* fs.writeFileString(paths.join(outside, "secret.txt"), "secret")
    return yield* Effect.gen(function*() {
      const workspace = yield* Workspace.Workspace
      const tools = yield* Tools.Tools
      const call = (name: string, params: unknown) =>
        Effect.provideService(tools.call(name, params), Tools.ToolCall, toolCall)
      return yield* body({
        root: workspace.root,
        outside,
        fs,
        paths,
        workspace,
        call,
        ok: (name, params) =>
          Effect.map(call(name, params), (outcome) => {
            assert.isFalse(outcome.isFailure, String(outcome.result))
            return outcome.result
          }),
        fails: (name, params) =>
          Effect.map(call(name, params), (outcome) => {
            assert.isTrue(outcome.isFailure, String(outcome.result))
            return String(outcome.result)
          })
      })
    }).pipe(Effect.provide(
      BuiltinTools.layer.pipe(
        Layer.provideMerge(Workspace.layerFileSystem({ root: paths.join(folder, "workspace") }))
      )
    ))
  }).pipe(Effect.provide(NodeContext.layer))

/** Names that a file can have, with spaces, quotes, dots and other scripts. */
export const fileName = FastCheck.string({ unit: "grapheme", minLength: 1, maxLength: 20 }).filter((name) =>
  !/[/\0]/.test(name) && name !== "." && name !== ".." && name.normalize("NFC") === name
)

/** Texts that come back from UTF-8 as they were. */
export const text = FastCheck.string({
  unit: FastCheck.constantFrom("a", "Z", "é", "日", "🙂", "\ufeff", "\0", " ", "\n", "\r\n")
})
