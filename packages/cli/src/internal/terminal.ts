/**
 * Writing to the terminal: answers to standard output, everything else to standard error.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type { WriteStream } from "node:tty"

/** Whether a person looks at it, in colour. */
const hasColors = (stream: NodeJS.WriteStream): boolean => stream.isTTY === true && (stream as WriteStream).hasColors()

export const isInteractive = (): boolean => process.stdin.isTTY === true && process.stdout.isTTY === true

export const write = (text: string): Effect.Effect<void> =>
  Effect.sync(() => {
    if (text !== "") process.stdout.write(text)
  })

export const line = (text: string): Effect.Effect<void> => write(`${text}\n`)

export const json = (value: unknown): Effect.Effect<void> => line(JSON.stringify(value))

/** A line on standard error. */
export const note = (text: string): Effect.Effect<void> =>
  Effect.sync(() => {
    process.stderr.write(`${text}\n`)
  })

export const dim = (text: string): string => hasColors(process.stderr) ? `\u001b[2m${text}\u001b[22m` : text

export const bold = (text: string): string => hasColors(process.stdout) ? `\u001b[1m${text}\u001b[22m` : text

/** What came from elsewhere and must not steer the terminal, on one line of at most `max` characters. */
export const oneLine = (text: string, max: number): string => {
  // eslint-disable-next-line no-control-regex
  const flat = text.replace(/[\u0000-\u001f\u007f-\u009f]+/g, " ").trim()
  return flat.length > max ? `${flat.slice(0, max - 1)}…` : flat
}

/** What came from elsewhere and must not steer the terminal, with its lines; no two empty ones follow each other. */
export const paragraphs = (text: string): string =>
  // eslint-disable-next-line no-control-regex
  text.replace(/\r\n?/g, "\n").replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]+/g, " ")
    .replace(/\n(?:[ \t]*\n){2,}/g, "\n\n").trimEnd()

/** A moment, in the time zone of this machine. */
export const time = (ms: number): string =>
  // Sweden writes times as ISO 8601 does.
  Number.isFinite(ms) ? new Date(ms).toLocaleString("sv-SE") : "?"

// eslint-disable-next-line no-control-regex
export const withoutStyle = (text: string): string => text.replace(/\u001b\[[0-9;]*m/g, "")
