/**
 * Files of the workspace, opened and replaced so that a link swapped in meanwhile is noticed. Failures are sentences for
 * the model.
 */
import type { PlatformError } from "@effect/platform/Error"
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import type * as Scope from "effect/Scope"
import type { PathRefused, Workspace } from "../Workspace.js"

export interface Files {
  readonly fs: FileSystem.FileSystem
  readonly paths: Path.Path
  readonly workspace: Workspace["Type"]
}

export interface OpenFile {
  readonly size: number
  /** The next bytes, or `null` at the end. */
  readonly next: Effect.Effect<Uint8Array | null, string>
}

const chunkSize = 64 * 1024
const temporaryPrefix = ".switchyard-"

/** Half-written files of {@link replace}. */
export const isTemporary = (name: string) => name.startsWith(temporaryPrefix) && name.endsWith(".tmp")

/** A path as it is shown: as it was given, unless line breaks or quotes would mislead. */
export const show = (path: string) => {
  const quoted = JSON.stringify(path)
  return quoted.slice(1, -1) === path && !/[\u007f-\u009f\u2028\u2029]/.test(path) ? path : quoted
}

export const sentence = (shown: string) => (error: PlatformError | PathRefused): string => {
  if (error._tag === "PathRefused") return error.message
  const name = show(shown)
  if (error._tag === "BadArgument") {
    return `${name} could not be used: ${error.description ?? "it is not a valid path"}.`
  }
  switch (error.reason) {
    case "NotFound":
      return `There is no file or folder ${name}.`
    case "PermissionDenied":
      return `Permission to use ${name} is missing.`
    default:
      return `${name} could not be used: ${error.reason}.`
  }
}

const changed = (shown: string) => `${show(shown)} was replaced while it was being opened. Try again.`

/**
 * Opens what {@link Workspace} resolved, for reading. The type is looked at first because opening a pipe waits for its
 * other end; the path is looked at again afterwards because it may have become a link.
 */
export const openResolved = (
  files: Files,
  real: string,
  shown: string
): Effect.Effect<OpenFile, string, Scope.Scope> =>
  Effect.gen(function*() {
    const { fs } = files
    const before = yield* fs.stat(real)
    if (before.type === "Directory") return yield* Effect.fail(`${show(shown)} is a folder, not a file.`)
    if (before.type !== "File") return yield* Effect.fail(`${show(shown)} is not a regular file.`)
    const file = yield* fs.open(real, { flag: "r" })
    const opened = yield* file.stat
    const path = yield* fs.realPath(real)
    const after = yield* fs.stat(real)
    if (opened.type !== "File" || path !== real || after.dev !== opened.dev || !sameInode(after, opened)) {
      return yield* Effect.fail(changed(shown))
    }
    return {
      size: Number(opened.size),
      next: Effect.mapBoth(file.readAlloc(chunkSize), { onFailure: sentence(shown), onSuccess: Option.getOrNull })
    }
  }).pipe(
    Effect.mapError((error) => typeof error === "string" ? error : sentence(shown)(error)),
    // Another writer may have replaced the file as a whole, as `replace` does. Then the next try opens the new one.
    Effect.retry({ times: 10, while: (message) => message === changed(shown) })
  )

const sameInode = (a: FileSystem.File.Info, b: FileSystem.File.Info) =>
  Option.getOrNull(a.ino) === Option.getOrNull(b.ino)

/** Opens a path that the model wrote, for reading. */
export const open = (files: Files, path: string): Effect.Effect<OpenFile, string, Scope.Scope> =>
  Effect.flatMap(
    Effect.mapError(files.workspace.resolve(path), sentence(path)),
    (real) => openResolved(files, real, path)
  )

/** Hands each piece of the file to `f`, until the end or until `f` gives `false`. */
export const forEachChunk = (
  file: OpenFile,
  f: (bytes: Uint8Array) => boolean | void
): Effect.Effect<void, string> =>
  Effect.iterate(true, {
    while: (more) => more,
    body: () => Effect.map(file.next, (bytes) => bytes !== null && f(bytes) !== false)
  }).pipe(Effect.asVoid)

/**
 * Replaces a file as a whole: readers see the old content or the new, never a part. Folders on the way are made. The
 * mode of an existing file is kept.
 */
export const replace = (files: Files, path: string, content: Uint8Array): Effect.Effect<void, string> =>
  Effect.gen(function*() {
    const { fs, paths, workspace } = files
    const target = yield* workspace.resolveForWrite(path)
    const folder = paths.dirname(target)
    yield* fs.makeDirectory(folder, { recursive: true })
    const suffix = yield* Random.nextIntBetween(0, Number.MAX_SAFE_INTEGER)
    const temporary = paths.join(folder, `${temporaryPrefix}${suffix.toString(36)}.tmp`)
    // Removed only if it was made here; after the rename there is nothing left to remove.
    const file = yield* fs.open(temporary, { flag: "wx" }).pipe(
      Effect.tap(Effect.addFinalizer(() => Effect.orDie(fs.remove(temporary, { force: true })))),
      Effect.uninterruptible
    )
    const verify = Effect.gen(function*() {
      const still = (yield* fs.realPath(temporary)) === temporary && (yield* workspace.resolveForWrite(path)) === target
      if (!still) return yield* Effect.fail(changed(path))
    })
    yield* verify
    if (content.length > 0) yield* file.writeAll(content)
    const old = yield* Effect.option(fs.stat(target))
    if (Option.isSome(old)) yield* fs.chmod(temporary, old.value.mode & 0o7777)
    yield* verify
    yield* fs.rename(temporary, target)
  }).pipe(
    Effect.scoped,
    Effect.mapError((error) => typeof error === "string" ? error : sentence(path)(error))
  )
