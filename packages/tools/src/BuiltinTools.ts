/**
 * The tools that come with Switchyard: `read`, `write`, `list`, `search` and `count_words`, all within the
 * {@link Workspace}. What goes wrong comes back to the model as a sentence, never as an error of the run.
 *
 * @since 0.1.0
 */
import * as Tool from "@effect/ai/Tool"
import * as Toolkit from "@effect/ai/Toolkit"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Tools from "@switchyard/core/Tools"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { readText } from "./internal/readText.js"
import { searchText } from "./internal/searchText.js"
import * as WordCount from "./internal/wordCount.js"
import { type Files, forEachChunk, isTemporary, open, replace, sentence, show } from "./internal/workspaceFiles.js"
import { Workspace } from "./Workspace.js"

const maxEntries = 1000
const maxWriteBytes = 8 * 1024 * 1024

const filePath = Schema.String.annotations({ description: "Path of the file, relative to the workspace folder" })
const folderPath = Schema.optional(
  Schema.String.annotations({
    description: "Path of the folder, relative to the workspace folder; the whole workspace if omitted"
  })
)
const positive = (description: string) =>
  Schema.optional(Schema.Int.pipe(Schema.positive()).annotations({ description }))

const read = Tool.make("read", {
  description: "Reads a text file. A file of more than 1 MiB has to be read in parts, with offset and limit.",
  parameters: {
    path: filePath,
    offset: positive("First line to give, counted from 1"),
    limit: positive("How many lines to give")
  },
  success: Schema.String,
  failure: Schema.String,
  failureMode: "return"
}).annotate(Tool.Readonly, true).annotate(Tool.Destructive, false).annotate(Tool.OpenWorld, false)

const write = Tool.make("write", {
  description: "Writes a text file, replacing what it held. Missing folders are made.",
  parameters: { path: filePath, content: Schema.String.annotations({ description: "The whole new content" }) },
  success: Schema.String,
  failure: Schema.String,
  failureMode: "return"
}).annotate(Tool.Idempotent, true).annotate(Tool.OpenWorld, false)
  // Two writes to one file in one batch must end with the later one.
  .annotate(Tools.Sequential, true)

const list = Tool.make("list", {
  description: "Lists a folder, one entry per line, sorted. Folders end with a slash.",
  parameters: { path: folderPath },
  success: Schema.String,
  failure: Schema.String,
  failureMode: "return"
}).annotate(Tool.Readonly, true).annotate(Tool.Destructive, false).annotate(Tool.OpenWorld, false)

const search = Tool.make("search", {
  description: "Finds the lines that contain a text, case-sensitively, in all text files of a folder and below. " +
    "Gives path:line: text. Leaves out node_modules and .git.",
  parameters: { text: Schema.String.annotations({ description: "The text to find, not a pattern" }), path: folderPath },
  success: Schema.String,
  failure: Schema.String,
  failureMode: "return"
}).annotate(Tool.Readonly, true).annotate(Tool.Destructive, false).annotate(Tool.OpenWorld, false)

const countWords = Tool.make("count_words", {
  description: "Counts the words of a file, as wc -w does.",
  parameters: { path: filePath },
  success: Schema.NonNegativeInt,
  failure: Schema.String,
  failureMode: "return"
}).annotate(Tool.Readonly, true).annotate(Tool.Destructive, false).annotate(Tool.OpenWorld, false)

/**
 * The definitions. Merge them with a toolkit of your own to offer both.
 *
 * @since 0.1.0
 * @category toolkits
 */
export const toolkit = Toolkit.make(read, write, list, search, countWords)

/**
 * The handlers of {@link toolkit}.
 *
 * @since 0.1.0
 * @category layers
 */
export const handlersLayer: Layer.Layer<
  Tool.HandlersFor<typeof toolkit.tools>,
  never,
  FileSystem.FileSystem | Path.Path | Workspace
> = toolkit.toLayer(
  Effect.gen(function*() {
    const files: Files = {
      fs: yield* FileSystem.FileSystem,
      paths: yield* Path.Path,
      workspace: yield* Workspace
    }
    return toolkit.of({
      read: (params) => readText(files, params),
      write: (params) => writeText(files, params),
      list: ({ path }) => listFolder(files, path ?? "."),
      search: (params) => searchText(files, params),
      count_words: ({ path }) => countWordsOf(files, path)
    })
  })
)

/**
 * The built-in tools as the {@link Tools.Tools} port.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer: Layer.Layer<Tools.Tools, never, FileSystem.FileSystem | Path.Path | Workspace> = Layer.provide(
  Tools.layer(toolkit),
  handlersLayer
)

const writeText = (files: Files, params: { readonly path: string; readonly content: string }) => {
  const bytes = new TextEncoder().encode(params.content)
  return bytes.length > maxWriteBytes
    ? Effect.fail(`The content has ${bytes.length} bytes; a file is written with at most ${maxWriteBytes}.`)
    : Effect.as(
      replace(files, params.path, bytes),
      `Wrote ${bytes.length} ${bytes.length === 1 ? "byte" : "bytes"} to ${show(params.path)}.`
    )
}

const countWordsOf = (files: Files, path: string) =>
  Effect.scoped(Effect.gen(function*() {
    const file = yield* open(files, path)
    const counter = WordCount.make()
    yield* forEachChunk(file, counter.add)
    return counter.end()
  }))

const listFolder = ({ fs, paths, workspace }: Files, path: string) =>
  Effect.gen(function*() {
    const folder = yield* workspace.resolve(path)
    const info = yield* fs.stat(folder)
    if (info.type !== "Directory") return yield* Effect.fail(`${show(path)} is a file, not a folder.`)
    const names = (yield* fs.readDirectory(folder)).filter((name) => !isTemporary(name)).sort()
    if ((yield* workspace.resolve(path)) !== folder) {
      return yield* Effect.fail(`${show(path)} was replaced while it was being listed. Try again.`)
    }
    // A link that leads out of the workspace is shown by its name alone, whatever it leads to.
    const mark = (name: string) =>
      Effect.match(Effect.flatMap(workspace.resolve(paths.join(folder, name)), fs.stat), {
        onFailure: () => show(name),
        onSuccess: ({ type }) => show(type === "Directory" ? `${name}/` : name)
      })
    const lines = yield* Effect.forEach(names.slice(0, maxEntries), mark, { concurrency: 16 })
    const more = names.length - lines.length
    if (names.length === 0) return "The folder is empty."
    return more > 0 ? [...lines, `… and ${more} more`].join("\n") : lines.join("\n")
  }).pipe(Effect.mapError((error) => typeof error === "string" ? error : sentence(path)(error)))
