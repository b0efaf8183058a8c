/**
 * The calls of a Switchyard gateway.
 *
 * Payloads are wide: what they may hold is checked behind the call and answered with `InvalidRequest`, since a payload
 * that fails its schema would end the whole connection.
 *
 * @since 0.1.0
 */
import * as Rpc from "@effect/rpc/Rpc"
import * as RpcGroup from "@effect/rpc/RpcGroup"
import * as Schema from "effect/Schema"
import { AgentEvent } from "./AgentEvent.js"
import * as Errors from "./Errors.js"
import { AbortResult, Accepted, StopResult, WaitResult } from "./Run.js"
import { Health, HistoryPage, QueueView, SessionInfo, SessionPage } from "./Session.js"
import { SubmitPayload } from "./Submission.js"

const wide = Schema.optional(Schema.Unknown)

/**
 * All calls.
 *
 * - `agent`: give a session one message; answers once it is durable
 * - `agent.wait`: wait for a run (`runId`, `timeoutMs` = 30 000); with `onDisconnect: "abort"` a caller that goes away
 *   before the run settled aborts it
 * - `agent.abort`: end one run, or remove a waiting message (`runId`)
 * - `agent.events`: follow a run (`runId`) or a session (`sessionKey`), from a cursor (`after`); `onDisconnect` as
 *   for `agent.wait`
 * - `sessions.list`: by key (`after`, `limit` = 100)
 * - `sessions.get`: one session (`sessionKey`)
 * - `sessions.history`: its messages (`sessionKey`, `after`, `limit` = 100)
 * - `sessions.abort`: end its run (`sessionKey`), and with `clearQueued` cancel what waits
 * - `queue.get`: what waits in a session (`sessionKey`)
 * - `health`: how the gateway is doing
 *
 * @since 0.1.0
 * @category rpcs
 */
export class SwitchyardRpcs extends RpcGroup.make(
  // `agent` stands before `agent.*`: the client makes it a function with methods in this order only.
  Rpc.make("agent", { payload: SubmitPayload, success: Accepted, error: Errors.SubmitError }),
  Rpc.make("agent.wait", {
    payload: { runId: wide, timeoutMs: wide, onDisconnect: wide },
    success: WaitResult,
    error: Errors.WaitError
  }),
  Rpc.make("agent.abort", { payload: { runId: wide }, success: AbortResult, error: Errors.AbortError }),
  Rpc.make("agent.events", {
    payload: { runId: wide, sessionKey: wide, after: wide, onDisconnect: wide },
    success: AgentEvent,
    error: Errors.EventsError,
    stream: true
  }),
  Rpc.make("sessions.list", {
    payload: { after: wide, limit: wide },
    success: SessionPage,
    error: Errors.ReadError
  }),
  Rpc.make("sessions.get", { payload: { sessionKey: wide }, success: SessionInfo, error: Errors.ReadError }),
  Rpc.make("sessions.history", {
    payload: { sessionKey: wide, after: wide, limit: wide },
    success: HistoryPage,
    error: Errors.ReadError
  }),
  Rpc.make("sessions.abort", {
    payload: { sessionKey: wide, clearQueued: wide },
    success: StopResult,
    error: Errors.StopError
  }),
  Rpc.make("queue.get", { payload: { sessionKey: wide }, success: QueueView, error: Errors.ReadError }),
  Rpc.make("health", { success: Health })
) {}
