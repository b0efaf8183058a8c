/**
 * What the offline model understands: from the text of a message to commands.
 */

/** A file: by name, or `null` for the one that the command before was about. */
export type FileRef = string | null

/** What is written: a text, or something about the command before. */
export type Source =
  | { readonly _tag: "Text"; readonly text: string }
  | { readonly _tag: "Result" }
  | { readonly _tag: "WordCount" }
  | { readonly _tag: "Contents" }

export type Command =
  | { readonly _tag: "CountWords"; readonly file: FileRef }
  | { readonly _tag: "Read"; readonly file: FileRef }
  | { readonly _tag: "List"; readonly folder: string }
  | { readonly _tag: "Search"; readonly text: string; readonly folder: string | null }
  | { readonly _tag: "Write"; readonly source: Source; readonly file: FileRef }
  | { readonly _tag: "CountSlowly"; readonly to: number }
  | { readonly _tag: "CheckSlowly"; readonly times: number }
  | { readonly _tag: "Help" }
  | { readonly _tag: "Unknown" }

export interface Rule {
  /** How it is written. Capitals stand for what the user fills in; brackets are optional. */
  readonly form: string
  readonly example: string
  /** What the model does. */
  readonly does: string
}

export const maxCount = 1000
export const maxChecks = 50

/** The table in `docs/offline-model.md`. */
export const rules: ReadonlyArray<Rule> = [
  {
    form: "how many words are in FILE",
    example: "How many words are in README.md?",
    does: "Calls `count_words`. Also: `count the words in FILE`, `word count of FILE`."
  },
  { form: "read FILE", example: "read README.md", does: "Calls `read` and shows the text. Also: `show [me] FILE`." },
  { form: "list [the files in] [FOLDER]", example: "list the files in docs", does: "Calls `list`. Also: `ls`." },
  {
    form: "search [for] TEXT [in FOLDER]",
    example: "search for \"session key\" in docs",
    does: "Calls `search`. Also: `find`, `grep`."
  },
  { form: "write TEXT to FILE", example: "write \"buy milk\" to notes/today.txt", does: "Calls `write`." },
  {
    form: "COMMAND then COMMAND",
    example: "read README.md then write its word count to count.txt",
    does: "One after the other; stops at the first that fails. Later commands may say `it` for the file before, and " +
      "write `its word count`, `its contents` or `the result`."
  },
  {
    form: "count slowly to N",
    example: "count slowly to 5",
    does: `Streams 1 to N, one number every 100 ms. N is at most ${maxCount}.`
  },
  {
    form: "check slowly N times",
    example: "check slowly 3 times",
    does: `N steps of 500 ms, each with one call of \`list\`. N is at most ${maxChecks}.`
  },
  { form: "help", example: "help", does: "Shows what it understands. Also: `hello`, `what can you do`." }
]

/** Longer messages, not counting what stands in quotes, are not understood. It bounds the work of the patterns. */
const maxUnquoted = 2000

/** What a message asks for, command by command. */
export const parse = (message: string): ReadonlyArray<Command> => {
  const { quotes, skeleton } = takeQuotes(message)
  if (skeleton.length > maxUnquoted) return [{ _tag: "Unknown" }]
  const text = trimPolite(skeleton)
  const chain = (links: ReadonlyArray<string>) => {
    const commands = links.map((link, index) => parseOne(trimPolite(link), quotes, index > 0))
    return commands.some(({ _tag }) => _tag === "Unknown") ? null : commands
  }
  // "and" may stand inside of a text, so it separates only where nothing else makes sense.
  return chain(text.split(/[,;.]? (?:and )?then /i)) ?? chain([text]) ??
    chain(text.split(/[,;.]? (?:and then|and|then) /i)) ??
    [{ _tag: "Unknown" }]
}

interface Quote {
  readonly raw: string
  readonly text: string
}

const closers = new Map([["\"", "\""], ["`", "`"], ["“", "”"]])

/** Replaces each quoted text by its number between NULs, and each run of other white space by one space. */
const takeQuotes = (message: string): { readonly skeleton: string; readonly quotes: ReadonlyArray<Quote> } => {
  const text = message.replaceAll("\0", " ")
  const quotes: Array<Quote> = []
  // Where the next closing mark of a kind is, so that each part of a long text is looked through once.
  const next = new Map<string, number>()
  let skeleton = ""
  let start = 0
  for (let at = 0; at < text.length; at++) {
    const closer = closers.get(text[at]!)
    if (closer === undefined || (at > 0 && !/\s/.test(text[at - 1]!))) continue
    let close = next.get(closer) ?? 0
    if (close !== -1 && close <= at) next.set(closer, close = text.indexOf(closer, at + 1))
    if (close === -1 || !/^[\s,;.?!]?$/.test(text.charAt(close + 1))) continue
    skeleton += `${text.slice(start, at)}\0${quotes.length}\0`
    quotes.push({ raw: text.slice(at, close + 1), text: text.slice(at + 1, close) })
    start = close + 1
    at = close
  }
  return { skeleton: (skeleton + text.slice(start)).replace(/\s+/g, " ").trim(), quotes }
}

