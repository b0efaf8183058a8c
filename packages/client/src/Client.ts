/**
 * A gateway, as a program on the other side of a network sees it.
 *
 * A cut connection is opened again by itself. Calls survive that: a submission is sent again under the same id, a wait
 * waits on, and a followed stream goes on behind the last event it saw. Runs in Node and in browsers.
 *
 * @since 0.1.0
 */
import * as Socket from "@effect/platform/Socket"
import * as RpcClient from "@effect/rpc/RpcClient"
import type { RpcClientError } from "@effect/rpc/RpcClientError"
import * as RpcSerialization from "@effect/rpc/RpcSerialization"
import type { AgentEvent } from "@switchyard/protocol/AgentEvent"
import type * as Errors from "@switchyard/protocol/Errors"
import { InvalidConfig } from "@switchyard/protocol/Errors"
import { makeRunId } from "@switchyard/protocol/Ids"
import type { Route, Sender } from "@switchyard/protocol/Message"
import type { AbortResult, Accepted, StopResult, WaitResult } from "@switchyard/protocol/Run"
import type { Health, HistoryPage, QueueView, SessionInfo, SessionPage } from "@switchyard/protocol/Session"
import type { Attachment, QueueMode } from "@switchyard/protocol/Submission"
import { SwitchyardRpcs } from "@switchyard/protocol/SwitchyardRpcs"
import * as Config from "effect/Config"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import * as Connection from "./internal/connection.js"
import { isCut, monotonic } from "./internal/cut.js"
import { follow } from "./internal/follow.js"

/**
 * Where the gateway is, and how patient to be.
 *
 * @since 0.1.0
 * @category models
 */
export interface ClientConfig {
  /** `ws://127.0.0.1:7420`; `http:` means `ws:`, `https:` means `wss:`, and the path `/rpc` may be left out. */
  readonly url: string
  /** How long to try for a first connection. */
  readonly connectTimeout: Duration.Duration
  /** How long to try for a new connection after a cut. */
  readonly reconnectTimeout: Duration.Duration
}

/**
 * The gateway of this machine on its usual port; 2 s to connect, 60 s to connect again.
 *
 * @since 0.1.0
 * @category configuration
 */
export const defaults: ClientConfig = {
  url: "ws://127.0.0.1:7420/rpc",
  connectTimeout: Duration.seconds(2),
  reconnectTimeout: Duration.seconds(60)
}

/**
 * Reads {@link ClientConfig} from `SWITCHYARD_URL`, `SWITCHYARD_CONNECT_TIMEOUT` and `SWITCHYARD_RECONNECT_TIMEOUT`.
 *
 * @since 0.1.0
 * @category configuration
 */
export const config: Config.Config<ClientConfig> = Config.nested(
  Config.all({
    url: Config.string("URL").pipe(
      Config.withDescription("Where the gateway is"),
      Config.withDefault(defaults.url)
    ),
    connectTimeout: Config.duration("CONNECT_TIMEOUT").pipe(
      Config.withDescription("How long to try for a first connection"),
      Config.withDefault(defaults.connectTimeout)
    ),
    reconnectTimeout: Config.duration("RECONNECT_TIMEOUT").pipe(
      Config.withDescription("How long to try for a new connection after a cut"),
      Config.withDefault(defaults.reconnectTimeout)
    )
  }),
  "SWITCHYARD"
)

/**
 * No gateway could be reached within the time for it. Start one, or check the address. A submission may have arrived
 * all the same: send it again under the same id to be sure.
 *
 * @since 0.1.0
 * @category errors
 */
export class GatewayUnreachable extends Schema.TaggedError<GatewayUnreachable>()("GatewayUnreachable", {
  url: Schema.String,
  reason: Schema.String
}) {
  override get message() {
    return `No gateway answers at ${this.url}: ${this.reason}. Start one with \`switchyard gateway\`.`
  }
}

/**
 * A message for a session, which is named by `sessionKey` or `sessionId`.
 *
 * `idempotencyKey` becomes the id of the run; without one the client makes it, so that its own retries are one run.
 * `timeoutMs` is the deadline of the run and `debounceMs` the quiet window of a `collect` message, in milliseconds.
 *
 * @since 0.1.0
 * @category models
 */
export interface Message {
  readonly sessionKey?: string | undefined
  readonly sessionId?: string | undefined
  readonly message?: string | undefined
  readonly idempotencyKey?: string | undefined
  readonly mode?: QueueMode | undefined
  readonly attachments?: ReadonlyArray<Attachment> | undefined
  readonly route?: Route | undefined
  readonly sender?: Sender | undefined
  readonly clearQueued?: boolean | undefined
  readonly debounceMs?: number | undefined
  readonly timeoutMs?: number | undefined
  readonly model?: string | undefined
}

