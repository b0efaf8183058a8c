/**
 * Random journals of one session, as its actor could have written them, for property tests of stores and folds.
 *
 * @since 0.1.0
 */
import * as Authority from "@switchyard/core/Authority"
import * as Journal from "@switchyard/core/Journal"
import type { Append } from "@switchyard/core/TranscriptStore"
import type { RunId, SessionId, SessionKey } from "@switchyard/protocol/Ids"
import type { Outcome } from "@switchyard/protocol/Run"
import type { QueueMode } from "@switchyard/protocol/Submission"
import * as FastCheck from "effect/FastCheck"

/**
 * Text that breaks careless stores: NUL, lone surrogates, quotes, line separators, characters beyond the basic plane.
 *
 * @since 0.1.0
 * @category arbitraries
 */
export const text: FastCheck.Arbitrary<string> = FastCheck.array(
  FastCheck.oneof(
    FastCheck.constantFrom(
      "\u0000",
      "\ud800",
      "\udc00",
      "\ud83d\ude00",
      "\"",
      "\\",
      "\\u0000",
      "\u2028",
      "\ufeff",
      "\n"
    ),
    FastCheck.string({ maxLength: 8 }),
    FastCheck.string16bits({ maxLength: 4 })
  ),
  { maxLength: 8 }
).map((parts) => parts.join(""))

/**
 * Session keys in which the orders of code units and of code points differ.
 *
 * @since 0.1.0
 * @category arbitraries
 */
export const sessionKey: FastCheck.Arbitrary<SessionKey> = FastCheck.array(
  FastCheck.constantFrom(
    "a",
    "B",
    "0",
    "-",
    "\u00e9",
    "\u4e2d",
    "\u{1f600}",
    "\u{10000}",
    "\ufb01\u0041",
    "\ue000",
    "\uffe5"
  ),
  { minLength: 1, maxLength: 6 }
).map((parts) => parts.join("").normalize("NFC") as SessionKey)

interface Choice {
  readonly move: number
  readonly which: number
  readonly text: string
  /** Whether the entries so far are committed before the next. */
  readonly cut: boolean
}

/**
 * How the names and times in a journal are made, so that many journals fit into one store.
 *
 * @since 0.1.0
 * @category models
 */
export interface Names {
  readonly session: SessionKey
  /** Begins each run id and session id: at most 100 characters of a run id. */
  readonly prefix: string
}

/**
 * The appends of a session from its first entry on, with names that are given later: messages of every mode are
 * accepted, taken, merged, cancelled; runs start, answer, call tools, are aborted and settle, one at a time; commands
 * settle without waiting; a reset begins a new session id.
 *
 * @since 0.1.0
 * @category arbitraries
 */
export const journal: FastCheck.Arbitrary<(names: Names) => ReadonlyArray<Append>> = FastCheck.array(
  FastCheck.record<Choice>({
    move: FastCheck.nat({ max: 1023 }),
    which: FastCheck.nat({ max: 1023 }),
    text,
    cut: FastCheck.boolean()
  }),
  { maxLength: 24 }
).map((choices) => {
  const appendsOf = (names: Names) => interpret(choices, names)
  const shown = () => JSON.stringify(interpret(choices, { session: "session" as SessionKey, prefix: "run" }), null, 1)
  return Object.assign(appendsOf, { [FastCheck.toStringMethod]: shown })
})

const modes: ReadonlyArray<QueueMode> = ["steer", "followup", "collect", "interrupt"]

const outcomes: ReadonlyArray<Outcome> = ["completed", "failed", "aborted", "deadline", "interrupted"]

const authority = Authority.owner("test")

const pick = <A>(from: ReadonlyArray<A>, which: number): A => from[which % from.length]!

const interpret = (choices: ReadonlyArray<Choice>, names: Names): ReadonlyArray<Append> => {
  const appends: Array<Append> = []
  let entries: Array<Journal.Entry> = []
  let follows = 0
  let at = 1_700_000_000_000
  let made = 0
  const waiting: Array<RunId> = []
  let active: RunId | null = null

  const opened = () =>
    entries.push(Journal.entry("opened", at, { sessionId: `${names.prefix}-id-${made++}` as SessionId }))
  const accepted = (mode: QueueMode | "command", text: string): RunId => {
    const run = `${names.prefix}-${made++}` as RunId
    entries.push(
      Journal.entry("accepted", at, {
        text,
        attachments: [],
        disposition: mode === "command" ? "command" : "queued",
        digest: "",
        authority,
        route: null,
        sender: null,
        settings: { timeoutMs: null, model: null },
        debounceMs: 0
      }, { run, into: active, mode, authority: Authority.digest(authority) })
    )
    return run
  }
  const consumed = (index: number, into: RunId, text: string) => {
    const [run] = waiting.splice(index, 1)
    entries.push(
      Journal.entry("consumed", at, { message: { role: "user", content: [{ type: "text", text }] } } as never, {
        run: run!,
        into
      })
    )
  }
  const assistant = (kind: "assistant" | "reply", text: string) =>
    entries.push(
      Journal.entry(kind, at, { message: { role: "assistant", content: [{ type: "text", text }] } } as never, {
        run: active
      })
    )
  const settled = (run: RunId | null, outcome: Outcome, into: RunId | null = null) =>
    entries.push(Journal.entry("settled", at, { outcome, startedAt: at }, { run, into }))

  const commit = () => {
    if (entries.length === 0) return
    const rows = Journal.toRows({ session: names.session, activation: names.prefix, generation: 1, follows, entries })
    appends.push({ session: names.session, follows, rows })
    follows += rows.length
    entries = []
  }

  opened()
  for (const { cut, move, text, which } of choices) {
    at += which
    const moves: Array<() => void> = [
      () => waiting.push(accepted(pick(modes, which), text)),
      () => settled(accepted("command", text), "completed"),
      () => entries.push(Journal.entry("note", at, { text }, { run: active }))
    ]
    if (waiting.length > 0) {
      moves.push(() => {
        const [run] = waiting.splice(which % waiting.length, 1)
        entries.push(Journal.entry("cancelled", at, { cause: "abort" }, { run: run! }))
        settled(run!, "cancelled")
      })
    }
    if (active === null) {
      moves.push(opened)
      if (waiting.length > 0) {
        moves.push(() => {
          active = waiting[0]!
          entries.push(Journal.entry("started", at, { startedAt: at }, { run: active }))
          consumed(0, active, text)
        })
      }
    } else {
      const run: RunId = active
      moves.push(
        () => assistant("assistant", text),
        () =>
          entries.push(Journal.entry("tool_result", at, { message: { role: "tool", content: [] } } as never, { run })),
        () => entries.push(Journal.entry("abort_requested", at, { cause: "abort" }, { run })),
        () => {
          assistant("reply", text)
          entries.push(Journal.entry("delivery_started", at, { route: { channel: text || "-" } }, { run }))
        },
        () => {
          settled(run, pick(outcomes, which))
          active = null
        }
      )
      if (waiting.length > 0) {
        moves.push(() => {
          const index = which % waiting.length
          const merged = waiting[index]!
          consumed(index, run, text)
          settled(merged, "merged", run)
        })
      }
    }
    pick(moves, move)()
    if (cut) commit()
  }
  commit()
  return appends
}
