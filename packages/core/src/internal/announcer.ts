/** @internal */
import type { RunId } from "@switchyard/protocol/Ids"
import type { WaitResult } from "@switchyard/protocol/Run"
import type { Channel } from "../EventHub.js"
import type * as Journal from "../Journal.js"
import * as RunFacts from "../RunFacts.js"
import { textOf } from "../Transcript.js"
import { terminal } from "./views.js"

/**
 * Turns committed entries into events, and tells those who wait for a run.
 *
 * @internal
 */
export class Announcer {
  // what is known of the run that is started and not settled
  private startedAt = 0
  private members: Array<RunId> = []
  private reply: string | undefined

  constructor(readonly channel: Channel) {}

  /** Takes note of an entry of the past without telling anyone. */
  remember(entry: Journal.Entry): void {
    switch (entry.kind) {
      case "started":
        this.startedAt = entry.payload?.startedAt ?? entry.at
        this.members = []
        this.reply = undefined
        return
      case "consumed":
        if (entry.run !== null && entry.into !== entry.run) this.members.push(entry.run)
        return
      case "reply":
        this.reply = entry.payload === undefined ? undefined : textOf(entry.payload.message)
        return
      default:
        return
    }
  }

  announce(entry: Journal.Entry): void {
    this.remember(entry)
    const { channel } = this
    const { run } = entry
    if (run === null) return
    switch (entry.kind) {
      case "accepted":
        return channel.publish(run, {
          stream: "queue",
          data: { type: "accepted", disposition: entry.payload?.disposition ?? "queued" }
        })
      case "started":
        return channel.publish(run, { stream: "lifecycle", data: { type: "start", startedAt: this.startedAt } })
      case "consumed":
        if (entry.into === null || entry.into === run) return
        return channel.publish(run, {
          stream: "queue",
          data: { type: entry.mode === "steer" ? "steered" : "merged", into: entry.into }
        })
      case "reply":
        if (entry.payload?.cut !== undefined && entry.payload.cut !== "length") return
        return channel.publish(run, { stream: "reply", data: { type: "final", text: this.reply ?? "" } })
      case "cancelled": {
        channel.publish(run, { stream: "queue", data: { type: "cancelled" } })
        return this.end(RunFacts.waitResult(run, {
          settled: RunFacts.settled("cancelled", undefined, entry.at),
          reply: undefined
        }))
      }
      case "settled": {
        if (entry.mode === "command") {
          const facts = { settled: RunFacts.settledFrom(entry), reply: entry.payload?.reply }
          if (facts.reply !== undefined) {
            channel.publish(run, { stream: "reply", data: { type: "final", text: facts.reply } })
          }
          return this.end(RunFacts.waitResult(run, facts))
        }
        const facts = {
          settled: RunFacts.settledFrom(entry),
          reply: entry.payload?.reply ?? this.reply
        }
        this.end(RunFacts.waitResult(run, facts), entry.payload?.detached)
        for (const member of this.members.splice(0)) this.end(RunFacts.waitResult(member, facts, run))
        this.reply = undefined
        return
      }
      default:
        return
    }
  }

  close(): void {
    this.channel.close()
  }

  private end(result: WaitResult, detached?: true) {
    this.channel.publish(result.runId, terminal(result, detached))
    this.channel.settled(result.runId, result)
  }
}
