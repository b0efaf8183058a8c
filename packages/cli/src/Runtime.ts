/**
 * Puts a whole Switchyard together in this process: the journal in a SQLite file, locks as files beside it, the offline
 * model, and the built-in tools in a workspace folder.
 *
 * @since 0.1.0
 */
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { Delivery, DeliveryFailed } from "@switchyard/core/Delivery"
import * as Hooks from "@switchyard/core/Hooks"
import type { Model } from "@switchyard/core/Model"
import * as Prompts from "@switchyard/core/Prompts"
import * as Sessions from "@switchyard/core/Sessions"
import * as OfflineModel from "@switchyard/models/OfflineModel"
import { InvalidConfig, type StoreUnavailable } from "@switchyard/protocol/Errors"
import * as FileWriteLock from "@switchyard/sql/FileWriteLock"
import type * as SqliteDatabase from "@switchyard/sql/SqliteDatabase"
import * as SqliteTranscriptStore from "@switchyard/sql/SqliteTranscriptStore"
import * as BuiltinTools from "@switchyard/tools/BuiltinTools"
import * as Workspace from "@switchyard/tools/Workspace"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"

/**
 * What {@link layerEmbedded} needs to know.
 *
 * @since 0.1.0
 * @category models
 */
export interface EmbeddedConfig {
  /** The folder for the journal and the locks. It is made, for this user alone, if it does not exist. */
  readonly stateDir: string
  /** The folder that the tools work in. It must exist. */
  readonly workspace: string
  /** Which model answers. There is `offline`. */
  readonly model: string
}

/**
 * A folder cannot be used, for `reason`. Name another one, or make it usable.
 *
 * @since 0.1.0
 * @category errors
 */
export class FolderUnusable extends Schema.TaggedError<FolderUnusable>()("FolderUnusable", {
  purpose: Schema.Literal("state", "workspace"),
  path: Schema.String,
  reason: Schema.String,
  cause: Schema.optional(Schema.Defect)
}) {
  override get message() {
    const option = this.purpose === "state" ? "--state-dir" : "--workspace"
    return `The ${this.purpose} folder ${this.path} cannot be used: ${this.reason}. Choose another with ${option}.`
  }
}

/**
 * What putting it together can fail with. Each says in its message what to do.
 *
 * @since 0.1.0
 * @category errors
 */
export type EmbeddedError =
  | InvalidConfig
  | FolderUnusable
  | FileWriteLock.LockFolderUnusable
  | SqliteDatabase.DatabaseTooNew
  | SqliteDatabase.DatabaseUnusable
  | StoreUnavailable

/**
 * A whole Switchyard. Work that an earlier process left unfinished is taken up before the layer is there. When its scope
 * closes, active runs end first and the journal is closed last.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerEmbedded = (
  config: EmbeddedConfig
): Layer.Layer<Sessions.Sessions | Model, EmbeddedError> =>
  Layer.unwrapEffect(Effect.gen(function*() {
    const path = yield* Path.Path
    if (config.model !== "offline") {
      return yield* new InvalidConfig({
        key: "model",
        value: JSON.stringify(config.model),
        reason: "the only model so far is \"offline\""
      })
    }
    const workspace = yield* workspaceFolder(path.resolve(config.workspace))
    // Last, since it makes what is not there: a start that is refused leaves nothing behind.
    const stateDir = yield* stateFolder(path.resolve(config.stateDir))

    const tools = BuiltinTools.layer.pipe(
      Layer.provide(Workspace.layerFileSystem({ root: workspace })),
      Layer.mapError((error) => unusable("workspace", workspace, error)),
      Layer.provide(NodeContext.layer)
    )
    return Layer.effectDiscard(Effect.flatMap(Sessions.Sessions, ({ recover }) => recover)).pipe(
      Layer.provideMerge(Layer.scopedDiscard(
        Effect.flatMap(Sessions.Sessions, ({ drain }) => Effect.addFinalizer(() => Effect.interruptible(drain)))
      )),
      Layer.provideMerge(Sessions.layer),
      Layer.provide([
        SqliteTranscriptStore.layer({ filename: path.join(stateDir, "journal.db") }),
        FileWriteLock.layerFile({ directory: path.join(stateDir, "locks") }),
        tools,
        Hooks.layerEmpty,
        Prompts.layerDefault,
        layerNoChannels
      ]),
      Layer.provideMerge(OfflineModel.layer)
    )
  })).pipe(Layer.provide(NodeContext.layer))

/** No channel is set up yet, so a reply with a route fails for certain instead of vanishing. */
const layerNoChannels: Layer.Layer<Delivery> = Layer.succeed(Delivery, {
  send: ({ route }) => new DeliveryFailed({ reason: `there is no channel "${route.channel}" here` })
})

const stateFolder = (path: string) =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    yield* makeFolder(path)
    yield* fs.readDirectory(path)
    yield* fs.access(path, { readable: true, writable: true })
    return path
  }).pipe(Effect.mapError((error) => unusable("state", path, error)))

const workspaceFolder = (path: string) =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    yield* fs.readDirectory(path)
    return path
  }).pipe(Effect.mapError((error) => unusable("workspace", path, error)))

/**
 * Makes a folder and those above it, for this user alone. One that is there stays as it is.
 *
 * Node's own recursive way never ends where the system refuses with ENOENT, as it does below /proc.
 */
const makeFolder = (path: string): Effect.Effect<void, PlatformError, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const { dirname } = yield* Path.Path
    const make = Effect.catchIf(
      fs.makeDirectory(path, { mode: 0o700 }),
      (error) => error._tag === "SystemError" && error.reason === "AlreadyExists",
      () => Effect.void
    )
    yield* Effect.catchIf(
      make,
      (error) => error._tag === "SystemError" && error.reason === "NotFound" && dirname(path) !== path,
      () => Effect.zipRight(makeFolder(dirname(path)), make)
    )
  })

const unusable = (purpose: FolderUnusable["purpose"], path: string, error: PlatformError): FolderUnusable => {
  const code = (error.cause as NodeJS.ErrnoException | undefined)?.code
  const reason = code === "EACCES" || code === "EPERM" || code === "EROFS"
    ? "this user may not write there"
    : code === "ENOENT"
    ? purpose === "state" ? "it cannot be made there" : "it does not exist"
    : code === "ENOTDIR" || code === "EEXIST"
    ? "it is not a folder"
    : code === "ENOSPC"
    ? "the disk is full"
    : error.message
  return new FolderUnusable({ purpose, path, reason, cause: error })
}
