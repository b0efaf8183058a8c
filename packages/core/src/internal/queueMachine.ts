/** @internal */
import type * as Prompt from "@effect/ai/Prompt"
import type { RunId } from "@switchyard/protocol/Ids"
import type { Disposition } from "@switchyard/protocol/Run"
import type { QueueMode } from "@switchyard/protocol/Submission"
import * as Authority from "../Authority.js"
import * as Journal from "../Journal.js"
import type {
  Active,
  Boundary,
  Command,
  End,
  EndCause,
  Event,
  Instant,
  Limits,
  Offer,
  Reply,
  State,
  Step
} from "../QueuePolicy.js"
import * as SessionState from "../SessionState.js"

/** @internal */
export const notes: Record<Exclude<End["outcome"], "completed">, string> = {
  aborted: "The previous run was stopped before it finished. Its work may be partial.",
  deadline: "The previous run reached its time limit before it finished. Its work may be partial.",
  failed: "The previous run failed before it finished. Its work may be partial.",
  interrupted:
    "The previous run was cut short because the program ended. Its work may be partial, and the outcome of " +
    "what it was doing is unknown."
}

/** @internal */
export const step = (limits: Limits, state: State, event: Event): Step => {
  const draft = new Draft(limits, state, event)
  const reply = decide(draft, event)
  return { state: draft.state, entries: draft.entries, commands: draft.commands, reply }
}

// A step in the making. Local to one call of `step`.
class Draft {
  readonly entries: Array<Journal.Entry> = []
  readonly commands: Array<Command> = []
  constructor(readonly limits: Limits, public state: State, readonly at: Instant) {}

  get active() {
    return this.state.active
  }
  get rows() {
    return this.state.session.rows
  }
  commit(entry: Journal.Entry) {
    this.entries.push(entry)
    this.state = { ...this.state, session: SessionState.apply(this.state.session, entry, this.at.mono) }
  }
  set(active: Active | null) {
    this.state = { ...this.state, active }
  }
}

const decide = (draft: Draft, event: Event): Reply => {
  switch (event._tag) {
    case "Recover":
      return recover(draft, event.outcome)
    case "Submit":
      return submit(draft, event.offer, event.covered)
    case "Abort":
      return abort(draft, event.runId)
    case "Stop":
      return stop(draft, event.clearQueued, event.command)
    case "Boundary":
      return boundary(draft, event.token, event.boundary)
    case "Append": {
      if (draft.active?.token !== event.token) return { _tag: "Revoked" }
      for (const entry of event.entries) draft.commit(entry)
      return { _tag: "Done" }
    }
    case "End":
      return end(draft, event.token, event.end)
    case "Deadline": {
      const { active } = draft
      if (active?.token !== event.token || active.phase === "closed" || active.ending !== null) return { _tag: "Done" }
      draft.set({ ...active, ending: "deadline" })
      draft.commands.push({ _tag: "AbortRun", token: active.token, cause: "deadline" })
      return { _tag: "Done" }
    }
    case "Timer":
      schedule(draft)
      return { _tag: "Done" }
    case "Drain": {
      const { active } = draft
      draft.state = { ...draft.state, draining: true, due: null }
      if (active !== null && active.phase !== "closed" && active.ending === null) {
        draft.set({ ...active, ending: "shutdown" })
        draft.commands.push({ _tag: "AbortRun", token: active.token, cause: "shutdown" })
      }
      return { _tag: "Done" }
    }
  }
}

// --- at the start of an activation ---

const recover = (draft: Draft, outcome: "interrupted" | "failed"): Reply => {
  const { now } = draft.at
  const { open } = draft.state.session
  if (open !== null) {
    const final = open.delivering ? "completed" : open.abort !== null ? "aborted" : outcome
    if (final !== "completed") draft.commit(Journal.entry("note", now, { text: notes[final] }, { run: open.runId }))
    draft.commit(Journal.entry("settled", now, {
      outcome: final,
      startedAt: open.startedAt,
      ...(open.delivering ? { delivery: "unknown" as const } : {}),
      ...(final === "interrupted" ? { error: interruptedError } : final === "failed" ? { error: defectError } : {})
    }, { run: open.runId }))
  }
  // Rows whose run was to be aborted before it consumed its messages.
  for (const row of draft.rows.filter((row) => row.abort !== null && row.abortInto === row.runId)) {
    draft.commit(Journal.entry("started", now, { startedAt: now }, { run: row.runId }))
    consume(draft, draft.rows.filter((other) => other.abortInto === row.runId), row.runId, true)
    draft.commit(Journal.entry("note", now, { text: notes.aborted }, { run: row.runId }))
    draft.commit(Journal.entry("settled", now, { outcome: "aborted", startedAt: now }, { run: row.runId }))
  }
  schedule(draft)
  return { _tag: "Done" }
}

