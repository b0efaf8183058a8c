/** Reading a text file by lines, within a bound. */
import * as Effect from "effect/Effect"
import { type Files, forEachChunk, open, show } from "./workspaceFiles.js"

const limitBytes = 1024 * 1024
const newline = 0x0a

/** Lines `offset` (from 1) to `offset + limit - 1` with their line breaks, exactly as they are in the file. */
export const readText = (files: Files, params: {
  readonly path: string
  readonly offset?: number | undefined
  readonly limit?: number | undefined
}): Effect.Effect<string, string> =>
  Effect.scoped(Effect.gen(function*() {
    const name = show(params.path)
    const file = yield* open(files, params.path)
    const advice =
      `One read gives at most ${limitBytes} bytes. Read it in parts: "offset" is the first line (from 1), ` +
      `"limit" is the number of lines, for example { "offset": 1, "limit": 1000 }.`
    const whole = params.offset === undefined && params.limit === undefined
    if (whole && file.size > limitBytes) return yield* Effect.fail(`${name} has ${file.size} bytes. ${advice}`)

    const from = params.offset ?? 1
    const until = from + (params.limit ?? Number.POSITIVE_INFINITY)
    const pieces: Array<Uint8Array> = []
    let line = 1
    let size = 0
    yield* forEachChunk(file, (bytes) => {
      let start = 0
      while (line < until && start < bytes.length) {
        const found = bytes.indexOf(newline, start)
        const end = found === -1 ? bytes.length : found + 1
        if (line >= from) {
          pieces.push(bytes.subarray(start, end))
          size += end - start
        }
        if (found !== -1) line++
        start = end
      }
      return line < until && size <= limitBytes
    })
    if (size > limitBytes) {
      return yield* Effect.fail(
        `The lines of ${name} that were asked for have more than ${limitBytes} bytes. ${advice}`
      )
    }
    if (from > 1 && size === 0) {
      return yield* Effect.fail(`${name} has ${line} lines or fewer: there is no line ${from}.`)
    }
    return yield* decode(pieces, size, name)
  }))

const decode = (pieces: ReadonlyArray<Uint8Array>, size: number, name: string) => {
  const bytes = new Uint8Array(size)
  let at = 0
  for (const piece of pieces) {
    bytes.set(piece, at)
    at += piece.length
  }
  return Effect.try({
    try: () => new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes),
    catch: () => `${name} is not a text file (its bytes are not UTF-8).`
  })
}
