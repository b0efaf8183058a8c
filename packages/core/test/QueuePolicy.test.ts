import { assert, describe, it } from "@effect/vitest"
import * as Authority from "@switchyard/core/Authority"
import * as Journal from "@switchyard/core/Journal"
import * as QueuePolicy from "@switchyard/core/QueuePolicy"
import * as SessionState from "@switchyard/core/SessionState"
import type { RunId, SessionId, SessionKey } from "@switchyard/protocol/Ids"
import type { QueueMode } from "@switchyard/protocol/Submission"
import { Effect, FastCheck } from "effect"

const limits = { collectMaxWaitMs: 10_000, steering: "all", steerTools: "skip" } as const
const authorities = [Authority.owner("me"), { senderId: "guest", owner: false, scopes: ["write" as const] }]
const modes: ReadonlyArray<QueueMode> = ["steer", "followup", "collect", "interrupt"]
const fresh = "id" as SessionId

type Action =
  | { readonly _tag: "submit"; readonly mode: number; readonly authority: number; readonly clear: boolean }
  | { readonly _tag: "boundary"; readonly kind: number; readonly route: boolean }
  | { readonly _tag: "end"; readonly outcome: number }
  | { readonly _tag: "abort"; readonly which: number }
  | { readonly _tag: "stop"; readonly clear: boolean }
  | { readonly _tag: "wait"; readonly ms: number }
  | { readonly _tag: "deadline" }
  | { readonly _tag: "crash" }

const action: FastCheck.Arbitrary<Action> = FastCheck.oneof(
  {
    weight: 5,
    arbitrary: FastCheck.record({
      _tag: FastCheck.constant("submit" as const),
      mode: FastCheck.nat(3),
      authority: FastCheck.nat(4).map((n) => n === 4 ? 1 : 0),
      clear: FastCheck.boolean()
    })
  },
  {
    weight: 6,
    arbitrary: FastCheck.record({
      _tag: FastCheck.constant("boundary" as const),
      kind: FastCheck.nat(3),
      route: FastCheck.boolean()
    })
  },
  { weight: 2, arbitrary: FastCheck.record({ _tag: FastCheck.constant("end" as const), outcome: FastCheck.nat(3) }) },
  { weight: 1, arbitrary: FastCheck.record({ _tag: FastCheck.constant("abort" as const), which: FastCheck.nat(20) }) },
  { weight: 1, arbitrary: FastCheck.record({ _tag: FastCheck.constant("stop" as const), clear: FastCheck.boolean() }) },
  { weight: 2, arbitrary: FastCheck.record({ _tag: FastCheck.constant("wait" as const), ms: FastCheck.nat(700) }) },
  { weight: 1, arbitrary: FastCheck.constant({ _tag: "deadline" as const }) },
  { weight: 1, arbitrary: FastCheck.constant({ _tag: "crash" as const }) }
)

