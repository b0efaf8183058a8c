import * as NodeSocket from "@effect/platform-node/NodeSocket"
import { assert, describe, it } from "@effect/vitest"
import * as Client from "@switchyard/client/Client"
import { AgentEvent } from "@switchyard/protocol/AgentEvent"
import { IdempotencyConflict, RunNotFound, SessionNotFound, SubscriberTooSlow } from "@switchyard/protocol/Errors"
import { RunId } from "@switchyard/protocol/Ids"
import { Accepted, StopResult, WaitResult } from "@switchyard/protocol/Run"
import * as Chunk from "effect/Chunk"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FastCheck from "effect/FastCheck"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { startClient, startGateway } from "./support/harness.js"

const decodeEvent = Schema.decodeUnknownSync(AgentEvent)
const envelope = (seq: number, runId = "run-1") => ({ runId, sessionKey: "main", seq, cursor: `c${seq}`, ts: 0 })
const delta = (seq: number, runId?: string) =>
  decodeEvent({ ...envelope(seq, runId), stream: "assistant", data: { type: "delta", text: `${seq} ` } })
const end = (seq: number, runId?: string) =>
  decodeEvent({
    ...envelope(seq, runId),
    stream: "lifecycle",
    data: { type: "end", outcome: "completed", endedAt: 0 }
  })
const accepted = (runId: string) =>
  Schema.decodeUnknownSync(Accepted)({
    runId,
    sessionKey: "main",
    sessionId: "s1",
    acceptedAt: 1,
    disposition: "started"
  })
const waited = (settled: boolean) =>
  Schema.decodeUnknownSync(WaitResult)({ runId: "run-1", status: settled ? "ok" : "timeout", settled })

/** Answers from a list of events, behind the cursor that is asked for. */
const behind = (log: ReadonlyArray<AgentEvent>, after: unknown): ReadonlyArray<AgentEvent> =>
  after === undefined ? log : log.slice(log.findIndex((event) => event.cursor === after) + 1)

