/**
 * The folder that tools work in, and the one place where a path that a model wrote becomes a path on disk.
 *
 * @since 0.1.0
 */
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"

const explanations = {
  empty: "it is empty",
  nul: "it contains a NUL character",
  outside: "it leads out of the workspace folder",
  "link-outside": "a symbolic link in it leads out of the workspace folder",
  "dangling-link": "it is a symbolic link to something that does not exist",
  "not-regular": "it is neither a file nor a folder (a device, a pipe or a socket)",
  "inside-file": "a part of it is a file or a loop of links, where a folder is needed",
  folder: "it is a folder, and a file is needed",
  unreachable: "it cannot be reached (too long, or permission is missing)"
} as const

const reasons = Object.keys(explanations) as [keyof typeof explanations, ...Array<keyof typeof explanations>]

/**
 * The path may not be used. Nothing was read or changed. Another path may work: any file or folder inside the
 * workspace, relative to it or absolute.
 *
 * @since 0.1.0
 * @category errors
 */
export class PathRefused extends Schema.TaggedError<PathRefused>()("PathRefused", {
  path: Schema.String,
  reason: Schema.Literal(...reasons)
}) {
  override get message() {
    const shown = this.path.length > 200 ? `${this.path.slice(0, 200)}…` : this.path
    return `The path ${JSON.stringify(shown)} is refused: ${explanations[this.reason]}. ` +
      `Give the path of a file or folder inside the workspace folder, such as "notes/today.txt".`
  }
}

/**
 * The workspace port. Both functions give an absolute path without symbolic links that lies in `root`; the last parts of
 * it may not exist yet.
 *
 * What they say holds for the moment they are asked. Whoever opens the path checks again afterwards that it still is
 * what was opened, since another process may swap a folder for a link in between.
 *
 * @since 0.1.0
 * @category context
 */
export class Workspace extends Context.Tag("@switchyard/tools/Workspace")<Workspace, {
  /** Absolute, without symbolic links. */
  readonly root: string
  /** For reading: a file, a folder, or something that does not exist. */
  readonly resolve: (path: string) => Effect.Effect<string, PathRefused>
  /** For writing: a file, or something that does not exist. */
  readonly resolveForWrite: (path: string) => Effect.Effect<string, PathRefused>
}>() {}

/**
 * Makes the port over a folder, which is created if it is missing. Fails if it can be neither found nor made.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (options: {
  readonly root: string
}): Effect.Effect<Workspace["Type"], PlatformError, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    const given = paths.resolve(options.root)
    yield* fs.makeDirectory(given, { recursive: true })
    const root = yield* fs.realPath(given)

    const within = (base: string, path: string) =>
      path === base || path.startsWith(base.endsWith(paths.sep) ? base : base + paths.sep)

    const locate = (path: string): Effect.Effect<Located, PathRefused> => {
      const refuse = (reason: PathRefused["reason"]) => Effect.fail(new PathRefused({ path, reason }))
      const unreachable = (error: PlatformError) =>
        refuse(reasonOf(error) === "BadResource" ? "inside-file" : "unreachable")

      // The real path of the deepest part that exists, followed by the parts that do not.
      const follow = (absolute: string): Effect.Effect<string, PathRefused> =>
        Effect.catchAll(fs.realPath(absolute), (error) =>
          reasonOf(error) !== "NotFound" ? unreachable(error) : Effect.matchEffect(fs.readLink(absolute), {
            onSuccess: () =>
              refuse("dangling-link"),
            onFailure: () =>
              Effect.map(
                Effect.suspend(() => follow(paths.dirname(absolute))),
                (parent) => paths.join(parent, paths.basename(absolute))
              )
          }))

      if (path === "") {
        return refuse("empty")
      }
      if (path.includes("\0")) {
        return refuse("nul")
      }
      const absolute = paths.resolve(root, path)
      // Before the disk is touched, so that a refusal does not tell whether something exists out there.
      if (!within(root, absolute) && !within(given, absolute)) {
        return refuse("outside")
      }
      return Effect.gen(function*() {
        const real = yield* follow(absolute)
        if (!within(root, real)) {
          return yield* refuse("link-outside")
        }
        const info = yield* fs.stat(real).pipe(
          Effect.catchAll((error) =>
            reasonOf(error) === "NotFound" ? Effect.succeed(null) : unreachable(error)
          )
        )
        const type = info?.type ?? "missing"
        if (type !== "missing" && type !== "File" && type !== "Directory") return yield* refuse("not-regular")
        return { real, type }
      })
    }

    return {
      root,
      resolve: (path) => Effect.map(locate(path), ({ real }) => real),
      resolveForWrite: (path) =>
        Effect.flatMap(
          locate(path),
          ({ real, type }) =>
            type === "Directory" ? Effect.fail(new PathRefused({ path, reason: "folder" })) : Effect.succeed(real)
        )
    }
  })

/**
 * A folder on disk.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerFileSystem = (options: {
  readonly root: string
}): Layer.Layer<Workspace, PlatformError, FileSystem.FileSystem | Path.Path> => Layer.effect(Workspace, make(options))

interface Located {
  readonly real: string
  readonly type: "File" | "Directory" | "missing"
}

const reasonOf = (error: PlatformError) => error._tag === "SystemError" ? error.reason : error._tag
