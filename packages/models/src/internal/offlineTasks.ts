/**
 * What the offline model does about a message: a plan that asks for one tool call at a time and ends with the answer.
 * A plan is run again from its start at each step, with the results so far, so nothing is remembered between steps.
 */
import { type Command, type FileRef, maxChecks, maxCount, rules } from "./offlineGrammar.js"

export interface Call {
  readonly name: string
  readonly params: { readonly [name: string]: string }
  /** How long the model thinks before it asks, in milliseconds. */
  readonly delayMs: number
}

export interface Result {
  readonly isFailure: boolean
  readonly result: unknown
}

/** A piece of an answer, streamed `delayMs` milliseconds after the one before. */
export interface Piece {
  readonly text: string
  readonly delayMs: number
}

export type Plan<A> = Generator<Call, A, Result>

const countDelayMs = 100
const checkDelayMs = 500
const maxShown = 4000

const intro = "I am Switchyard's offline model: rule-based, no language understanding."

export const helpText = `${intro} I understand:\n` +
  rules.map(({ example, form }) => `- ${form} (${example})`).join("\n")

const unknownText = `${intro} Try: ` +
  rules.filter(({ form }) => !form.startsWith("COMMAND")).map(({ example }) => `\`${example}\``).join(", ") + "."

/** What one command came to. `file`, `words` and `result` are what a later command of the chain may refer to. */
interface Done {
  readonly answer: ReadonlyArray<Piece>
  readonly file: string | null
  readonly words?: string
  readonly result: string | null
  readonly ok: boolean
}

/** Answers one message. */
export function* answer(commands: ReadonlyArray<Command>, tools: ReadonlySet<string>): Plan<ReadonlyArray<Piece>> {
  const pieces: Array<Piece> = []
  let before: Done | null = null
  for (const [index, command] of commands.entries()) {
    const done: Done = yield* run(command, before, tools, refersBack(commands[index + 1]))
    if (index > 0 && !endsLine(pieces)) pieces.push(piece(" "))
    for (const part of done.answer) pieces.push(part)
    if (!done.ok) {
      if (index < commands.length - 1) pieces.push(piece(" I did not do the rest."))
      break
    }
    before = done
  }
  return pieces
}

const piece = (text: string): Piece => ({ text, delayMs: 0 })
const endsLine = (pieces: ReadonlyArray<Piece>) => pieces[pieces.length - 1]?.text.endsWith("\n") ?? true

/** Whether the result of a command is used by the next, so that it need not be shown. */
const refersBack = (next: Command | undefined) =>
  next !== undefined && next._tag === "Write" && next.source._tag !== "Text"

const done = (answer: string, refer: Partial<Pick<Done, "file" | "result" | "words">> = {}): Done => ({
  file: null,
  result: null,
  ...refer,
  answer: [piece(answer)],
  ok: true
})
const failed = (text: string): Done => ({ answer: [piece(text)], file: null, result: null, ok: false })

const textOf = (result: unknown): string =>
  typeof result === "string" ? result : JSON.stringify(result, undefined, 2) ?? String(result)

/** One tool call, as a sentence if it cannot be made or fails. */
function* use(
  tools: ReadonlySet<string>,
  doing: string,
  name: string,
  params: Call["params"],
  delayMs = 0
): Plan<Done | { readonly value: unknown }> {
  if (!tools.has(name)) return failed(`I could not ${doing}: I was not given the tool "${name}".`)
  const { isFailure, result } = yield { name, params, delayMs }
  if (!isFailure) return { value: result }
  const reason = textOf(result).trim()
  return failed(`I could not ${doing}: ${/[.!?…]$/.test(reason) ? reason : `${reason}.`}`)
}

const isDone = (outcome: Done | { readonly value: unknown }): outcome is Done => "answer" in outcome

