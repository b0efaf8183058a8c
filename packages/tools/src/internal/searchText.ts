/** Searching the text files of a folder, within bounds. */
import * as Effect from "effect/Effect"
import { type Files, forEachChunk, isTemporary, openResolved, sentence, show } from "./workspaceFiles.js"

const maxMatches = 100
const maxFiles = 10_000
const maxFileBytes = 1024 * 1024
const maxLineCharacters = 200
const skippedFolders = ["node_modules", ".git"]

interface Progress {
  readonly lines: Array<string>
  files: number
  large: number
  unreadable: number
}

/** One line per match, `path:line: text`, then notes about what was left out. */
export const searchText = (files: Files, params: {
  readonly text: string
  readonly path?: string | undefined
}): Effect.Effect<string, string> =>
  Effect.gen(function*() {
    const { text } = params
    if (text === "" || /[\r\n]/.test(text)) {
      return yield* Effect.fail("The text to search for must be one line, not empty.")
    }
    const where = params.path ?? "."
    const start = yield* Effect.mapError(files.workspace.resolve(where), sentence(where))
    const info = yield* Effect.mapError(files.fs.stat(start), sentence(where))
    const progress: Progress = { lines: [], files: 0, large: 0, unreadable: 0 }
    yield* info.type === "Directory"
      ? searchFolder(files, start, text, progress)
      : searchFile(files, start, text, progress)
    return report(text, progress)
  })

const full = (progress: Progress) => progress.lines.length > maxMatches || progress.files >= maxFiles

const searchFolder = (files: Files, folder: string, text: string, progress: Progress): Effect.Effect<void> =>
  Effect.gen(function*() {
    const { fs, paths } = files
    const names = yield* Effect.orElseSucceed(fs.readDirectory(folder), () => [])
    for (const name of names.sort()) {
      if (full(progress)) return
      if (isTemporary(name)) continue
      const path = paths.join(folder, name)
      // Links are not followed: what they lead to is found under its own name, or is outside, or is a loop.
      const isLink = yield* Effect.match(fs.readLink(path), { onFailure: () => false, onSuccess: () => true })
      if (isLink) continue
      const type = yield* Effect.match(fs.stat(path), { onFailure: () => null, onSuccess: (info) => info.type })
      if (type === "Directory" && !skippedFolders.includes(name)) yield* searchFolder(files, path, text, progress)
      else if (type === "File") yield* searchFile(files, path, text, progress)
    }
  })

const searchFile = (files: Files, path: string, text: string, progress: Progress): Effect.Effect<void> =>
  Effect.gen(function*() {
    progress.files++
    const shown = files.paths.relative(files.workspace.root, path)
    const file = yield* openResolved(files, path, shown)
    if (file.size > maxFileBytes) {
      progress.large++
      return
    }
    const decoder = new TextDecoder("utf-8")
    let content = ""
    let binary = false
    yield* forEachChunk(file, (bytes) => {
      binary = bytes.includes(0)
      content += decoder.decode(bytes, { stream: true })
      return !binary && content.length <= maxFileBytes
    })
    if (binary || !content.includes(text)) return
    for (const [index, line] of content.split("\n").entries()) {
      if (!line.includes(text)) continue
      progress.lines.push(`${show(shown)}:${index + 1}: ${excerpt(line, text)}`)
      if (full(progress)) return
    }
  }).pipe(
    // One file that cannot be read does not end the search; the report counts it.
    Effect.catchAll(() =>
      Effect.sync(() => {
        progress.unreadable++
      })
    ),
    Effect.scoped
  )

/** The part of a line around the match. */
const excerpt = (line: string, text: string) => {
  const clean = line.trim()
  if (clean.length <= maxLineCharacters) return clean
  const from = Math.max(0, clean.indexOf(text.trim()) - 40)
  return `${from > 0 ? "…" : ""}${clean.slice(from, from + maxLineCharacters)}…`.replace(
    /^…?[\udc00-\udfff]|[\ud800-\udbff](?=…$)/g,
    ""
  )
}

const report = (text: string, { files, large, lines, unreadable }: Progress) => {
  const notes = [
    ...(lines.length > maxMatches ? [`Only the first ${maxMatches} matching lines are shown.`] : []),
    ...(files >= maxFiles ? [`The search stopped after ${maxFiles} files.`] : []),
    ...(large > 0 ? [`Not searched because they are larger than ${maxFileBytes} bytes: ${large} files.`] : []),
    ...(unreadable > 0 ? [`Could not be read: ${unreadable} files.`] : [])
  ]
  const found = lines.length === 0 ? [`No line contains ${JSON.stringify(text)}.`] : lines.slice(0, maxMatches)
  return [...found, ...notes].join("\n")
}
