/**
 * Serves Switchyard's calls over a WebSocket at `/rpc`, and `GET /health` for whoever watches the process.
 *
 * It binds to loopback addresses only, and answers only to requests whose `Host` names it by one and whose `Origin`, if
 * there is one, is its own. When its scope closes it first drains the sessions, then says goodbye to its connections.
 *
 * @since 0.1.0
 */
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as RpcServer from "@effect/rpc/RpcServer"
import { Model } from "@switchyard/core/Model"
import { Sessions } from "@switchyard/core/Sessions"
import { InvalidConfig } from "@switchyard/protocol/Errors"
import { Health } from "@switchyard/protocol/Session"
import { SwitchyardRpcs } from "@switchyard/protocol/SwitchyardRpcs"
import * as Clock from "effect/Clock"
import * as Config from "effect/Config"
import type * as ConfigError from "effect/ConfigError"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FiberSet from "effect/FiberSet"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { Duplex } from "node:stream"
import { WebSocketServer } from "ws"
import * as Connections from "./internal/connections.js"
import * as Handlers from "./internal/handlers.js"
import { listen } from "./internal/listener.js"
import { inUrl, isLoopback, makeGuard } from "./internal/loopback.js"
import { version } from "./internal/version.js"

/**
 * How a gateway is set up.
 *
 * @since 0.1.0
 * @category models
 */
export interface GatewayConfig {
  /** The loopback address or name to bind to. Anything else is refused. */
  readonly host: string
  /** The port to listen on; 0 picks a free one, see {@link Gateway}. */
  readonly port: number
  /** The most WebSocket connections at a time. A further one is answered with status 503. */
  readonly maxConnections: number
  /** The longest message, in bytes. A longer one closes its connection. */
  readonly maxMessageBytes: number
  /** The longest submission with its attachments, in bytes. */
  readonly maxAttachmentMessageBytes: number
  /** The most event streams that one connection may follow at a time. A further one is `InvalidRequest`. */
  readonly maxSubscriptions: number
  /** The most unanswered calls of one connection, streams and waits among them. A further one closes it. */
  readonly maxCalls: number
  /** How much a connection may leave unread, in bytes, before it is cut. */
  readonly maxBufferedBytes: number
  /** How long sessions may take to drain at shutdown. */
  readonly drainTimeout: Duration.Duration
  /** How long open connections may take to close at shutdown, after the drain. */
  readonly closeTimeout: Duration.Duration
}

/**
 * Port 7420 on 127.0.0.1; 1,000 connections with 256 event streams each; messages of 1 MiB, 12 MiB with attachments; 45 s to
 * drain and 2 s to close.
 *
 * @since 0.1.0
 * @category configuration
 */
export const defaults: GatewayConfig = {
  host: "127.0.0.1",
  port: 7420,
  maxConnections: 1_000,
  maxMessageBytes: 1024 * 1024,
  maxAttachmentMessageBytes: 12 * 1024 * 1024,
  maxSubscriptions: 256,
  maxCalls: 4_096,
  maxBufferedBytes: 64 * 1024 * 1024,
  drainTimeout: Duration.seconds(45),
  closeTimeout: Duration.seconds(2)
}

/**
 * Reads {@link GatewayConfig} from `SWITCHYARD_HOST`, `SWITCHYARD_PORT` and the like; see {@link defaults} for what is
 * not set.
 *
 * @since 0.1.0
 * @category configuration
 */
export const config: Config.Config<GatewayConfig> = Config.nested(
  Config.all({
    host: Config.string("HOST").pipe(
      Config.withDescription("The loopback address or name to bind to"),
      Config.withDefault(defaults.host)
    ),
    port: Config.integer("PORT").pipe(
      Config.withDescription("The port to listen on; 0 picks a free one"),
      Config.withDefault(defaults.port)
    ),
    maxConnections: Config.integer("MAX_CONNECTIONS").pipe(
      Config.withDescription("The most WebSocket connections at a time"),
      Config.withDefault(defaults.maxConnections)
    ),
    maxMessageBytes: Config.integer("MAX_MESSAGE_BYTES").pipe(
      Config.withDescription("The longest message, in bytes"),
      Config.withDefault(defaults.maxMessageBytes)
    ),
    maxAttachmentMessageBytes: Config.integer("MAX_ATTACHMENT_MESSAGE_BYTES").pipe(
      Config.withDescription("The longest submission with its attachments, in bytes"),
      Config.withDefault(defaults.maxAttachmentMessageBytes)
    ),
    maxSubscriptions: Config.integer("MAX_SUBSCRIPTIONS").pipe(
      Config.withDescription("The most event streams that one connection may follow at a time"),
      Config.withDefault(defaults.maxSubscriptions)
    ),
    maxCalls: Config.integer("MAX_CALLS").pipe(
      Config.withDescription("The most unanswered calls of one connection"),
      Config.withDefault(defaults.maxCalls)
    ),
    maxBufferedBytes: Config.integer("MAX_BUFFERED_BYTES").pipe(
      Config.withDescription("How much a connection may leave unread, in bytes, before it is cut"),
      Config.withDefault(defaults.maxBufferedBytes)
    ),
    drainTimeout: Config.duration("DRAIN_TIMEOUT").pipe(
      Config.withDescription("How long sessions may take to drain at shutdown"),
      Config.withDefault(defaults.drainTimeout)
    ),
    closeTimeout: Config.duration("CLOSE_TIMEOUT").pipe(
      Config.withDescription("How long open connections may take to close at shutdown"),
      Config.withDefault(defaults.closeTimeout)
    )
  }),
  "SWITCHYARD"
)

