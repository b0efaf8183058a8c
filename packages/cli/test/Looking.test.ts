import * as Prompt from "@effect/ai/Prompt"
import { assert, describe, it } from "@effect/vitest"
import type { HistoryMessage } from "@switchyard/protocol/Message"
import { SessionInfo } from "@switchyard/protocol/Session"
import * as Schema from "effect/Schema"
import { messageText, sessionTable } from "../src/internal/remote.js"

const session = (sessionKey: string, activeRunId: string | null, waiting: number) =>
  Schema.decodeUnknownSync(SessionInfo)({
    ...{ sessionKey, sessionId: "s", createdAt: 0, updatedAt: 1_000, lastSeq: 1, waiting, activeRunId }
  })

const message = (...content: HistoryMessage["content"]): HistoryMessage => ({
  ...{ seq: 1, runId: null, at: 1_000, role: "tool", content }
})

const result = (result: unknown) =>
  Prompt.toolResultPart({ id: "1", name: "read_file", isFailure: false, result, providerExecuted: false })

describe("sessions list", () => {
  it("stands in columns", () => {
    const table = sessionTable([
      session("main", null, 0),
      session("a longer key", "r1", 12),
      session("k".repeat(90), null, 1)
    ])
    const [heading = "", main = "", longer = ""] = table
    assert.strictEqual(heading.indexOf("STATE"), main.indexOf("idle"))
    assert.strictEqual(heading.indexOf("STATE"), longer.indexOf("running r1"))
    assert.match(main, /^main +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +0 {2}idle$/)
    assert.isAtMost(longer.length, 100)
  })
})

describe("sessions history", () => {
  it("shows the lines of a tool's result, and how many more there are", () => {
    assert.include(messageText(message(result("one line\n"))), "\n← read_file one line\n")
    const long = messageText(message(result(Array.from({ length: 25 }, (_, i) => `line ${i}`).join("\n"))))
    assert.include(long, "\n← read_file \n  line 0\n  line 1\n")
    assert.include(long, "\n  line 9\n  … (15 more lines; --json shows all)\n")
    assert.notInclude(long, "line 10")
  })

  it("has no heaps of empty lines, and steers no terminal", () => {
    const shown = messageText(message(Prompt.textPart({ text: "a\u001b[31m\r\n\n \n\nb\n\n\n" })))
    assert.match(shown, /\na \[31m\n\nb\n$/)
  })
})