// Plays actions on the machine, with a journal that always commits, and checks every rule after every step.
const play = (actions: ReadonlyArray<Action>) => {
  const journal: Array<Journal.Entry> = []
  const submitted: Array<{ readonly runId: RunId; readonly mode: QueueMode; readonly authority: string }> = []
  const activeAtAcceptance = new Map<RunId, RunId | null>()
  let state = QueuePolicy.initial(SessionState.empty, fresh)
  let now = 0
  let aborts = new Set<RunId>()

  const step = (event: DistributiveOmit<QueuePolicy.Event, "now" | "mono">) => {
    const before = state
    const result = QueuePolicy.step(limits, before, { ...event, now, mono: now } as QueuePolicy.Event)
    state = result.state
    for (const entry of result.entries) journal.push(entry)
    // The entries are the difference: replaying them is the next state.
    assert.deepStrictEqual(state.session, SessionState.applyAll(before.session, result.entries, now))
    check(result)
    return result
  }

  const check = (result: QueuePolicy.Step) => {
    const { active, due, session } = state
    // I3
    if (session.open !== null) assert.strictEqual(session.open.runId, active?.runId)
    // I7 (3.10)
    if (active === null && session.rows.length > 0) assert.isNotNull(due)
    if (active !== null) assert.isNull(due)
    for (const entry of result.entries) {
      if (entry.kind !== "consumed") continue
      const row = submitted.find((other) => other.runId === entry.run)!
      const into = submitted.find((other) => other.runId === entry.into)!
      // I6
      assert.strictEqual(row.authority, into.authority)
      // I5: a steer enters the run that was active when it was accepted, or one of its own
      if (row.mode === "steer" && entry.into !== entry.run) {
        assert.strictEqual(activeAtAcceptance.get(row.runId), entry.into)
      }
    }
  }

  const offer = (runId: RunId, mode: QueueMode, authority: number, clearQueued: boolean): QueuePolicy.Offer => ({
    runId,
    text: runId,
    attachments: [],
    mode,
    route: null,
    sender: null,
    authority: authorities[authority]!,
    settings: { timeoutMs: null, model: null },
    debounceMs: 500,
    clearQueued,
    digest: runId
  })

  const reply = { message: { role: "assistant" as const, content: "x" } }
  for (const action of actions) {
    now += 1
    const token = state.active?.token ?? -1
    switch (action._tag) {
      case "submit": {
        const runId = `r${submitted.length}` as RunId
        const mode = modes[action.mode]!
        submitted.push({ runId, mode, authority: Authority.digest(authorities[action.authority]!) })
        activeAtAcceptance.set(runId, state.active?.runId ?? null)
        const result = step({
          _tag: "Submit",
          offer: offer(runId, mode, action.authority, action.clear),
          covered: null
        })
        assert.strictEqual(result.reply._tag, "Accepted")
        // the same id again changes nothing (2.3)
        if (state.session.rows.some((row) => row.runId === runId)) {
          const again = step({ _tag: "Submit", offer: offer(runId, "followup", 0, false), covered: null })
          assert.deepStrictEqual([again.reply._tag, again.entries.length], ["Known", 0])
        }
        break
      }
      case "boundary":
        step({
          _tag: "Boundary",
          token,
          boundary: action.kind === 0
            ? { _tag: "first" }
            : state.active?.phase !== "running"
            ? { _tag: "first" }
            : action.kind === 1
            ? { _tag: "step" }
            : action.kind === 2
            ? { _tag: "launch", skipped: [] }
            : { _tag: "last", reply, route: action.route ? { channel: "c" } : null, usage: undefined }
        })
        break
      case "end":
        step({
          _tag: "End",
          token,
          end: {
            outcome: (["completed", "failed", "interrupted", "aborted"] as const)[action.outcome]!,
            results: [],
            reply: null,
            note: null
          }
        })
        break
      case "abort": {
        const target = submitted[action.which % Math.max(1, submitted.length)]
        if (target === undefined) break
        const result = step({ _tag: "Abort", runId: target.runId })
        if (result.reply._tag === "Aborting") aborts.add(target.runId)
        break
      }
      case "stop":
        step({ _tag: "Stop", clearQueued: action.clear, command: null })
        break
      case "wait":
        now += action.ms
        if (state.due !== null && state.due <= now) step({ _tag: "Timer" })
        break
      case "deadline":
        step({ _tag: "Deadline", token })
        break
      case "crash": {
        state = QueuePolicy.initial(SessionState.applyAll(SessionState.empty, journal, now), fresh)
        step({ _tag: "Recover", outcome: "interrupted" })
        // I12: an abort that was answered is never followed by a resume
        for (const runId of aborts) {
          assert.isTrue(
            journal.some((entry) =>
              entry.kind === "settled" && entry.run === runId && entry.payload?.outcome === "aborted"
            )
          )
        }
        aborts = new Set()
        break
      }
    }
  }
  // Let everything that is left run to its end.
  for (let left = 0; left < 4 * submitted.length + 4; left += 1) {
    now += 20_000
    if (state.active === null) {
      if (state.due === null) break
      step({ _tag: "Timer" })
      continue
    }
    if (state.active.ending !== null || state.active.phase === "closed") {
      step({
        _tag: "End",
        token: state.active.token,
        end: { outcome: "completed", results: [], reply: null, note: null }
      })
      continue
    }
    const boundary = state.active.phase === "starting"
      ? { _tag: "first" as const }
      : { _tag: "last" as const, reply, route: null, usage: undefined }
    step({ _tag: "Boundary", token: state.active.token, boundary })
  }
  return { journal, submitted, state }
}