/**
 * Another program listens on the port, perhaps another gateway. End it, or choose another port (0 picks a free one).
 *
 * @since 0.1.0
 * @category errors
 */
export class PortInUse extends Schema.TaggedError<PortInUse>()("PortInUse", {
  host: Schema.String,
  port: Schema.Int
}) {
  override get message() {
    return `Port ${this.port} on ${this.host} is already in use. ` +
      "End the program that listens there, or choose another port (0 picks a free one)."
  }
}

/**
 * The system does not let the gateway listen there, as `reason` says: for example ports below 1024 may need rights.
 *
 * @since 0.1.0
 * @category errors
 */
export class ListenFailed extends Schema.TaggedError<ListenFailed>()("ListenFailed", {
  host: Schema.String,
  port: Schema.Int,
  reason: Schema.String,
  cause: Schema.Defect
}) {
  override get message() {
    return `The gateway cannot listen on port ${this.port} of ${this.host}: ${this.reason}`
  }
}

/**
 * What starting a gateway can fail with.
 *
 * @since 0.1.0
 * @category errors
 */
export type GatewayError = InvalidConfig | PortInUse | ListenFailed

/**
 * A gateway that listens: where, and for how many.
 *
 * @since 0.1.0
 * @category context
 */
export class Gateway extends Context.Tag("@switchyard/gateway/Gateway")<Gateway, {
  readonly host: string
  /** The real port, also when the configuration said 0. */
  readonly port: number
  /** What a client connects to: `ws://127.0.0.1:7420/rpc`. */
  readonly url: string
  /** How many WebSocket connections are open. */
  readonly connections: Effect.Effect<number>
}>() {}