/**
 * What to follow: one run, until it ends, or a session, which does not end. `after` is the cursor of the last event that
 * was seen; without it, following begins with what is kept.
 *
 * @since 0.1.0
 * @category models
 */
export type FollowTarget =
  | { readonly runId: string; readonly after?: string | undefined }
  | { readonly sessionKey: string; readonly after?: string | undefined }

/**
 * What following can fail with. A reader that was too slow is not among it: the client resumes.
 *
 * @since 0.1.0
 * @category errors
 */
export type FollowError = Exclude<Errors.EventsError, Errors.SubscriberTooSlow> | GatewayUnreachable

/**
 * The calls of a gateway.
 *
 * Each may fail with {@link GatewayUnreachable} besides what it is declared with. All but `stop` are repeated by
 * themselves after a cut; `stop` is not, since a second one would also stop what was sent in between.
 *
 * @since 0.1.0
 * @category context
 */
export class Client extends Context.Tag("@switchyard/client/Client")<Client, {
  /** Gives a session a message. Once it answers, the message is durable. */
  readonly submit: (message: Message) => Effect.Effect<Accepted, Errors.SubmitError | GatewayUnreachable>
  /**
   * Waits until a run has settled, or until `timeout` is over: the answer then has status `timeout` and `settled: false`.
   * Without `timeout` it waits as long as it takes.
   */
  readonly waitFor: (
    runId: string,
    options?: { readonly timeout?: Duration.DurationInput | undefined }
  ) => Effect.Effect<WaitResult, Errors.WaitError | GatewayUnreachable>
  /**
   * The events of a run or session, with neither gap nor repeat whatever happens to the connection. A followed run ends
   * with its terminal event; if its message was merged into another run, the events of that one come before. An event
   * `stream reset` says that the gateway no longer has what came between.
   */
  readonly follow: (target: FollowTarget) => Stream.Stream<AgentEvent, FollowError>
  /** Ends one run, or removes a waiting message. */
  readonly abort: (runId: string) => Effect.Effect<AbortResult, Errors.AbortError | GatewayUnreachable>
  /** Ends the run of a session, and with `clearQueued` cancels what waits. */
  readonly stop: (
    sessionKey: string,
    options?: { readonly clearQueued?: boolean | undefined }
  ) => Effect.Effect<StopResult, Errors.StopError | GatewayUnreachable>
  readonly sessions: {
    /** A page of sessions by key: at most `limit` (100) behind the key `after`. */
    readonly list: (
      page?: { readonly after?: string | undefined; readonly limit?: number | undefined }
    ) => Effect.Effect<SessionPage, Errors.ReadError | GatewayUnreachable>
    readonly get: (sessionKey: string) => Effect.Effect<SessionInfo, Errors.ReadError | GatewayUnreachable>
    /** A page of messages, oldest first: at most `limit` (100) behind `after`, the `next` of the last page. */
    readonly history: (
      sessionKey: string,
      page?: { readonly after?: number | undefined; readonly limit?: number | undefined }
    ) => Effect.Effect<HistoryPage, Errors.ReadError | GatewayUnreachable>
  }
  /** What runs and what waits in a session. */
  readonly queue: (sessionKey: string) => Effect.Effect<QueueView, Errors.ReadError | GatewayUnreachable>
  readonly health: Effect.Effect<Health, GatewayUnreachable>
}>() {}