const interruptedError = {
  code: "interrupted",
  message: "The program ended while the run was in progress. Its committed steps stand in the history."
}
const selfInterruptedError = {
  code: "internal",
  message: "The run was interrupted from within, by its model or a hook."
}
const defectError = { code: "internal", message: "The run failed because of a fault in the program." }

// --- messages ---

const accepted = (
  draft: Draft,
  offer: Offer,
  disposition: Disposition,
  columns: { readonly into?: RunId | null; readonly mode?: QueueMode | "command" }
): Reply => {
  if (draft.state.session.sessionId === null) {
    draft.commit(Journal.entry("opened", draft.at.now, { sessionId: draft.state.freshId }))
  }
  draft.commit(Journal.entry("accepted", draft.at.now, {
    text: offer.text,
    attachments: offer.attachments,
    disposition,
    digest: offer.digest,
    authority: offer.authority,
    route: offer.route,
    sender: offer.sender,
    settings: offer.settings,
    debounceMs: offer.debounceMs
  }, {
    run: offer.runId,
    into: columns.into ?? null,
    mode: columns.mode ?? offer.mode,
    authority: Authority.digest(offer.authority)
  }))
  return { _tag: "Accepted", acceptedAt: draft.at.now, disposition }
}

const isKnown = (state: State, runId: RunId): boolean =>
  state.session.rows.some((row) => row.runId === runId) ||
  state.session.open?.runId === runId ||
  (state.session.open?.members.includes(runId) ?? false)

const submit = (draft: Draft, offer: Offer, covered: "abort" | "stop" | null): Reply => {
  if (isKnown(draft.state, offer.runId)) return { _tag: "Known" }
  if (draft.state.draining) return { _tag: "Draining" }
  const { active } = draft
  if (covered !== null) {
    const reply = accepted(draft, offer, "queued", {})
    cancel(draft, offer.runId, covered)
    return reply
  }
  if (active === null) {
    const disposition = offer.mode === "collect"
      ? "collecting"
      : offer.mode === "interrupt" || draft.rows.length === 0
      ? "started"
      : "queued"
    const cleared = offer.mode === "interrupt" && offer.clearQueued ? cancellable(draft, offer.authority) : []
    const reply = accepted(draft, offer, disposition, {})
    for (const row of cleared) cancel(draft, row.runId, "clear")
    schedule(draft)
    return reply
  }
  const authority = Authority.digest(offer.authority)
  switch (offer.mode) {
    case "steer": {
      const open = active.phase !== "closed" && active.ending === null && active.authority === authority &&
        // A steer that missed its run keeps its place before those that come later.
        !draft.rows.some((row) =>
          row.mode === "steer" && row.authority === authority && row.boundTo !== active.runId &&
          !active.group.includes(row.runId)
        )
      return open
        ? accepted(draft, offer, "steering", { into: active.runId })
        : accepted(draft, offer, "queued", {})
    }
    case "followup":
      return accepted(draft, offer, "queued", {})
    case "collect":
      return accepted(draft, offer, "collecting", {})
    case "interrupt": {
      if (!Authority.mayAbort(offer.authority, active.authority)) {
        return accepted(draft, offer, "queued", { mode: "followup" })
      }
      const cleared = offer.clearQueued ? cancellable(draft, offer.authority) : []
      const reply = accepted(draft, offer, "interrupting", { into: active.runId })
      for (const row of cleared) cancel(draft, row.runId, "clear")
      requestAbort(draft, active, "interrupt")
      return reply
    }
  }
}

// The rows that a signal may cancel: not those of the run that is starting, nor, for a message, those of another authority.
const cancellable = (draft: Draft, by: Authority.Authority | null) =>
  draft.rows.filter((row) =>
    !draft.active?.group.includes(row.runId) && (by === null || Authority.mayAbort(by, row.authority))
  )

const cancel = (draft: Draft, runId: RunId, cause: Journal.AbortCause) =>
  draft.commit(Journal.entry("cancelled", draft.at.now, { cause }, { run: runId }))

// --- signals ---

const isAbort = (cause: EndCause | null): boolean => cause !== null && cause !== "deadline" && cause !== "shutdown"

// Wants the active run ended; false if it is too late for that.
const requestAbort = (draft: Draft, active: Active, cause: Journal.AbortCause): boolean => {
  if (active.phase === "closed") return false
  if (isAbort(active.ending)) return true
  // A group that is not consumed yet is bound to its run: all of it ends with the run, also after a crash.
  const bound = active.phase === "starting" ? active.group : [active.runId]
  for (const run of bound) {
    draft.commit(Journal.entry("abort_requested", draft.at.now, { cause }, { run, into: active.runId }))
  }
  draft.set({ ...active, ending: cause })
  draft.commands.push({ _tag: "AbortRun", token: active.token, cause })
  return true
}