const politeStart =
  /^(?:please|kindly|now|ok|okay|so|(?:hey|hi|hello)(?: there)?|can you|could you|would you|will you|i want you to),? /i
const politeEnd = /,? (?:please|thanks|thank you|for me)$/i
const endMark = /(?<=[^\s./!?,;:…])[.!?,;:…]+$/

const trimPolite = (text: string): string => {
  const trimmed = text.trim()
  const shorter = trimmed.replace(politeStart, "").replace(endMark, "").replace(politeEnd, "")
  return shorter === trimmed ? trimmed : trimPolite(shorter)
}

/** Makes a command of what a pattern found; `null` if it does not fit after all. */
type Make = (found: ReadonlyArray<string | undefined>, take: Take, chained: boolean) => Command | null
/** What stands for a found text: without its quotes if it is all in quotes. */
type Take = (found: string) => string

// In the patterns FILE is a name, in quotes or without spaces, and TEXT is anything.
const pattern = (source: string) =>
  new RegExp(
    `^${source.replaceAll("FILE", "(?:(?:the )?file )?(\0\\d+\0|[^\\s\0]+)").replaceAll("TEXT", "(\0\\d+\0|.+?)")}$`,
    "i"
  )

const fileOf = (found: string, take: Take, chained: boolean): FileRef =>
  chained && /^(?:it|that)$/i.test(found) ? null : take(found)

const countWords: Make = ([, file], take, chained) => ({ _tag: "CountWords", file: fileOf(file!, take, chained) })
const read: Make = ([, file], take, chained) => ({ _tag: "Read", file: fileOf(file!, take, chained) })
const list: Make = ([, folder], take) => ({ _tag: "List", folder: folder === undefined ? "." : take(folder) })
const search: Make = ([, text, folder], take) =>
  take(text!) === ""
    ? null
    : { _tag: "Search", text: take(text!), folder: folder === undefined ? null : take(folder) }
const write: Make = ([, text, file], take, chained) => ({
  _tag: "Write",
  source: (chained ? referred(text!) : null) ?? { _tag: "Text", text: take(text!) },
  file: fileOf(file!, take, chained)
})

const referred = (text: string): Source | null =>
  /^(?:its|the) (?:word count|number of words)$/i.test(text) ?
    { _tag: "WordCount" }
    : /^(?:its|the) (?:contents?|text)$/i.test(text) ?
    { _tag: "Contents" }
    : /^(?:it|that|the (?:result|answer|list|matches))$/i.test(text) ?
    { _tag: "Result" }
    : null

const grammar: ReadonlyArray<readonly [RegExp, Make]> = [
  [pattern("how many words (?:are |is )?(?:there )?in FILE"), countWords],
  [pattern("how many words does FILE (?:have|contain|hold)"), countWords],
  [pattern("count (?:the )?words (?:in|of) FILE"), countWords],
  [pattern("(?:what is )?(?:the )?word count of FILE"), countWords],
  [pattern("(?:read|show|show me|print|open|cat) FILE"), read],
  [pattern("(?:list|ls)(?: (?:the |all )?(?:files|entries))?(?: (?:in|of))?(?: FILE)?"), list],
  [pattern("(?:what|which) files are (?:there )?in FILE"), list],
  [pattern("(?:search|find|grep)(?: for)? TEXT(?: (?:in|below|under) FILE)?"), search],
  // The last " to " separates: the text may hold others.
  [pattern("(?:write|save|put) (.+) (?:to|into|in) FILE"), write],
  [pattern("count slowly (?:up )?to (\\d+)"), ([, to]) => ({ _tag: "CountSlowly", to: Number(to) })],
  [pattern("check slowly (\\d+) times?"), ([, times]) => ({ _tag: "CheckSlowly", times: Number(times) })],
  [
    pattern("(?:help|hello|hi|hey|there|good (?:morning|day|evening)|what can you do|who are you|what are you|\\?)"),
    () => ({ _tag: "Help" })
  ]
]

const parseOne = (text: string, quotes: ReadonlyArray<Quote>, chained: boolean): Command => {
  const take: Take = (found) => {
    const whole = /^\0(\d+)\0$/.exec(found)
    return whole !== null
      ? quotes[Number(whole[1])]!.text
      : found.replace(/\0(\d+)\0/g, (_, index: string) => quotes[Number(index)]!.raw)
  }
  for (const [pattern, make] of grammar) {
    const found = pattern.exec(text)
    const command = found === null ? null : make(found, take, chained)
    if (command !== null) return command
  }
  return { _tag: "Unknown" }
}
