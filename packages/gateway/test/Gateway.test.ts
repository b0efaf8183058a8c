import { assert, describe, it } from "@effect/vitest"
import type { Model } from "@switchyard/core/Model"
import type { Sessions } from "@switchyard/core/Sessions"
import * as Gateway from "@switchyard/gateway/Gateway"
import { AgentEvent } from "@switchyard/protocol/AgentEvent"
import { GatewayDraining, InvalidRequest, RunNotFound } from "@switchyard/protocol/Errors"
import { Accepted, WaitResult } from "@switchyard/protocol/Run"
import { Health } from "@switchyard/protocol/Session"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { readFileSync } from "node:fs"
import * as Net from "node:net"
import { fakeSessions } from "./support/fakeSessions.js"
import { connect, request, success } from "./support/wire.js"

const accepted = Schema.decodeUnknownSync(Accepted)({
  runId: "run-1",
  sessionKey: "main",
  sessionId: "s1",
  acceptedAt: 1,
  disposition: "started"
})
const settled = Schema.decodeUnknownSync(WaitResult)({ runId: "run-1", status: "ok", settled: true })
const event = (seq: number) =>
  Schema.decodeUnknownSync(AgentEvent)({
    runId: "run-1",
    sessionKey: "main",
    seq,
    cursor: `c${seq}`,
    ts: 0,
    stream: "assistant",
    data: { type: "delta", text: "x" }
  })

const start = (given: Partial<Sessions["Type"]> = {}, config: Partial<Gateway.GatewayConfig> = {}) =>
  Effect.map(
    Layer.build(Layer.provide(Gateway.layer({ port: 0, ...config }), fakeSessions(given))),
    Context.get(Gateway.Gateway)
  )

const startError = (config: Partial<Gateway.GatewayConfig>) => Effect.flip(Effect.scoped(start({}, config)))