function* run(command: Command, before: Done | null, tools: ReadonlySet<string>, brief: boolean): Plan<Done> {
  switch (command._tag) {
    case "Help":
      return done(helpText)
    case "Unknown":
      return failed(unknownText)
    case "CountWords": {
      const file = fileOf(command.file, before)
      if (file === null) return noFile
      const counted = yield* use(tools, `count the words in ${file}`, "count_words", { path: file })
      if (isDone(counted)) return counted
      const count = textOf(counted.value)
      return done(`${file} has ${count} ${count === "1" ? "word" : "words"}.`, { file, result: count, words: count })
    }
    case "Read": {
      const file = fileOf(command.file, before)
      if (file === null) return noFile
      const read = yield* use(tools, `read ${file}`, "read", { path: file })
      if (isDone(read)) return read
      const content = textOf(read.value)
      const shown = content === "" ? `${file} is empty.` : `${file} says:\n\n${shorten(content)}\n`
      return done(brief ? `I read ${file}.` : shown, { file, result: content })
    }
    case "List": {
      const place = command.folder === "." ? "the workspace folder" : command.folder
      const listed = yield* use(tools, `list ${place}`, "list", { path: command.folder })
      if (isDone(listed)) return listed
      const entries = textOf(listed.value)
      return done(brief ? `I listed ${place}.` : `In ${place}:\n\n${shorten(entries)}\n`, {
        result: entries
      })
    }
    case "Search": {
      const { folder, text } = command
      const params = folder === null ? { text } : { text, path: folder }
      const searched = yield* use(tools, `search for "${text}"`, "search", params)
      if (isDone(searched)) return searched
      const matches = textOf(searched.value)
      return done(brief ? `I searched for "${text}".` : `The search for "${text}" gave:\n\n${shorten(matches)}\n`, {
        result: matches
      })
    }
    case "Write":
      return yield* write(command, before, tools)
    case "CountSlowly": {
      const { to } = command
      if (to < 1 || to > maxCount) return failed(`I count slowly to a number from 1 to ${maxCount}.`)
      const numbers = Array.from({ length: to }, (_, index) => ({
        text: index === 0 ? "1" : ` ${index + 1}`,
        delayMs: countDelayMs
      }))
      return { answer: numbers, file: null, result: numbers.map(({ text }) => text).join(""), ok: true }
    }
    case "CheckSlowly": {
      const { times } = command
      if (times < 1 || times > maxChecks) return failed(`I check slowly from 1 to ${maxChecks} times.`)
      for (let time = 1; time <= times; time++) {
        const checked = yield* use(tools, `do check ${time} of ${times}`, "list", { path: "." }, checkDelayMs)
        if (isDone(checked)) return checked
      }
      return done(`Checked ${times} ${times === 1 ? "time" : "times"}.`, { result: String(times) })
    }
  }
}

const noFile = failed("I do not know which file you mean: the command before is not about one.")

const fileOf = (file: FileRef, before: Done | null) => file ?? before?.file ?? null

function* write(
  command: Extract<Command, { _tag: "Write" }>,
  before: Done | null,
  tools: ReadonlySet<string>
): Plan<Done> {
  const { source } = command
  const target = fileOf(command.file, before)
  if (target === null) return noFile
  const put = function*(content: string, what: string): Plan<Done> {
    const written = yield* use(tools, `write to ${target}`, "write", { path: target, content })
    return isDone(written) ? written : done(`I wrote ${what} to ${target}.`, { file: target, result: content })
  }
  const characters = (text: string) => {
    const count = [...text].length
    return `${count} ${count === 1 ? "character" : "characters"}`
  }
  if (source._tag === "Text") return yield* put(source.text, characters(source.text))
  if (source._tag === "Result") {
    const result = before?.result ?? null
    return result === null
      ? failed("The command before has no result to write.")
      : yield* put(result, characters(result))
  }
  const file = before?.file ?? null
  if (file === null) return noFile
  if (source._tag === "Contents") {
    const read = yield* use(tools, `read ${file}`, "read", { path: file })
    if (isDone(read)) return read
    const content = textOf(read.value)
    return yield* put(content, `the contents of ${file}`)
  }
  if (before?.words !== undefined) return yield* put(before.words, `its word count, ${before.words},`)
  const counted = yield* use(tools, `count the words in ${file}`, "count_words", { path: file })
  if (isDone(counted)) return counted
  const count = textOf(counted.value)
  return yield* put(count, `its word count, ${count},`)
}

const shorten = (text: string) => {
  if (text.length <= maxShown) return text
  // Never half of a surrogate pair.
  const end = /[\ud800-\udbff]/.test(text[maxShown - 1]!) ? maxShown - 1 : maxShown
  return `${text.slice(0, end)}\n… (${text.length - end} more characters)`
}
