import { addEqualityTesters } from "@effect/vitest"
import { afterEach } from "vitest"
import { guardNetwork } from "./test/support/networkGuard.js"

addEqualityTesters()

const refused = guardNetwork()

// The code under test may swallow the refusal, so what was refused also fails the test that ran.
afterEach(() => {
  const attempts = refused.splice(0)
  if (attempts.length > 0) {
    throw new Error(`a test may use the loopback network only; it tried to reach ${attempts.join(", ")}`)
  }
})