describe("Client", () => {
  describe("follow", () => {
    it.scopedLive.prop(
      "concatenates to exactly the events, wherever the connection is cut",
      { cuts: FastCheck.array(FastCheck.integer({ min: 1, max: 39 }), { minLength: 1, maxLength: 4 }) },
      ({ cuts }) =>
        Effect.gen(function*() {
          const log = [...Array.from({ length: 40 }, (_, i) => delta(i + 1)), end(41)]
          const left = new Set(cuts)
          let cut: Effect.Effect<void> = Effect.void
          const gateway = yield* startGateway({
            events: ({ after }) =>
              Stream.fromIterable(behind(log, after)).pipe(
                Stream.rechunk(3),
                Stream.tap((event) => left.delete(event.seq) ? cut : Effect.void)
              )
          })
          const harness = yield* startClient({ url: gateway.url })
          cut = harness.cut
          const events = yield* Stream.runCollect(harness.client.follow({ runId: "run-1" }))
          assert.deepStrictEqual(Chunk.toReadonlyArray(events), log)
          assert.isAbove(harness.connections(), 1)
        }),
      { fastCheck: { numRuns: 5 } }
    )

    it.scopedLive("goes on behind a given cursor", () =>
      Effect.gen(function*() {
        const log = [delta(1), delta(2), end(3)]
        const gateway = yield* startGateway({ events: ({ after }) => Stream.fromIterable(behind(log, after)) })
        const { client } = yield* startClient({ url: gateway.url })
        const events = yield* Stream.runCollect(client.follow({ runId: "run-1", after: "c1" }))
        assert.deepStrictEqual(Chunk.toReadonlyArray(events), log.slice(1))
      }))

    it.scopedLive("does not repeat the last event when the connection is cut right behind it", () =>
      Effect.gen(function*() {
        const log = [delta(1), end(2)]
        let asked = 0
        const gateway = yield* startGateway({
          events: () => {
            asked++
            return Stream.concat(Stream.fromIterable(log), Stream.never)
          }
        })
        const { client } = yield* startClient({ url: gateway.url })
        const events = yield* Stream.runCollect(client.follow({ runId: "run-1" }))
        assert.deepStrictEqual(Chunk.toReadonlyArray(events), log)
        assert.strictEqual(asked, 1)
      }))

    it.scopedLive("follows the run that a message was merged into, up to the end of the message", () =>
      Effect.gen(function*() {
        const log = [
          decodeEvent({ ...envelope(1, "run-2"), stream: "queue", data: { type: "steered", into: "run-1" } }),
          delta(2),
          end(3),
          end(4, "run-2"),
          delta(5)
        ]
        const gateway = yield* startGateway({ events: () => Stream.fromIterable(log) })
        const { client } = yield* startClient({ url: gateway.url })
        const events = yield* Stream.runCollect(client.follow({ runId: "run-2" }))
        assert.deepStrictEqual(Chunk.toReadonlyArray(events), log.slice(0, 4))
      }))

    it.scopedLive("resumes by itself after it was closed for being too slow", () =>
      Effect.gen(function*() {
        const log = [delta(1), delta(2), end(3)]
        const gateway = yield* startGateway({
          events: ({ after }) =>
            after === undefined
              ? Stream.concat(Stream.make(log[0]!), Stream.fail(new SubscriberTooSlow({ cursor: null })))
              : Stream.fromIterable(behind(log, after))
        })
        const { client } = yield* startClient({ url: gateway.url })
        const events = yield* Stream.runCollect(client.follow({ runId: "run-1" }))
        assert.deepStrictEqual(Chunk.toReadonlyArray(events), log)
      }))

    it.scopedLive("shows a reset of the stream and goes on from there", () =>
      Effect.gen(function*() {
        const reset = decodeEvent({
          ...envelope(7),
          stream: "stream",
          data: { type: "reset", lastSeq: 6, text: "so far", activeRunId: "run-1", waiting: [] }
        })
        const asked: Array<unknown> = []
        let cut: Effect.Effect<void> = Effect.void
        const gateway = yield* startGateway({
          events: ({ after }) => {
            asked.push(after)
            return after === "c7" ? Stream.make(end(8)) : Stream.concat(Stream.make(reset), Stream.never)
          }
        })
        const harness = yield* startClient({ url: gateway.url })
        cut = harness.cut
        const events = yield* Stream.runCollect(
          Stream.tap(harness.client.follow({ runId: "run-1", after: "old" }), (event) =>
            event.stream === "stream" ? cut : Effect.void)
        )
        assert.deepStrictEqual(Chunk.toReadonlyArray(events), [reset, end(8)])
        assert.deepStrictEqual(asked, ["old", "c7"])
      }))

    it.scopedLive("goes on with the gateway that takes the place of one that shut down", () =>
      Effect.gen(function*() {
        const log = [delta(1), delta(2), end(3)]
        const scope = yield* Scope.make()
        const first = yield* Scope.extend(
          startGateway({ events: () => Stream.concat(Stream.fromIterable(log.slice(0, 2)), Stream.never) }),
          scope
        )
        const { client } = yield* startClient({ url: first.url })
        const seen = yield* Deferred.make<void>()
        const following = yield* Effect.fork(Stream.runCollect(
          Stream.tap(client.follow({ runId: "run-1" }), (event) =>
            event.seq === 2 ? Deferred.succeed(seen, undefined) : Effect.void)
        ))
        yield* Deferred.await(seen)
        yield* Scope.close(scope, Exit.void)
        yield* startGateway({
          events: ({ after }) =>
            Stream.fromIterable(behind(log, after))
        }, first.port)
        assert.deepStrictEqual(Chunk.toReadonlyArray(yield* following), log)
      }))

    it.scopedLive("fails with the refusal of the gateway", () =>
      Effect.gen(function*() {
        const gateway = yield* startGateway({ events: () => Stream.fail(new RunNotFound({ runId: "run-9" })) })
        const { client } = yield* startClient({ url: gateway.url })
        const error = yield* Effect.flip(Stream.runDrain(client.follow({ runId: "run-9" })))
        assert.strictEqual(error._tag, "RunNotFound")
      }))

    it.scopedLive("ends the subscription when the reader stops", () =>
      Effect.gen(function*() {
        const ended = yield* Deferred.make<void>()
        const gateway = yield* startGateway({
          events: () =>
            Stream.ensuring(Stream.concat(Stream.make(delta(1)), Stream.never), Deferred.succeed(ended, undefined))
        })
        const { client } = yield* startClient({ url: gateway.url })
        yield* Stream.runDrain(Stream.take(client.follow({ sessionKey: "main" }), 1))
        yield* Deferred.await(ended)
      }))
  })

  describe("submit", () => {
    it.scopedLive("makes one id before the first try and keeps it in every retry", () =>
      Effect.gen(function*() {
        const ids: Array<unknown> = []
        let cut: Effect.Effect<void> = Effect.void
        const gateway = yield* startGateway({
          submit: (payload) => {
            const { idempotencyKey } = payload as { idempotencyKey: string }
            ids.push(idempotencyKey)
            return ids.length < 3 ? Effect.zipRight(cut, Effect.never) : Effect.succeed(accepted(idempotencyKey))
          }
        })
        const harness = yield* startClient({ url: gateway.url })
        cut = harness.cut
        const { runId } = yield* harness.client.submit({ sessionKey: "main", message: "hello" })
        assert.isTrue(Schema.is(RunId)(runId))
        assert.deepStrictEqual(ids, [runId, runId, runId])
        assert.match(runId, /^[0-9a-f]{8}-[0-9a-f]{4}-7/)
      }))

    it.scopedLive("keeps the id of the caller", () =>
      Effect.gen(function*() {
        const gateway = yield* startGateway({
          submit: (payload) => Effect.succeed(accepted((payload as { idempotencyKey: string }).idempotencyKey))
        })
        const { client } = yield* startClient({ url: gateway.url })
        const { runId } = yield* client.submit({ sessionKey: "main", message: "hello", idempotencyKey: "mine" })
        assert.strictEqual(runId, "mine")
      }))

    it.scopedLive("fails with the refusal of the gateway, once", () =>
      Effect.gen(function*() {
        let tries = 0
        const gateway = yield* startGateway({
          submit: () => {
            tries++
            return new IdempotencyConflict({ runId: RunId.make("mine") })
          }
        })
        const { client } = yield* startClient({ url: gateway.url })
        const error = yield* Effect.flip(client.submit({ sessionKey: "main", message: "hello" }))
        assert.strictEqual(error._tag, "IdempotencyConflict")
        assert.strictEqual(tries, 1)
      }))
  })

  describe("waitFor", () => {
    it.scopedLive("waits on across cuts until the run has settled", () =>
      Effect.gen(function*() {
        const asked: Array<unknown> = []
        let cut: Effect.Effect<void> = Effect.void
        const gateway = yield* startGateway({
          wait: ({ timeoutMs }) => {
            asked.push(timeoutMs)
            if (asked.length === 1) return Effect.succeed(waited(false))
            if (asked.length === 2) return Effect.zipRight(cut, Effect.never)
            return Effect.succeed(waited(true))
          }
        })
        const harness = yield* startClient({ url: gateway.url })
        cut = harness.cut
        assert.isTrue((yield* harness.client.waitFor("run-1")).settled)
        assert.lengthOf(asked, 3)
        for (const timeoutMs of asked) assert.isAtMost(timeoutMs as number, 30_000)
      }))

    it.scopedLive("answers at once when it may not wait", () =>
      Effect.gen(function*() {
        const asked: Array<unknown> = []
        const gateway = yield* startGateway({
          wait: ({ timeoutMs }) => {
            asked.push(timeoutMs)
            return Effect.succeed(waited(false))
          }
        })
        const { client } = yield* startClient({ url: gateway.url })
        assert.isFalse((yield* client.waitFor("run-1", { timeout: 0 })).settled)
        assert.deepStrictEqual(asked, [0])
      }))
  })

  describe("other calls", () => {
    it.scopedLive("does not repeat a stop whose answer was cut off, since it would stop later messages too", () =>
      Effect.gen(function*() {
        let stops = 0
        let cut: Effect.Effect<void> = Effect.void
        const gateway = yield* startGateway({
          stop: () => {
            stops++
            return Effect.zipRight(cut, Effect.never)
          }
        })
        const harness = yield* startClient({ url: gateway.url })
        cut = harness.cut
        const error = yield* Effect.flip(harness.client.stop("main", { clearQueued: true }))
        assert.strictEqual(error._tag, "GatewayUnreachable")
        assert.strictEqual(stops, 1)
      }))

    it.scopedLive("hands over what is asked for and brings back what is answered", () =>
      Effect.gen(function*() {
        const stopped = Schema.decodeUnknownSync(StopResult)({ sessionKey: "main", aborted: null, cancelled: ["r"] })
        const gateway = yield* startGateway({
          stop: (payload) => {
            assert.deepStrictEqual(payload, { sessionKey: "main", clearQueued: true })
            return Effect.succeed(stopped)
          },
          list: (payload) => {
            assert.deepStrictEqual(payload, { limit: 5 })
            return Effect.succeed({ sessions: [], next: "x" })
          },
          get: ({ sessionKey }) => new SessionNotFound({ session: String(sessionKey) })
        })
        const { client } = yield* startClient({ url: gateway.url })
        assert.deepStrictEqual(yield* client.stop("main", { clearQueued: true }), stopped)
        assert.deepStrictEqual(yield* client.sessions.list({ limit: 5 }), { sessions: [], next: "x" })
        assert.strictEqual((yield* Effect.flip(client.sessions.get("none")))._tag, "SessionNotFound")
        assert.strictEqual((yield* client.health).model, "scripted")
      }))
  })

  describe("without a gateway", () => {
    it.scopedLive("says soon that nobody answers, and what to do", () =>
      Effect.gen(function*() {
        // A port that was free a moment ago.
        const { port } = yield* Effect.scoped(startGateway({}))
        const { client } = yield* startClient({
          url: `ws://127.0.0.1:${port}`,
          connectTimeout: Duration.millis(150)
        })
        const error = yield* Effect.flip(client.health)
        assert.strictEqual(
          error.message,
          `No gateway answers at ws://127.0.0.1:${port}/rpc: nothing listens there. ` +
            "Start one with `switchyard gateway`."
        )
      }))

    it.scopedLive("finds a gateway that starts a moment later", () =>
      Effect.gen(function*() {
        const { port } = yield* Effect.scoped(startGateway({}))
        const { client } = yield* startClient({ url: `http://127.0.0.1:${port}` })
        const health = yield* Effect.fork(client.health)
        yield* Effect.yieldNow()
        yield* startGateway({}, port)
        assert.strictEqual((yield* health).status, "ok")
      }))

    it.scopedLive("gives up on a gateway that does not come back", () =>
      Effect.gen(function*() {
        const scope = yield* Scope.make()
        const seen = yield* Deferred.make<void>()
        const gateway = yield* Scope.extend(
          startGateway({
            events: () => Stream.concat(Stream.make(delta(1)), Stream.never)
          }),
          scope
        )
        const { client } = yield* startClient({ url: gateway.url, reconnectTimeout: Duration.millis(150) })
        const following = yield* Effect.fork(Effect.flip(Stream.runDrain(
          Stream.tap(client.follow({ runId: "run-1" }), () => Deferred.succeed(seen, undefined))
        )))
        yield* Deferred.await(seen)
        yield* Scope.close(scope, Exit.void)
        assert.strictEqual((yield* following)._tag, "GatewayUnreachable")
      }))

    it.effect("refuses an address that is none", () =>
      Effect.gen(function*() {
        for (
          const url of [
            "",
            "ftp://127.0.0.1",
            "ws://",
            "ws:///",
            "ws:host",
            "http://[",
            "not a host",
            "garbage",
            "127.0.0.1:7420"
          ]
        ) {
          const error = yield* Client.layerWebSocket({ url }).pipe(
            Layer.provide(NodeSocket.layerWebSocketConstructor),
            Layer.build,
            Effect.scoped,
            Effect.flip
          )
          assert.strictEqual(error._tag, "InvalidConfig", url)
          assert.include(error.message, "ws://127.0.0.1:7420")
        }
      }))
  })
})
