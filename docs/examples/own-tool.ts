import { Tool, Toolkit } from "@effect/ai"
import { Tools } from "@switchyard/core"
import { Effect, Layer, Schema } from "effect"

const Weather = Tool.make("weather", {
  description: "Tells the weather of a city.",
  parameters: { city: Schema.String },
  success: Schema.String,
  failure: Schema.String,
  failureMode: "return", // the model reads the failure and can act on it
  dependencies: [Tools.ToolCall] // comes with each call
})

const toolkit = Toolkit.make(Weather)

const handlers = toolkit.toLayer({
  weather: ({ city }) =>
    Effect.gen(function*() {
      const call = yield* Tools.ToolCall
      yield* call.progress(`asking about ${city}`)
      return city === "Paris" ? "sunny" : yield* Effect.fail(`There is no weather for ${city}.`)
    })
})

export const layer = Layer.provide(Tools.layer(toolkit), handlers)