type DistributiveOmit<T, K extends PropertyKey> = T extends unknown ? Omit<T, K> : never

const outcomesOf = (journal: ReadonlyArray<Journal.Entry>, runId: RunId) =>
  journal.filter((entry) =>
    entry.run === runId &&
    (entry.kind === "settled" || entry.kind === "cancelled" || (entry.kind === "consumed" && entry.into !== runId))
  )

describe("QueuePolicy", () => {
  it.effect.prop(
    "whatever happens, every accepted message gets one outcome and stands in the transcript at most once (I1, I2, 3)",
    { actions: FastCheck.array(action, { maxLength: 40 }) },
    ({ actions }) =>
      Effect.sync(() => {
        const { journal, state, submitted } = play(actions)
        assert.deepStrictEqual([state.active, state.session.rows, state.session.open], [null, [], null])
        for (const { runId } of submitted) {
          assert.strictEqual(outcomesOf(journal, runId).length, 1, `outcomes of ${runId}`)
          const cancelled = journal.some((entry) => entry.kind === "cancelled" && entry.run === runId)
          const consumed = journal.filter((entry) => entry.kind === "consumed" && entry.run === runId)
          assert.strictEqual(consumed.length, cancelled ? 0 : 1, `user rows of ${runId}`)
        }
      }),
    { fastCheck: { numRuns: 400 } }
  )

  it.effect.prop(
    "messages are taken in order, but for interrupts and steers into their run (I4, 2.4, 3.2, 3.8)",
    { actions: FastCheck.array(action, { maxLength: 40 }) },
    ({ actions }) =>
      Effect.sync(() => {
        const { journal, submitted } = play(actions)
        const place = new Map(submitted.map(({ runId }, index) => [runId as string, index]))
        const mode = new Map(
          journal.flatMap((entry) => entry.kind === "accepted" ? [[entry.run, entry.mode] as const] : [])
        )
        const taken = journal.flatMap((entry) => entry.kind === "consumed" ? [entry] : [])
        const own = taken.filter((entry) =>
          mode.get(entry.run) !== "interrupt" && !(mode.get(entry.run) === "steer" && entry.into !== entry.run)
        )
        const order = own.map((entry) => place.get(entry.run!)!)
        assert.deepStrictEqual(order, order.slice().sort((a, b) => a - b))
      }),
    { fastCheck: { numRuns: 300 } }
  )

  it.effect.prop(
    "a journal folds to the same state, however often it is cut and written again as rows (1, design of the journal)",
    { actions: FastCheck.array(action, { maxLength: 30 }) },
    ({ actions }) =>
      Effect.sync(() => {
        const { journal, state } = play(actions)
        const rows = Journal.toRows({
          session: "s" as SessionKey,
          activation: "a",
          generation: 1,
          follows: 0,
          entries: journal
        })
        const read = rows.map(Journal.fromRow)
        assert.deepStrictEqual(
          SessionState.applyAll(SessionState.empty, read, 0),
          SessionState.applyAll(SessionState.empty, journal, 0)
        )
        assert.deepStrictEqual(SessionState.applyAll(SessionState.empty, read, 0).rows, state.session.rows)
      }),
    { fastCheck: { numRuns: 100 } }
  )

  it("a token that is not the active run's writes nothing, whatever it asks for (9.6)", () => {
    const state = QueuePolicy.initial(SessionState.empty, fresh)
    const instant = { now: 0, mono: 0 }
    for (
      const event of [
        { _tag: "Append", token: 7, entries: [Journal.entry("note", 0, { text: "x" })] },
        { _tag: "Boundary", token: 7, boundary: { _tag: "first" } },
        { _tag: "Boundary", token: 7, boundary: { _tag: "step" } },
        { _tag: "End", token: 7, end: { outcome: "completed", results: [], reply: null, note: null } }
      ] as const
    ) {
      const step = QueuePolicy.step(limits, state, { ...event, ...instant })
      assert.deepStrictEqual([step.reply._tag, step.entries, step.state], ["Revoked", [], state])
    }
  })
})