describe("Gateway", () => {
  describe("who is answered", () => {
    it.scopedLive("answers requests that name it by a loopback name and its port, and no others", () =>
      Effect.gen(function*() {
        const { port } = yield* start()
        const status = (host: string) =>
          Effect.map(request({ port, path: "/health", headers: { host } }), ({ status }) => status)
        for (const host of [`localhost:${port}`, `LOCALHOST:${port}`, `127.0.0.1:${port}`, `[::1]:${port}`]) {
          assert.strictEqual(yield* status(host), 200, host)
        }
        for (
          const host of [
            "localhost",
            `localhost:${port + 1}`,
            `evil.example:${port}`,
            `localhost.evil.example:${port}`,
            `127.0.0.1.evil.example:${port}`,
            `0.0.0.0:${port}`,
            `user@localhost:${port}`
          ]
        ) {
          assert.strictEqual(yield* status(host), 403, host)
        }
      }))

    it.scopedLive("refuses a WebSocket under a foreign host name, as DNS rebinding would open it", () =>
      Effect.gen(function*() {
        const { port, url } = yield* start()
        const foreign = yield* connect(url, { host: `evil.example:${port}` })
        assert.strictEqual(foreign.status, 403)
        const own = yield* connect(url)
        assert.strictEqual(own.status, 101)
      }))

    it.scopedLive("refuses pages of other origins, and answers its own", () =>
      Effect.gen(function*() {
        const { port, url } = yield* start()
        const status = (origin: string) => Effect.map(connect(url, { origin }), ({ status }) => status)
        assert.strictEqual(yield* status(`http://127.0.0.1:${port}`), 101)
        for (
          const origin of [
            "null",
            "https://evil.example",
            `http://localhost:${port}`,
            "http://127.0.0.1",
            `http://127.0.0.1:${port + 1}`,
            `http://127.0.0.1:${port}.evil.example`
          ]
        ) {
          assert.strictEqual(yield* status(origin), 403, origin)
        }
        const { body, status: plain } = yield* request({
          port,
          path: "/health",
          headers: { host: `127.0.0.1:${port}`, origin: "https://evil.example" }
        })
        assert.strictEqual(plain, 403)
        assert.include(body, "other sites")
      }))

    it.scopedLive("goes on serving when the refused one resets its connection", () =>
      Effect.gen(function*() {
        const { port } = yield* start()
        yield* Effect.forEach(Array.from({ length: 20 }), () =>
          Effect.async<void>((resume) => {
            const socket = Net.connect(port, "127.0.0.1", () => {
              socket.write(
                "GET /rpc HTTP/1.1\r\nHost: evil.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
              )
              socket.resetAndDestroy()
              resume(Effect.void)
            })
          }), { discard: true })
        const { status } = yield* request({ port, path: "/health", headers: { host: `127.0.0.1:${port}` } })
        assert.strictEqual(status, 200)
      }))
  })

  describe("where it listens", () => {
    it.effect("refuses to bind to anything but loopback, in words that say what to use", () =>
      Effect.gen(function*() {
        for (const host of ["0.0.0.0", "::", "192.168.1.2", "example.com", ""]) {
          const error = yield* startError({ host })
          assert.strictEqual(error._tag, "InvalidConfig")
          assert.include(error.message, "127.0.0.1")
        }
      }))

    it.effect("names the setting that cannot be used", () =>
      Effect.gen(function*() {
        for (
          const config of [{ port: -1 }, { port: 65_536 }, { port: 1.5 }, { maxConnections: 0 }, { maxCalls: NaN }]
        ) {
          const error = yield* startError(config)
          assert.strictEqual(error._tag, "InvalidConfig")
          assert.strictEqual((error as { key?: string }).key, Object.keys(config)[0])
        }
      }))

    it.scopedLive("says which port is taken and what to do about it", () =>
      Effect.gen(function*() {
        const first = yield* start()
        const error = yield* startError({ port: first.port })
        assert.strictEqual(error._tag, "PortInUse")
        assert.include(error.message, String(first.port))
        assert.include(error.message, "choose another port")
      }))

    it.scopedLive("tells the real port when it may pick one", () =>
      Effect.gen(function*() {
        const gateway = yield* start({}, { host: "localhost" })
        assert.isAbove(gateway.port, 0)
        assert.strictEqual(gateway.url, `ws://127.0.0.1:${gateway.port}/rpc`)
      }))
  })

  describe("plain HTTP", () => {
    it.scopedLive("shows its health and the version of its package", () =>
      Effect.gen(function*() {
        const { port } = yield* start()
        const { body, status } = yield* request({ port, path: "/health?x=1", headers: { host: `127.0.0.1:${port}` } })
        assert.strictEqual(status, 200)
        const health = yield* Schema.decodeUnknown(Schema.parseJson(Health))(body)
        assert.deepInclude(health, {
          status: "ok",
          model: "scripted",
          activeSessions: 2,
          activeRuns: 1,
          pid: process.pid
        })
        const manifest = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"))
        assert.strictEqual(health.version, manifest.version)
      }))

    it.scopedLive("answers 404 to what is not there, and 426 to a call without a WebSocket", () =>
      Effect.gen(function*() {
        const { port, url } = yield* start()
        const status = (path: string, method = "GET") =>
          Effect.map(request({ port, path, method, headers: { host: `127.0.0.1:${port}` } }), ({ status }) => status)
        assert.strictEqual(yield* status("/"), 404)
        assert.strictEqual(yield* status("/health/"), 404)
        assert.strictEqual(yield* status("/rpc"), 426)
        assert.strictEqual(yield* status("/health", "POST"), 405)
        assert.strictEqual((yield* connect(url.replace("/rpc", "/other"))).status, 404)
      }))
  })

  describe("calls", () => {
    it.scopedLive("hands each call to the sessions as it came", () =>
      Effect.gen(function*() {
        const seen: Array<unknown> = []
        const { url } = yield* start({
          submit: (payload) => Effect.sync(() => (seen.push(payload), accepted)),
          wait: (payload) => Effect.sync(() => (seen.push(payload), settled))
        })
        const socket = yield* connect(url)
        yield* socket.call(1, "agent", { message: 7, sessionKey: { wrong: true } })
        assert.deepStrictEqual(success(yield* socket.next), Schema.encodeSync(Accepted)(accepted))
        yield* socket.call(2, "agent.wait", { runId: "run-1", timeoutMs: "soon" })
        assert.deepInclude(success(yield* socket.next), { status: "ok" })
        assert.deepStrictEqual(seen, [
          { message: 7, sessionKey: { wrong: true } },
          { runId: "run-1", timeoutMs: "soon" }
        ])
      }))

    it.scopedLive("passes refusals through with their fields", () =>
      Effect.gen(function*() {
        const { url } = yield* start({
          submit: () => new InvalidRequest({ field: "message", reason: "the message is empty" }),
          wait: () => new RunNotFound({ runId: "run-9" }),
          list: () => new InvalidRequest({ field: "limit", reason: "too large" })
        })
        const socket = yield* connect(url)
        const refusal = (id: number, tag: string) =>
          Effect.zipRight(
            socket.call(id, tag),
            Effect.map(socket.next, (message) => (message["exit"] as { cause: { error: unknown } }).cause.error)
          )
        assert.deepInclude(yield* refusal(1, "agent"), { _tag: "InvalidRequest", field: "message" })
        assert.deepInclude(yield* refusal(2, "agent.wait"), { _tag: "RunNotFound", runId: "run-9", retryable: false })
        assert.deepInclude(yield* refusal(3, "sessions.list"), { _tag: "InvalidRequest", field: "limit" })
      }))

    it.scopedLive("lets a defect, an unknown call and a malformed payload fail that call alone", () =>
      Effect.gen(function*() {
        const answer = yield* Deferred.make<WaitResult>()
        const { url } = yield* start({ wait: () => Deferred.await(answer) })
        const socket = yield* connect(url)
        yield* socket.call(1, "agent.wait")
        yield* socket.call(2, "agent")
        assert.deepInclude(yield* socket.next, { _tag: "Exit", requestId: "2" })
        yield* socket.call(3, "agent.dance")
        assert.deepInclude(yield* socket.next, { _tag: "Exit", requestId: "3" })
        yield* socket.call(4, "agent", "not even an object")
        assert.deepInclude(yield* socket.next, { _tag: "Exit", requestId: "4" })
        yield* Deferred.succeed(answer, settled)
        assert.deepInclude(yield* socket.next, { _tag: "Exit", requestId: "1" })
      }))

    it.scopedLive("streams events and ends the subscription when its caller goes away", () =>
      Effect.gen(function*() {
        const ended = yield* Deferred.make<void>()
        const { url } = yield* start({
          events: () =>
            Stream.make(event(1), event(2)).pipe(
              Stream.concat(Stream.never),
              Stream.ensuring(Deferred.succeed(ended, undefined))
            )
        })
        const socket = yield* connect(url)
        yield* socket.call(1, "agent.events", { runId: "run-1" })
        const chunk = yield* socket.next
        assert.deepInclude(chunk, { _tag: "Chunk", requestId: "1" })
        yield* socket.cut
        yield* Deferred.await(ended)
      }))

    it.scopedLive("takes no more than its limit of event streams on one connection, and says so", () =>
      Effect.gen(function*() {
        const { url } = yield* start({ events: () => Stream.never }, { maxSubscriptions: 2 })
        const socket = yield* connect(url)
        yield* socket.call(1, "agent.events")
        yield* socket.call(2, "agent.events")
        yield* socket.call(3, "agent.events")
        const refused = yield* socket.next
        assert.strictEqual(refused["requestId"], "3")
        assert.include(JSON.stringify(refused), "already follows 2 event streams")
        // Ending one makes room for another.
        yield* socket.send({ _tag: "Interrupt", requestId: "1" })
        assert.strictEqual((yield* socket.next)["requestId"], "1")
        yield* socket.call(4, "agent.events")
        yield* socket.call(5, "agent.events")
        assert.strictEqual((yield* socket.next)["requestId"], "5")
      }))

    it.scopedLive("closes a connection that leaves more calls open than its limit", () =>
      Effect.gen(function*() {
        const { url } = yield* start({ wait: () => Effect.never }, { maxCalls: 2 })
        const socket = yield* connect(url)
        for (const id of [1, 2, 3]) yield* socket.call(id, "agent.wait")
        assert.deepInclude(yield* socket.closed, { code: 1008 })
      }))
  })

  describe("what breaks the protocol", () => {
    const garbage: ReadonlyArray<readonly [name: string, text: string | Buffer]> = [
      ["text that is not JSON", "{ not json\n"],
      ["null", "null\n"],
      ["a number", "1\n"],
      ["an array", "[]\n"],
      ["a message of no kind", "{}\n"],
      ["a request id that is not a number", `{"_tag":"Request","id":"x","tag":"health","headers":[]}\n`],
      ["a request without headers", `{"_tag":"Request","id":"1","tag":"health"}\n`],
      ["headers that are not pairs", `{"_tag":"Request","id":"1","tag":"health","headers":[["a"]]}\n`],
      ["an acknowledgement of nothing", `{"_tag":"Ack"}\n`],
      ["bytes that are not UTF-8", Buffer.from([0xff, 0xfe, 0x0a])]
    ]
    for (const [name, text] of garbage) {
      it.scopedLive(`closes the connection that sends ${name}, and no other`, () =>
        Effect.gen(function*() {
          const answer = yield* Deferred.make<WaitResult>()
          const { url } = yield* start({ wait: () => Deferred.await(answer) })
          const good = yield* connect(url)
          const bad = yield* connect(url)
          yield* good.call(1, "agent.wait")
          yield* bad.sendText(text)
          assert.strictEqual((yield* bad.closed).code, 1007)
          yield* Deferred.succeed(answer, settled)
          assert.deepInclude(yield* good.next, { _tag: "Exit", requestId: "1" })
          const next = yield* connect(url)
          yield* next.call(1, "health")
          assert.deepInclude(yield* next.next, { _tag: "Exit", requestId: "1" })
        }))
    }

    it.scopedLive("closes a connection whose message is longer than the limit", () =>
      Effect.gen(function*() {
        const { url } = yield* start({}, { maxMessageBytes: 1_000, maxAttachmentMessageBytes: 5_000 })
        const long = yield* connect(url)
        yield* long.call(1, "agent.wait", { runId: "x".repeat(1_500) })
        assert.strictEqual((yield* long.closed).code, 1009)
        const longer = yield* connect(url)
        yield* longer.call(1, "agent", { message: "x".repeat(6_000) })
        assert.strictEqual((yield* longer.closed).code, 1009)
        // Without an end of line, over several frames.
        const endless = yield* connect(url)
        yield* Effect.forEach([1, 2, 3], () => endless.sendText("x".repeat(2_000)), { discard: true })
        assert.strictEqual((yield* endless.closed).code, 1009)
      }))

    it.scopedLive("takes submissions with attachments beyond that limit", () =>
      Effect.gen(function*() {
        const { url } = yield* start({ submit: () => Effect.succeed(accepted) }, {
          maxMessageBytes: 1_000,
          maxAttachmentMessageBytes: 5_000
        })
        const socket = yield* connect(url)
        yield* socket.call(1, "agent", { message: "x".repeat(3_000) })
        assert.deepInclude(success(yield* socket.next), { runId: "run-1" })
      }))

    it.scopedLive("reads a message that arrives in pieces, and several in one piece", () =>
      Effect.gen(function*() {
        const { url } = yield* start()
        const socket = yield* connect(url)
        const line = (id: number) =>
          JSON.stringify({ _tag: "Request", id: String(id), tag: "health", payload: null, headers: [] })
        yield* socket.sendText(line(1).slice(0, 20))
        yield* socket.sendText(`${line(1).slice(20)}\n${line(2)}\n`)
        const ids = [(yield* socket.next)["requestId"], (yield* socket.next)["requestId"]]
        assert.deepStrictEqual(ids, ["1", "2"])
      }))

    it.scopedLive("answers 503 beyond its limit of connections, and has room again once one closes", () =>
      Effect.gen(function*() {
        const gateway = yield* start({}, { maxConnections: 1 })
        const first = yield* connect(gateway.url)
        assert.strictEqual((yield* connect(gateway.url)).status, 503)
        yield* first.cut
        const retry: Effect.Effect<number, never, Scope.Scope> = Effect.flatMap(
          connect(gateway.url),
          ({ status }) => status === 503 ? retry : Effect.succeed(status)
        )
        assert.strictEqual(yield* retry, 101)
      }))
  })

  describe("shutdown", () => {
    const closable = (given: Partial<Sessions["Type"]>, config: Partial<Gateway.GatewayConfig> = {}) =>
      Effect.gen(function*() {
        const scope = yield* Scope.make()
        const gateway = yield* Scope.extend(start(given, config), scope)
        return { ...gateway, close: Scope.close(scope, Exit.void) }
      })

    it.live("drains the sessions before it closes the connections, and says that it does", () =>
      Effect.scoped(Effect.gen(function*() {
        const draining = yield* Deferred.make<void>()
        const drained = yield* Deferred.make<void>()
        const answer = yield* Deferred.make<WaitResult>()
        const gateway = yield* closable({
          wait: () => Deferred.await(answer),
          submit: () => new GatewayDraining({}),
          drain: Effect.zipRight(Deferred.succeed(draining, undefined), Deferred.await(drained))
        })
        const socket = yield* connect(gateway.url)
        yield* socket.call(1, "agent.wait")
        const closing = yield* Effect.fork(gateway.close)
        yield* Deferred.await(draining)
        yield* socket.call(2, "health")
        assert.deepInclude(success(yield* socket.next), { status: "draining" })
        // The run ends in the drain; whoever waits for it still gets the answer.
        yield* Deferred.succeed(answer, settled)
        yield* Deferred.succeed(drained, undefined)
        assert.deepInclude(success(yield* socket.next), { status: "ok" })
        assert.strictEqual((yield* socket.closed).code, 1001)
        yield* closing.await
      })))

    it.live("ends in bounded time when a peer does not close", () =>
      Effect.scoped(Effect.gen(function*() {
        const gateway = yield* closable({}, { closeTimeout: Duration.millis(20) })
        const socket = yield* Effect.async<Net.Socket>((resume) => {
          const socket = Net.connect(gateway.port, "127.0.0.1", () => resume(Effect.succeed(socket)))
        })
        yield* Effect.async<void>((resume) => {
          socket.write(
            `GET /rpc HTTP/1.1\r\nHost: 127.0.0.1:${gateway.port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
              "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
          )
          socket.once("data", () => resume(Effect.void))
        })
        const ended = yield* Effect.fork(Effect.async<void>((resume) => {
          socket.once("close", () => resume(Effect.void))
          socket.on("error", () => {})
          socket.resume()
        }))
        yield* gateway.close
        yield* ended.await
      })))
  })
})

// The layer needs exactly what it says.
const _type: Layer.Layer<Gateway.Gateway, Gateway.GatewayError, Sessions | Model> = Gateway.layer()
void _type
