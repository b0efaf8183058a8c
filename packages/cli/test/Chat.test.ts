import { assert, describe, it } from "@effect/vitest"
import type { Message } from "@switchyard/client/Client"
import { Accepted, WaitResult } from "@switchyard/protocol/Run"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Queue from "effect/Queue"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { PassThrough } from "node:stream"
import { chat } from "../src/internal/chat.js"
import type { Agent } from "../src/internal/converse.js"
import { capture } from "./support/switchyard.js"

const accepted = (runId: string) =>
  Schema.decodeUnknownSync(Accepted)({
    ...{ runId, sessionKey: "main", sessionId: "s", acceptedAt: 0, disposition: "started" }
  })

describe("a conversation", () => {
  it.scopedLive("passes /stop on during an answer, and repeats what was typed ahead when it is its turn", () =>
    Effect.gen(function*() {
      const sent = yield* Queue.unbounded<string>()
      const stopped = yield* Deferred.make<void>()
      const agent: Agent = {
        submit: ({ message = "" }: Message) =>
          Effect.gen(function*() {
            if (message === "/stop") yield* Deferred.succeed(stopped, undefined)
            yield* Queue.offer(sent, message)
            return accepted(message.replace(/\W/g, ""))
          }),
        abort: () => Effect.dieMessage("nobody asked for it"),
        waitFor: (runId) =>
          Effect.as(
            Deferred.await(stopped),
            Schema.decodeUnknownSync(WaitResult)({ runId, status: "ok", settled: true, outcome: "completed" })
          ),
        follow: () => Stream.empty
      }
      const input = new PassThrough()
      const write = (text: string) => Effect.sync(() => input.write(text))
      const { stdout } = yield* capture(Effect.gen(function*() {
        const talking = yield* Effect.fork(chat(agent, "main", { input, output: new PassThrough() }))
        yield* write("first\n")
        assert.strictEqual(yield* Queue.take(sent), "first")
        yield* write("second\n/stop\n")
        assert.strictEqual(yield* Queue.take(sent), "/stop")
        assert.strictEqual(yield* Queue.take(sent), "second")
        yield* Effect.sync(() => input.end())
        yield* Fiber.join(talking)
      }))
      assert.include(stdout, "> second\n")
      assert.notInclude(stdout, "> first")
    }))
})