const abort = (draft: Draft, runId: RunId): Reply => {
  const { active } = draft
  if (active !== null) {
    if (active.runId === runId) {
      return requestAbort(draft, active, "abort") ? { _tag: "Aborting" } : { _tag: "Delivering" }
    }
    if (active.group.includes(runId) || draft.state.session.open?.members.includes(runId)) {
      return { _tag: "Merged", into: active.runId }
    }
  }
  if (!draft.rows.some((row) => row.runId === runId)) return { _tag: "Elsewhere" }
  cancel(draft, runId, "abort")
  schedule(draft)
  return { _tag: "Cancelled" }
}

const stop = (draft: Draft, clearQueued: boolean, command: Offer | null): Reply => {
  if (command !== null && isKnown(draft.state, command.runId)) return { _tag: "Known" }
  const { active } = draft
  const by = command?.authority ?? null
  const cancelled = clearQueued ? cancellable(draft, by) : []
  for (const row of cancelled) cancel(draft, row.runId, "stop")
  const aborted = active !== null && (by === null || Authority.mayAbort(by, active.authority)) &&
      requestAbort(draft, active, "stop")
    ? active.runId
    : null
  if (command === null) {
    schedule(draft)
    return { _tag: "Stopped", aborted, cancelled: cancelled.map((row) => row.runId) }
  }
  const reply = accepted(draft, command, "command", { mode: "command" })
  const done = aborted === null ? "Nothing was running" : "Stopped the run"
  draft.commit(Journal.entry("settled", draft.at.now, {
    outcome: "completed",
    startedAt: draft.at.now,
    reply: cancelled.length === 0 ? `${done}.` : `${done}; ${cancelled.length} waiting message(s) cancelled.`
  }, { run: command.runId, mode: "command" }))
  schedule(draft)
  return reply
}

// --- boundaries of the active run ---

const userMessage = (row: SessionState.WaitingRow) => {
  const content: Array<Prompt.UserMessagePartEncoded> = []
  const { payload } = row
  if (payload === undefined) content.push({ type: "text", text: unreadable })
  else {
    if (payload.text !== "") content.push({ type: "text", text: payload.text })
    for (const { data, fileName, mediaType } of payload.attachments) {
      content.push({ type: "file", mediaType, data, fileName })
    }
  }
  return { role: "user" as const, content }
}

const unreadable = "[The stored text of this message could not be read.]"

const consume = (draft: Draft, rows: ReadonlyArray<SessionState.WaitingRow>, into: RunId, collected = false) => {
  const entries = rows.map((row, index) =>
    Journal.entry("consumed", draft.at.now, {
      message: userMessage(row),
      ...(row.payload?.sender ? { sender: row.payload.sender } : {}),
      ...(collected && rows.length > 1 ? { collected: { index: index + 1, of: rows.length } } : {})
    }, { run: row.runId, into, mode: row.mode })
  )
  for (const entry of entries) draft.commit(entry)
  return entries
}

const begin = (draft: Draft, active: Active) => {
  draft.commit(Journal.entry("started", draft.at.now, { startedAt: active.startedAt }, { run: active.runId }))
  const group = draft.rows.filter((row) => active.group.includes(row.runId))
  return consume(draft, group, active.runId, true)
}

const takeSteers = (draft: Draft, active: Active) => {
  const waiting = draft.rows.filter((row) => row.boundTo === active.runId)
  return consume(draft, draft.limits.steering === "one" ? waiting.slice(0, 1) : waiting, active.runId)
}

const boundary = (draft: Draft, token: number, boundary: Boundary): Reply => {
  const { active } = draft
  if (active === null || active.token !== token || active.ending !== null) return { _tag: "Revoked" }
  switch (boundary._tag) {
    case "first": {
      if (active.phase !== "starting") return { _tag: "Revoked" }
      const own = begin(draft, active)
      const steers = takeSteers(draft, active)
      draft.set({ ...active, phase: "running" })
      return { _tag: "Entered", messages: [...own, ...steers] }
    }
    case "step":
      return { _tag: "Entered", messages: takeSteers(draft, active) }
    case "launch": {
      if (draft.limits.steerTools === "finish") return { _tag: "Entered", messages: [] }
      if (draft.rows.some((row) => row.boundTo === active.runId)) {
        for (const entry of boundary.skipped) draft.commit(entry)
      }
      return { _tag: "Entered", messages: takeSteers(draft, active) }
    }
    case "last": {
      const { now } = draft.at
      if (draft.rows.some((row) => row.boundTo === active.runId)) {
        draft.commit(Journal.entry("assistant", now, boundary.reply, { run: active.runId }))
        return { _tag: "Entered", messages: takeSteers(draft, active) }
      }
      draft.commit(Journal.entry("reply", now, boundary.reply, { run: active.runId }))
      if (boundary.route !== null) {
        draft.commit(Journal.entry("delivery_started", now, { route: boundary.route }, { run: active.runId }))
        draft.set({ ...active, phase: "closed" })
        return { _tag: "Closed", settled: false }
      }
      settle(draft, active, { outcome: "completed", startedAt: active.startedAt, usage: boundary.usage })
      return { _tag: "Closed", settled: true }
    }
  }
}

