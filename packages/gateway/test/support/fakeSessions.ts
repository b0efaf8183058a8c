import { Model } from "@switchyard/core/Model"
import { Sessions } from "@switchyard/core/Sessions"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"

const unexpected = (call: string) => () => Effect.dieMessage(`the test did not expect a call of ${call}`)

/** `Sessions` of which a test gives what it needs. A call of anything else is a defect. */
export const fakeSessions = (given: Partial<Sessions["Type"]> = {}): Layer.Layer<Sessions | Model> =>
  Layer.merge(
    Layer.succeed(Sessions, {
      submit: unexpected("submit"),
      wait: unexpected("wait"),
      abort: unexpected("abort"),
      stop: unexpected("stop"),
      events: () => Stream.dieMessage("the test did not expect a call of events"),
      list: unexpected("list"),
      get: unexpected("get"),
      history: unexpected("history"),
      queue: unexpected("queue"),
      counts: Effect.succeed({ sessions: 2, runs: 1 }),
      recover: Effect.succeed({ sessions: 0 }),
      drain: Effect.void,
      ...given
    }),
    Layer.succeed(Model, { name: "scripted", stream: () => Stream.empty })
  )
