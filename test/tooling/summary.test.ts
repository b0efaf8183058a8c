import { assert, describe, it } from "@effect/vitest"
import { summarize } from "../../scripts/test.mjs"

const report = (counts: Record<string, number>, testResults: ReadonlyArray<object> = []) => ({
  numPassedTests: 0,
  numFailedTests: 0,
  numPendingTests: 0,
  numTodoTests: 0,
  ...counts,
  testResults
})

describe("the summary of a test run", () => {
  it("counts what passed, failed and was skipped", () => {
    const counts = { numPassedTests: 5, numFailedTests: 2, numPendingTests: 1, numTodoTests: 1 }
    assert.deepStrictEqual(summarize(report(counts), false), { passed: 5, failed: 2, skipped: 2 })
  })

  it("counts a file that could not be loaded as one failure", () => {
    const files = [{ status: "failed", assertionResults: [] }, { status: "passed", assertionResults: [{}] }]
    assert.deepStrictEqual(summarize(report({ numPassedTests: 1 }, files), false), { passed: 1, failed: 1, skipped: 0 })
  })

  it("counts an error outside any test as a failure", () => {
    assert.deepStrictEqual(summarize(report({ numPassedTests: 1 }), false), { passed: 1, failed: 1, skipped: 0 })
  })
})