const settle = (draft: Draft, active: Active, payload: Journal.Payloads["settled"]) => {
  draft.commit(Journal.entry("settled", draft.at.now, payload, { run: active.runId }))
  draft.set(null)
  schedule(draft)
}

const end = (draft: Draft, token: number, end: End): Reply => {
  const { active } = draft
  if (active === null || active.token !== token) return { _tag: "Revoked" }
  const { now } = draft.at
  const outcome: End["outcome"] = active.phase === "closed"
    ? "completed"
    : active.ending === null
    // nobody ended it, so what interrupted it was its own doing
    ? end.outcome === "interrupted" ? "failed" : end.outcome
    : isAbort(active.ending)
    ? "aborted"
    : active.ending === "deadline"
    ? "deadline"
    : "interrupted"
  if (active.phase === "starting") {
    if (active.ending === "shutdown") {
      // Nothing happened yet: the messages stay where they are for the next start.
      draft.set(null)
      return { _tag: "Closed", settled: false }
    }
    begin(draft, active)
  }
  for (const entry of end.results) draft.commit(entry)
  if (end.reply !== null) {
    const cut = outcome === "completed" ? {} : { cut: outcome }
    draft.commit(Journal.entry("reply", now, { ...end.reply, ...cut }, { run: active.runId }))
  }
  if (outcome !== "completed") {
    draft.commit(Journal.entry("note", now, { text: end.note ?? notes[outcome] }, { run: active.runId }))
  }
  const error = outcome === "failed"
    ? end.error ?? selfInterruptedError
    : outcome === "interrupted"
    ? interruptedError
    : undefined
  // A delivery that ended otherwise than it should may have sent.
  const delivery = active.phase === "closed" && end.outcome !== "completed" ? "unknown" : end.delivery
  settle(draft, active, {
    outcome,
    startedAt: active.startedAt,
    usage: end.usage,
    ...(error === undefined ? {} : { error }),
    ...(delivery === undefined ? {} : { delivery }),
    ...(end.detached === undefined ? {} : { detached: end.detached })
  })
  return { _tag: "Closed", settled: true }
}

// --- the idle boundary ---

const agree = (a: SessionState.WaitingRow, b: SessionState.WaitingRow): boolean =>
  a.closed === b.closed && a.authority === b.authority && a.payload !== undefined && b.payload !== undefined &&
  JSON.stringify([a.payload.route, a.payload.settings]) === JSON.stringify([b.payload.route, b.payload.settings])

// The rows that the head starts a run with, and since when it may.
const head = (
  limits: Limits,
  rows: ReadonlyArray<SessionState.WaitingRow>
): { readonly group: ReadonlyArray<SessionState.WaitingRow>; readonly due: number } | null => {
  const first = rows[0]
  if (first === undefined) return null
  if (first.mode !== "interrupt" && first.mode !== "collect") return { group: [first], due: -Infinity }
  let size = 1
  while (size < rows.length && rows[size]!.mode === first.mode && agree(first, rows[size]!)) size += 1
  const group = rows.slice(0, size)
  if (first.mode === "interrupt" || first.closed || size < rows.length) return { group, due: -Infinity }
  const last = group[size - 1]!
  return {
    group,
    due: Math.min(last.since + (last.payload?.debounceMs ?? 0), first.since + limits.collectMaxWaitMs)
  }
}

const schedule = (draft: Draft) => {
  if (draft.active !== null || draft.state.draining) {
    if (draft.state.due !== null) draft.state = { ...draft.state, due: null }
    return
  }
  const next = head(draft.limits, draft.rows)
  if (next === null || next.due > draft.at.mono) {
    draft.state = { ...draft.state, due: next?.due ?? null }
    return
  }
  const lead = next.group[next.group.length - 1]!
  const token = draft.state.tokens + 1
  draft.state = {
    ...draft.state,
    due: null,
    tokens: token,
    active: {
      runId: lead.runId,
      group: next.group.map((row) => row.runId),
      authority: lead.authority,
      token,
      phase: "starting",
      ending: null,
      startedAt: draft.at.now
    }
  }
  draft.commands.push({
    _tag: "StartRun",
    runId: lead.runId,
    token,
    startedAt: draft.at.now,
    rows: next.group
  })
}
