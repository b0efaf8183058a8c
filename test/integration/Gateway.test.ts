import { assert, describe, it } from "@effect/vitest"
import type { Client } from "@switchyard/client/Client"
import type { AgentEvent } from "@switchyard/protocol/AgentEvent"
import { isTerminal } from "@switchyard/protocol/AgentEvent"
import { Effect, Stream } from "effect"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { folder } from "../support/folder.js"
import * as gatewayProcess from "../support/gatewayProcess.js"

type Api = Client["Type"]

// Waits for the first event of a run that is as asked for.
const until = (client: Api, runId: string, wanted: (event: AgentEvent) => boolean) =>
  client.follow({ runId }).pipe(Stream.takeUntil(wanted), Stream.runDrain)

const isDelta = (event: AgentEvent) => event.stream === "assistant" && event.data.type === "delta"
const isToolEnd = (event: AgentEvent) => event.stream === "tool" && event.data.type === "end"

const userRows = (client: Api, sessionKey: string) =>
  Effect.map(client.sessions.history(sessionKey), ({ messages }) => messages.filter((row) => row.role === "user"))

describe("a gateway in a process of its own", () => {
  it.scopedLive("does what each mode says, while real runs are busy with real tools (3)", () =>
    Effect.gen(function*() {
      const root = yield* folder
      writeFileSync(join(root, "README.md"), "one two three\n")
      const { client } = yield* gatewayProcess.gateway({ stateDir: join(root, "state"), workspace: root })

      const steer = Effect.gen(function*() {
        const main = yield* client.submit({ sessionKey: "steer", message: "check slowly 5 times" })
        yield* until(client, main.runId, isToolEnd)
        const second = yield* client.submit({ sessionKey: "steer", message: "how many words are in README.md?" })
        assert.strictEqual(second.disposition, "steering")
        const [a, b] = [yield* client.waitFor(main.runId), yield* client.waitFor(second.runId)]
        assert.deepStrictEqual([a.status, a.outcome, b.status, b.outcome, b.mergedInto], [
          "ok",
          "completed",
          "ok",
          "merged",
          main.runId
        ])
        assert.strictEqual(a.reply, b.reply)
        assert.match(a.reply!, /\b3\b/)
      })

      const followup = Effect.gen(function*() {
        const main = yield* client.submit({ sessionKey: "followup", message: "count slowly to 20" })
        yield* until(client, main.runId, isDelta)
        const second = yield* client.submit({
          sessionKey: "followup",
          message: "how many words are in README.md?",
          mode: "followup"
        })
        assert.strictEqual(second.disposition, "queued")
        const [a, b] = [yield* client.waitFor(main.runId), yield* client.waitFor(second.runId)]
        assert.deepStrictEqual([a.outcome, b.outcome], ["completed", "completed"])
        assert.isAtLeast(b.startedAt!, a.endedAt!)
        assert.include(a.reply, "20")
      })

      const collect = Effect.gen(function*() {
        const main = yield* client.submit({ sessionKey: "collect", message: "count slowly to 20" })
        yield* until(client, main.runId, isDelta)
        const [b, c] = yield* Effect.forEach(
          ["list", "how many words are in README.md?"],
          (message) => client.submit({ sessionKey: "collect", message, mode: "collect" })
        )
        assert.deepStrictEqual([b!.disposition, c!.disposition], ["collecting", "collecting"])
        const [first, second] = [yield* client.waitFor(b!.runId), yield* client.waitFor(c!.runId)]
        assert.deepStrictEqual([first.outcome, first.mergedInto, second.outcome], ["merged", c!.runId, "completed"])
        assert.strictEqual((yield* userRows(client, "collect")).length, 3)
      })

      const interrupt = Effect.gen(function*() {
        const main = yield* client.submit({ sessionKey: "interrupt", message: "count slowly to 1000" })
        yield* until(client, main.runId, isDelta)
        const second = yield* client.submit({ sessionKey: "interrupt", message: "hello", mode: "interrupt" })
        assert.strictEqual(second.disposition, "interrupting")
        const [a, b] = [yield* client.waitFor(main.runId), yield* client.waitFor(second.runId)]
        assert.deepStrictEqual([a.status, a.outcome, b.outcome], ["error", "aborted", "completed"])
        const cut = (yield* client.sessions.history("interrupt")).messages.find((row) => row.cut !== undefined)
        assert.strictEqual(cut?.cut, "aborted")
      })

      yield* Effect.all([steer, followup, collect, interrupt], { concurrency: "unbounded" })
    }))

  it.scopedLive("an abort ends a run within moments, keeps its text, and the next message runs (8.3, 8.4)", () =>
    Effect.gen(function*() {
      const root = yield* folder
      const { client } = yield* gatewayProcess.gateway({ stateDir: join(root, "state"), workspace: root })
      const main = yield* client.submit({ sessionKey: "s", message: "count slowly to 1000" })
      yield* until(client, main.runId, isDelta)
      assert.strictEqual((yield* client.abort(main.runId)).status, "aborting")
      const result = yield* client.waitFor(main.runId)
      assert.strictEqual(result.outcome, "aborted")
      assert.include(result.reply, "1")
      const next = yield* client.submit({ sessionKey: "s", message: "hello" })
      assert.strictEqual((yield* client.waitFor(next.runId)).outcome, "completed")
    }))

  it.scopedLive("SIGTERM settles what runs as interrupted, keeps what waits, and the next start goes on (8.7, 10.1)", () =>
    Effect.gen(function*() {
      const root = yield* folder
      const options = { stateDir: join(root, "state"), workspace: root }
      const first = yield* gatewayProcess.gateway(options)
      const main = yield* first.client.submit({ sessionKey: "s", message: "count slowly to 1000" })
      const waiting = yield* first.client.submit({ sessionKey: "s", message: "hello", mode: "followup" })
      yield* until(first.client, main.runId, isDelta)
      assert.strictEqual(yield* gatewayProcess.end(first.child, "SIGTERM"), 0)
      const second = yield* gatewayProcess.gateway(options)
      assert.strictEqual((yield* second.client.waitFor(main.runId)).outcome, "interrupted")
      assert.strictEqual((yield* second.client.waitFor(waiting.runId)).outcome, "completed")
    }))

  it.scopedLive("fifty calls at once with one id over RPC are one run and fifty equal answers (2.3)", () =>
    Effect.gen(function*() {
      const root = yield* folder
      const { client } = yield* gatewayProcess.gateway({ stateDir: join(root, "state"), workspace: root })
      const answers = yield* Effect.all(
        Array.from({ length: 50 }, () => client.submit({ sessionKey: "s", message: "hello", idempotencyKey: "one" })),
        { concurrency: "unbounded" }
      )
      assert.strictEqual(new Set(answers.map(({ replayed: _, ...answer }) => JSON.stringify(answer))).size, 1)
      assert.strictEqual(answers.filter(({ replayed }) => replayed === undefined).length, 1)
      yield* client.waitFor("one")
      assert.strictEqual((yield* userRows(client, "s")).length, 1)
      const conflict = yield* Effect.flip(
        client.submit({ sessionKey: "s", message: "other", idempotencyKey: "one" })
      )
      assert.strictEqual(conflict._tag, "IdempotencyConflict")
    }))

  it.scopedLive("a follower that is cut ten times in the middle has exactly the reply (5.2)", () =>
    Effect.gen(function*() {
      const root = yield* folder
      const { client } = yield* gatewayProcess.gateway({ stateDir: join(root, "state"), workspace: root })
      const { runId } = yield* client.submit({ sessionKey: "s", message: "count slowly to 20" })
      let text = ""
      let after: string | undefined
      let cuts = 0
      let ended = false
      while (!ended) {
        // two events, then away: the rest of what was on its way is lost, as with a broken connection
        const events = yield* client.follow({ runId, after }).pipe(
          cuts < 10 ? Stream.take(2) : (stream) => stream,
          Stream.runCollect
        )
        cuts += 1
        for (const event of events) {
          after = event.cursor
          if (event.stream === "assistant" && event.data.type === "delta") text += event.data.text
          if (event.stream === "stream") text = event.data.text
          ended ||= isTerminal(event) && event.runId === runId
        }
      }
      assert.isAtLeast(cuts, 10)
      assert.strictEqual(text, (yield* client.waitFor(runId)).reply)
    }))
})
