/** @internal */
import { isTerminal } from "@switchyard/protocol/AgentEvent"
import type { Cursor, RunId } from "@switchyard/protocol/Ids"
import type { Follower, Place, Session, TextStream } from "./eventSession.js"
import { offer, parse, push, resetEvent } from "./eventSession.js"

/**
 * Brings a new follower up to now.
 *
 * @internal
 */
export const replay = (session: Session, follower: Follower, after: Cursor | undefined) => {
  const place = after === undefined ? null : parse(after)
  const lost = after !== undefined &&
    (place === null || place.activation !== session.activation || place.count > session.count ||
      place.count < session.evicted)
  if (lost) {
    const own = session.kept.filter(({ event }) => event.runId !== null && event.runId === follower.own)
    for (const { event } of own) {
      if (event.stream === "queue" && "into" in event.data) follower.runs?.add(event.data.into)
    }
    push(follower, resetEvent(session, follower))
    for (const { event } of own) if (isTerminal(event)) offer(follower, event)
    follower.others = 0
    return
  }
  const from: Place = place ?? { activation: session.activation, count: 0, assistant: 0, reasoning: 0 }
  const texts = textsOf(session)
  // How much of each text the follower has, once it has what came before `count`.
  const have = new Map(
    texts.map((text) => [text, text.from < from.count && from.count < text.to ? from[text.stream] : 0])
  )
  // Text that belongs before an event comes before it, so that a cut between any two loses nothing.
  const catchUp = (count: number, offsets: { readonly [K in TextStream]: number } | null) => {
    for (const text of texts) {
      if (text.to <= from.count || text.from >= count || text.to < count) continue
      if (follower.runs !== null && !follower.runs.has(text.runId)) continue
      const had = have.get(text)!
      const upTo = offsets === null || text.to === count ? text.text.length : offsets[text.stream]
      if (upTo <= had) continue
      have.set(text, upTo)
      const place = { assistant: 0, reasoning: 0, ...offsets, [text.stream]: upTo }
      push(follower, {
        runId: text.runId,
        sessionKey: session.key,
        seq: text.lastSeq,
        ...(had === 0 ? { fromSeq: text.firstSeq } : {}),
        cursor: `${session.activation}:${count - 1}:${place.assistant}:${place.reasoning}` as Cursor,
        ts: session.clock?.unsafeCurrentTimeMillis() ?? 0,
        stream: text.stream,
        data: { type: "delta", text: text.text.slice(had, upTo) }
      })
    }
  }
  // What is replayed is bounded by what is kept, and does not count against the follower.
  follower.others = Number.NEGATIVE_INFINITY
  for (const { count, event } of session.kept) {
    if (count <= from.count) {
      // what happened before still says which runs belong to this one
      if (event.runId === follower.own && event.stream === "queue" && "into" in event.data) {
        follower.runs?.add(event.data.into)
      }
      continue
    }
    catchUp(count, parse(event.cursor))
    offer(follower, event)
  }
  catchUp(session.count + 1, null)
  follower.others = 0
}

interface Text {
  readonly stream: TextStream
  readonly runId: RunId
  readonly from: number
  readonly to: number
  readonly text: string
  readonly firstSeq: number
  readonly lastSeq: number
}

// The texts that followers may still miss: those of kept messages, and the open ones.
const textsOf = (session: Session): ReadonlyArray<Text> => {
  const texts: Array<Text> = []
  for (const { count, event, firstSeq, messageFrom } of session.kept) {
    if ((event.stream !== "assistant" && event.stream !== "reasoning") || event.data.type !== "text") continue
    texts.push({
      stream: event.stream,
      runId: event.runId!,
      from: messageFrom,
      to: count,
      text: event.data.text,
      firstSeq,
      lastSeq: event.seq - 1
    })
  }
  for (const stream of ["reasoning", "assistant"] as const) {
    const open = session.open[stream]
    if (open === null) continue
    const lastSeq = session.seqs.get(open.runId) ?? open.firstSeq
    texts.push({ ...open, stream, to: Number.POSITIVE_INFINITY, lastSeq })
  }
  return texts
}