/**
 * Connects to a gateway for as long as the scope is open. It does not wait for the connection: the first call does.
 * Fails with {@link InvalidConfig} if the address is not one.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (
  partial: Partial<ClientConfig> = {}
): Effect.Effect<Client["Type"], InvalidConfig, Socket.WebSocketConstructor | Scope.Scope> =>
  Effect.gen(function*() {
    const config = { ...defaults, ...partial }
    const url = yield* readUrl(config.url)
    const connection = yield* Connection.make(url)
    const protocol = yield* RpcClient.makeProtocolSocket({ retrySchedule: connection.retries }).pipe(
      Effect.provideService(Socket.Socket, connection.socket),
      // Pages of a history may be large, and the gateway is trusted with our memory.
      Effect.provideService(
        RpcSerialization.RpcSerialization,
        RpcSerialization.makeNdjson({ maxBufferSize: "unbounded" })
      )
    )
    const rpc = yield* Effect.provideService(
      RpcClient.make(SwitchyardRpcs, { flatten: true }),
      RpcClient.Protocol,
      protocol
    )

    const unreachable = Effect.suspend(() => new GatewayUnreachable({ url, reason: connection.reason() }))

    /** Waits for the connection, since `troubled` (ms) if there is trouble with it. */
    const connected = (troubled: number | undefined): Effect.Effect<void, GatewayUnreachable> =>
      Effect.flatMap(monotonic, (now) => {
        const patience = Duration.toMillis(connection.wasOpen() ? config.reconnectTimeout : config.connectTimeout)
        const left = patience - (now - (troubled ?? now))
        return left <= 0
          ? unreachable
          : Effect.flatten(Effect.timeoutTo(connection.awaitOpen, {
            duration: left,
            onSuccess: () => Effect.void,
            onTimeout: () => unreachable
          }))
      })

    /** Makes a call once there is a connection, and again after each cut unless it is to be made `once`. */
    const call = <A, E>(
      request: Effect.Effect<A, E | RpcClientError>,
      options?: { readonly once: boolean }
    ): Effect.Effect<A, Exclude<E, RpcClientError> | GatewayUnreachable> =>
      Effect.gen(function*() {
        let troubled: number | undefined
        while (true) {
          yield* connected(troubled)
          const exit = yield* Effect.exit(request)
          if (!isCut(exit)) return yield* (exit as Exit.Exit<A, Exclude<E, RpcClientError>>)
          if (options?.once) return yield* unreachable
          troubled ??= yield* monotonic
        }
      })

    const submit = Effect.fn("Client.submit")(function*(message: Message) {
      // Before the first try, so that each retry is the same run.
      const idempotencyKey = message.idempotencyKey ?? (yield* makeRunId)
      return yield* call(rpc("agent", { ...message, idempotencyKey }))
    })

    const waitFor = Effect.fn("Client.waitFor")(function*(
      runId: string,
      options?: { readonly timeout?: Duration.DurationInput | undefined }
    ) {
      const timeout = options?.timeout === undefined ? Infinity : Duration.toMillis(options.timeout)
      const start = yield* monotonic
      let left = timeout
      while (true) {
        const timeoutMs = Math.min(left, longestWait)
        const result = yield* Effect.timeoutFail(call(rpc("agent.wait", { runId, timeoutMs })), {
          // Only a caller in a hurry is not to sit through a reconnection.
          duration: left + answerGrace,
          onTimeout: () => new GatewayUnreachable({ url, reason: connection.reason() })
        })
        left = timeout - ((yield* monotonic) - start)
        if (result.settled || left <= 0) return result
      }
    })

    return Client.of({
      submit,
      waitFor,
      follow: (target) => follow(rpc, connected, target),
      abort: (runId) => call(rpc("agent.abort", { runId })),
      stop: (sessionKey, options) => call(rpc("sessions.abort", { sessionKey, ...options }), { once: true }),
      sessions: {
        list: (page) => call(rpc("sessions.list", { ...page })),
        get: (sessionKey) => call(rpc("sessions.get", { sessionKey })),
        history: (sessionKey, page) => call(rpc("sessions.history", { sessionKey, ...page }))
      },
      queue: (sessionKey) => call(rpc("queue.get", { sessionKey })),
      health: call(rpc("health", undefined))
    })
  })

/**
 * A client over a WebSocket. What is not given is as in {@link defaults}.
 *
 * Provide `Socket.layerWebSocketConstructorGlobal` of `@effect/platform` in browsers and in Node 22 or later, and
 * `NodeSocket.layerWebSocketConstructor` of `@effect/platform-node` in Node 20, which has no WebSocket of its own.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerWebSocket = (
  partial: Partial<ClientConfig> = {}
): Layer.Layer<Client, InvalidConfig, Socket.WebSocketConstructor> => Layer.scoped(Client, make(partial))

const readUrl = (text: string): Effect.Effect<string, InvalidConfig> =>
  Effect.suspend(() => {
    // A URL takes `ws:garbage` for an address, and `localhost:7420` for a scheme.
    const url = /^(ws|http)s?:\/\/[^/]/i.test(text) && URL.canParse(text) ? new URL(text) : undefined
    if (url === undefined) {
      return new InvalidConfig({
        key: "url",
        value: JSON.stringify(text),
        reason: "the address of a gateway looks like ws://127.0.0.1:7420"
      })
    }
    url.protocol = url.protocol.replace("http", "ws")
    url.hash = ""
    if (url.pathname === "/") url.pathname = "/rpc"
    return Effect.succeed(url.href)
  })

/** The longest single wait, in ms: short enough that a dead connection does not go unnoticed behind one. */
const longestWait = 25_000

/** How long, in ms, a wait that is over may still wait for its answer. */
const answerGrace = 5_000