/**
 * Starts a gateway that runs until the scope closes. It then refuses new messages, lets active runs end (`drainTimeout`),
 * and closes its connections (`closeTimeout`).
 *
 * Fails with {@link InvalidConfig}, also for a host that is not loopback; {@link PortInUse}; or {@link ListenFailed}.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (
  partial: Partial<GatewayConfig> = {}
): Effect.Effect<Gateway["Type"], GatewayError, Sessions | Model | Scope.Scope> =>
  Effect.gen(function*() {
    const config = yield* validate({ ...defaults, ...partial })
    const sessions = yield* Sessions
    const model = yield* Model
    // One name, one address: `localhost` may mean ::1 here and 127.0.0.1 there.
    const host = config.host.toLowerCase() === "localhost" ? "127.0.0.1" : config.host.replace(/^\[(.*)\]$/, "$1")
    const startedAt = yield* Clock.currentTimeMillis
    let draining = false

    const health = Effect.zipWith(sessions.counts, Clock.currentTimeMillis, (counts, now): Health => ({
      status: draining ? "draining" : "ok",
      version,
      pid: process.pid,
      uptimeMs: now - startedAt,
      activeSessions: counts.sessions,
      activeRuns: counts.runs,
      model: model.name
    }))

    const connections = yield* Connections.make(config, (tag) => SwitchyardRpcs.requests.has(tag))

    // Ends after the sockets: by then nobody is left to be told that its calls are interrupted.
    yield* RpcServer.make(SwitchyardRpcs, { disableFatalDefects: true }).pipe(
      Effect.provide(Handlers.layer({ maxSubscriptions: config.maxSubscriptions, health })),
      Effect.provideService(RpcServer.Protocol, connections.protocol),
      Effect.annotateLogs({ module: "Gateway", fiber: "rpc" }),
      Effect.forkScoped
    )

    const listener = yield* Effect.mapError(
      // A little room beyond the WebSockets, so that a full gateway still says that it is full, and how it is.
      listen({ host, port: config.port, maxConnections: config.maxConnections + 64 }),
      (error) =>
        error.code === "EADDRINUSE"
          ? new PortInUse({ host, port: config.port })
          : new ListenFailed({ host, port: config.port, reason: listenReason(error), cause: error })
    )
    const { port, server } = listener
    const guard = makeGuard({ host, port })

    const runServe = yield* FiberSet.makeRuntime<never>()
    const wss = new WebSocketServer({
      noServer: true,
      clientTracking: false,
      perMessageDeflate: false,
      maxPayload: config.maxAttachmentMessageBytes
    })
    let open = 0
    server.on("upgrade", (request, socket, head) => {
      const refused = guard(request.headers)
      if (refused !== undefined) return answer(socket, 403, refused)
      if (pathOf(request) !== "/rpc") return answer(socket, 404, "There is nothing here; the calls are at /rpc.")
      if (open >= config.maxConnections) {
        return answer(
          socket,
          503,
          `All ${config.maxConnections} connections of this gateway are in use; try again later.`
        )
      }
      open++
      socket.once("close", () => open--)
      wss.handleUpgrade(request, socket, head, (ws) => {
        runServe(connections.serve(ws))
      })
    })

    server.on("request", yield* NodeHttpServer.makeHandler(httpApp(guard, health)))

    // The shutdown. This finalizer was added last and runs first.
    yield* Effect.addFinalizer(() =>
      Effect.gen(function*() {
        draining = true
        yield* sessions.drain.pipe(Effect.interruptible, Effect.disconnect, Effect.timeoutOption(config.drainTimeout))
        // Who waited for a run, or followed it, learns how it ended. Who follows a session is not waited for long.
        yield* connections.awaitAnswered.pipe(Effect.interruptible, Effect.timeoutOption(lastAnswers))
        yield* connections.closeAll
        yield* listener.close(Duration.toMillis(config.closeTimeout))
      })
    )

    return Gateway.of({ host, port, url: `ws://${inUrl(host)}:${port}/rpc`, connections: connections.count })
  })

/**
 * Runs a gateway. What is not given is as in {@link defaults}.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (
  partial: Partial<GatewayConfig> = {}
): Layer.Layer<Gateway, GatewayError, Sessions | Model> => Layer.scoped(Gateway, make(partial))

/**
 * Runs a gateway that is set up by {@link config}.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerConfig: Layer.Layer<Gateway, GatewayError | ConfigError.ConfigError, Sessions | Model> = Layer.scoped(
  Gateway,
  Effect.flatMap(config, make)
)

const validate = (config: GatewayConfig): Effect.Effect<GatewayConfig, InvalidConfig> =>
  Effect.suspend(() => {
    if (!isLoopback(config.host)) {
      return new InvalidConfig({
        key: "host",
        value: config.host,
        reason: "the gateway has no access tokens yet, so it listens on this machine only; use 127.0.0.1"
      })
    }
    if (!Number.isInteger(config.port) || config.port < 0 || config.port > 65_535) {
      return new InvalidConfig({ key: "port", value: String(config.port), reason: "a port is 0 to 65535" })
    }
    for (
      const key of [
        "maxConnections",
        "maxMessageBytes",
        "maxAttachmentMessageBytes",
        "maxSubscriptions",
        "maxCalls",
        "maxBufferedBytes"
      ] as const
    ) {
      if (!Number.isInteger(config[key]) || config[key] < 1) {
        return new InvalidConfig({ key, value: String(config[key]), reason: "a limit is a whole number, 1 or more" })
      }
    }
    for (const key of ["drainTimeout", "closeTimeout"] as const) {
      if (!Duration.isFinite(config[key])) {
        return new InvalidConfig({ key, value: "infinite", reason: "a shutdown must end" })
      }
    }
    return Effect.succeed(config)
  })

const lastAnswers = Duration.millis(500)

const listenReason = (error: NodeJS.ErrnoException): string =>
  error.code === "EACCES"
    ? "ports below 1024 need special rights; choose a higher one"
    : error.code === "EADDRNOTAVAIL"
    ? "this machine does not have that address; use 127.0.0.1"
    : error.message

const pathOf = (request: { readonly url?: string | undefined }): string => (request.url ?? "").replace(/[?#].*$/, "")

const httpApp = (guard: ReturnType<typeof makeGuard>, health: Effect.Effect<Health>) =>
  Effect.gen(function*() {
    const request = yield* HttpServerRequest.HttpServerRequest
    const refused = guard(request.headers)
    if (refused !== undefined) return text(403, refused)
    const isRead = request.method === "GET" || request.method === "HEAD"
    switch (pathOf(request)) {
      case "/health":
        return isRead
          ? yield* HttpServerResponse.schemaJson(Health)(yield* health, { headers: { "cache-control": "no-store" } })
          : text(405, "Read it with GET.", { allow: "GET, HEAD" })
      case "/rpc":
        return text(426, "Connect here with a WebSocket.", { upgrade: "websocket" })
      default:
        return text(404, "There is nothing here; see /health.")
    }
  })

const text = (status: number, sentence: string, headers: Record<string, string> = {}) =>
  HttpServerResponse.text(`${sentence}\n`, { status, headers })

const statusText = { 403: "Forbidden", 404: "Not Found", 503: "Service Unavailable" } as const

/** Answers a request for an upgrade that is not granted. Its socket is bare: there is no HTTP response object. */
const answer = (socket: Duplex, status: keyof typeof statusText, sentence: string): void => {
  socket.end(
    `HTTP/1.1 ${status} ${statusText[status]}\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n` +
      `Content-Length: ${Buffer.byteLength(sentence) + 1}\r\n\r\n${sentence}\n`
  )
}
