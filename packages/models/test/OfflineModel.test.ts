import * as Prompt from "@effect/ai/Prompt"
import * as Tool from "@effect/ai/Tool"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, describe, it } from "@effect/vitest"
import { Model, type ModelRequest } from "@switchyard/core/Model"
import { RunId, SessionKey } from "@switchyard/protocol/Ids"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as Ref from "effect/Ref"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import { fileURLToPath } from "node:url"
import * as OfflineModel from "../src/OfflineModel.js"
import { ask, conversation, memoryTools, partsOf, run, step, toolMessage, user } from "./support.js"

const files = () => new Map([["README.md", "one two three"], ["my notes.txt", "buy milk"]])
const answerTo = (text: string) => ask(text, memoryTools(files()))

const documentation = fileURLToPath(new URL("../../../docs/offline-model.md", import.meta.url))
const table = [
  "| Write | For example | What it does |",
  "| --- | --- | --- |",
  ...OfflineModel.grammar.map(({ does, example, form }) => `| \`${form}\` | \`${example}\` | ${does} |`)
].join("\n")

describe("the grammar of OfflineModel", () => {
  it.effect("is the table in docs/offline-model.md", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      assert.include(yield* fs.readFileString(documentation), `\n${table}\n\n`)
    }).pipe(Effect.provide(NodeFileSystem.layer)))

  it.effect("has only examples that it understands", () =>
    Effect.sync(() => {
      for (const { example } of OfflineModel.grammar) assert.notInclude(answerTo(example), "Try:", example)
    }))

  it.effect("tolerates case, politeness, punctuation and ways to say it", () =>
    Effect.sync(() => {
      for (
        const question of [
          "how many words are in README.md?",
          "How many words are there in README.md",
          "HOW MANY WORDS ARE IN README.md?!",
          "Please, can you count the words in README.md?",
          "Hey there, could you please count words in the file README.md, please.",
          "count the words of \"README.md\"",
          "how many words does `README.md` have?",
          "what is the word count of README.md?",
          "  count\n the   words in README.md thanks"
        ]
      ) {
        assert.strictEqual(answerTo(question), "README.md has 3 words.", question)
      }
    }))

  it.effect("takes names with spaces in quotes, and only there", () =>
    Effect.sync(() => {
      for (const name of [`"my notes.txt"`, "`my notes.txt`", "“my notes.txt”"]) {
        assert.strictEqual(answerTo(`read ${name}.`), "my notes.txt says:\n\nbuy milk\n")
      }
      assert.include(answerTo("read my notes.txt"), "Try:")
    }))

  it.effect("is not confused by its own words inside of quotes", () =>
    Effect.sync(() => {
      const state = conversation(`write "now and then go to bed" to "a to b" then search for "x in y then z" in docs`)
      run(state, memoryTools(files()))
      assert.deepStrictEqual(state.calls, [
        ["write", { path: "a to b", content: "now and then go to bed" }],
        ["search", { text: "x in y then z", path: "docs" }]
      ])
    }))

  it.effect("prefers one command over two where both are possible", () =>
    Effect.sync(() => {
      const state = conversation("search for salt and list", "write go to bed to todo.txt", "list")
      run(state, memoryTools(files()))
      assert.deepStrictEqual(state.calls, [
        ["search", { text: "salt and list" }],
        ["write", { path: "todo.txt", content: "go to bed" }],
        ["list", { path: "." }]
      ])
    }))

  it.effect("says what it is when it does not understand, and when greeted", () =>
    Effect.sync(() => {
      for (const text of ["what is the meaning of life?", "", "then", "\0\"`“", "read", "count slowly to"]) {
        const reply = answerTo(text)
        assert.match(reply, /^I am Switchyard's offline model: rule-based, no language understanding\. Try: /, text)
        assert.include(reply, "`read README.md`")
      }
      for (const text of ["hello", "Hi!", "hey there", "help", "?", "What can you do?"]) {
        const reply = answerTo(text)
        assert.include(reply, "offline model: rule-based")
        for (const { form } of OfflineModel.grammar) assert.include(reply, form)
      }
    }))

  it.effect.prop(
    "gives some answer to any text at all",
    { text: FastCheck.string({ unit: "binary", maxLength: 200 }), words: FastCheck.array(grammarWord()) },
    ({ text, words }) =>
      Effect.sync(() => {
        for (const message of [text, words.join(" "), `read ${text}`, `write ${text} to x`]) {
          assert.notStrictEqual(answerTo(message), "")
        }
      })
  )

  it.effect("answers long messages without looking at them for long", () =>
    Effect.sync(() => {
      for (const unit of ["“ ", "\" ", "write x to ", " ", "then ", ".", "\"a\"b ", "\0"]) {
        assert.include(answerTo(`write ${unit.repeat(100_000)}`), "Try:", unit)
      }
      const state = conversation(`write "${"long ".repeat(20_000)}" to x`)
      run(state, memoryTools(files()))
      assert.deepInclude(state.calls[0]![1], { content: "long ".repeat(20_000) })
    }))
})

describe("OfflineModel with tools", () => {
  it.effect("answers with what the tools say", () =>
    Effect.sync(() => {
      const memory = files()
      const tools = memoryTools(memory)
      assert.strictEqual(ask("read README.md", tools), "README.md says:\n\none two three\n")
      assert.strictEqual(ask("list", tools), "In the workspace folder:\n\nREADME.md\nmy notes.txt\n")
      assert.strictEqual(ask("search for milk", tools), "The search for \"milk\" gave:\n\nmy notes.txt:1\n")
      assert.strictEqual(ask("write \"a  b\" to new.txt", tools), "I wrote 4 characters to new.txt.")
      assert.strictEqual(memory.get("new.txt"), "a  b")
      assert.strictEqual(ask("count the words in new.txt", tools), "new.txt has 2 words.")
    }))

  it.effect("reads one file and writes its word count to another", () =>
    Effect.sync(() => {
      const memory = files()
      for (const words of ["then", "and then", "and"]) {
        const state = conversation(`Read README.md ${words} write its word count to "b c.txt".`)
        assert.strictEqual(run(state, memoryTools(memory)), "I read README.md. I wrote its word count, 3, to b c.txt.")
        assert.deepStrictEqual(state.calls.map(([name]) => name), ["read", "count_words", "write"])
        assert.strictEqual(memory.get("b c.txt"), "3")
      }
    }))

  it.effect("lets later commands of a chain refer to the earlier", () =>
    Effect.sync(() => {
      const memory = files()
      const tools = memoryTools(memory)
      ask("count the words in README.md then write it to n.txt", tools)
      assert.strictEqual(memory.get("n.txt"), "3")
      ask("list then write the result to l.txt", tools)
      assert.strictEqual(memory.get("l.txt"), "README.md\nmy notes.txt\nn.txt")
      assert.strictEqual(
        ask("write hello world to h.txt then count the words in it", tools).slice(-18),
        "h.txt has 2 words."
      )
      ask("count the words in README.md then write its contents to c.txt, then read it", tools)
      assert.strictEqual(memory.get("c.txt"), "one two three")
      assert.include(ask("list then read it", tools), "I do not know which file you mean")
      // Outside of a chain these are a text and a name like any other.
      ask("write its word count to t.txt", tools)
      assert.strictEqual(memory.get("t.txt"), "its word count")
    }))

  it.effect("turns a failing tool into a sentence and leaves the rest of the chain", () =>
    Effect.sync(() => {
      const state = conversation("read nope.txt then write its contents to b.txt")
      assert.strictEqual(
        run(state, memoryTools(files())),
        "I could not read nope.txt: There is no file or folder nope.txt. I did not do the rest."
      )
      assert.strictEqual(state.calls.length, 1)
    }))

  it.effect("says which tool it was not given, and calls no other", () =>
    Effect.sync(() => {
      const { read } = memoryTools(files())
      const reply = ask("read README.md then write its word count to b.txt", { read: read! })
      assert.strictEqual(
        reply,
        "I read README.md. I could not count the words in README.md: I was not given the tool \"count_words\"."
      )
    }))

  it.effect("shows a long file in part, and never half a character", () =>
    Effect.sync(() => {
      const reply = ask("read big", memoryTools(new Map([["big", `x${"🙂".repeat(5000)}`]])))
      assert.include(reply, "more characters)")
      assert.isBelow(reply.length, 4100)
      assert.isFalse(/\p{Cs}/u.test(reply))
    }))

  it.effect.prop(
    "counts, copies and finds files of any name and content",
    { name: fileName(), other: fileName(), content: FastCheck.string({ unit: "grapheme" }) },
    ({ content, name, other }) =>
      Effect.sync(() => {
        const memory = new Map([[name, content]])
        const tools = memoryTools(memory)
        const count = String(tools.count_words!({ path: name }))
        assert.strictEqual(
          ask(`how many words are in ${quote(name)}?`, tools),
          `${name} has ${count} ${count === "1" ? "word" : "words"}.`
        )
        ask(`read ${quote(name)} then write its word count to ${quote(other)}`, tools)
        assert.strictEqual(memory.get(other), count)
        memory.set(name, content)
        ask(`read ${quote(name)} then write its contents to ${quote(other)}`, tools)
        assert.strictEqual(memory.get(other), content)
      })
  )

  it.effect.prop(
    "writes any quoted text as it is",
    { content: FastCheck.string({ unit: "grapheme" }).filter((text) => !/["\0]/.test(text)), name: fileName() },
    ({ content, name }) =>
      Effect.sync(() => {
        const memory = new Map<string, string>()
        ask(`write "${content}" to ${quote(name)}`, memoryTools(memory))
        assert.strictEqual(memory.get(name), content)
      })
  )
})

describe("OfflineModel with several messages", () => {
  it.effect("checks slowly as many times as asked, whatever was said before", () =>
    Effect.sync(() => {
      const tools = memoryTools(files())
      const state = conversation("list", "check slowly 2 times")
      run(state, tools)
      state.messages = [...state.messages, user("check slowly 5 times")]
      state.calls.length = 0
      assert.strictEqual(run(state, tools), "Checked 5 times.")
      assert.deepStrictEqual(state.calls, Array.from({ length: 5 }, () => ["list", { path: "." }] as const))
      assert.strictEqual(ask("check slowly 1 time", tools), "Checked 1 time.")
    }))

  it.effect("serves a steering message at the next step, goes on, and answers both", () =>
    Effect.sync(() => {
      const tools = memoryTools(files())
      const state = conversation("check slowly 5 times")
      step(state, tools)
      step(state, tools)
      state.messages = [...state.messages, user("how many words are in README.md?")]
      assert.strictEqual(run(state, tools), "Checked 5 times.\n\nREADME.md has 3 words.")
      assert.deepStrictEqual(
        state.calls.map(([name]) => name),
        ["list", "list", "count_words", "list", "list", "list"]
      )
    }))

  it.effect("works on the newest messages first and on those that came together in their order", () =>
    Effect.sync(() => {
      const tools = memoryTools(files())
      const state = conversation("check slowly 2 times")
      step(state, tools)
      state.messages = [...state.messages, user("read README.md then count the words in it"), user("search for milk")]
      step(state, tools)
      state.messages = [...state.messages, user("list")]
      const reply = run(state, tools)
      assert.deepStrictEqual(
        state.calls.map(([name]) => name),
        ["list", "read", "list", "count_words", "search", "list"]
      )
      const places = ["Checked 2 times.", "README.md has 3 words.", "The search for", "In the workspace folder:"].map((
        text
      ) => reply.indexOf(text))
      assert.notInclude(places, -1)
      assert.deepStrictEqual(places, [...places].sort((a, b) => a - b))
    }))

  it.effect("answers only what came after its last answer, also within one run", () =>
    Effect.sync(() => {
      const tools = memoryTools(files())
      const state = conversation("how many words are in README.md?")
      run(state, tools)
      state.messages = [...state.messages, user("help")]
      const reply = run(state, tools)
      assert.include(reply, "I understand")
      assert.notInclude(reply, "README.md has")
    }))

  it.effect("answers each message of a collected one", () =>
    Effect.sync(() => {
      const collected =
        "[Queued messages while agent was busy]\n\n---\n\nQueued #1 (from Ada)\n\nread README.md\n\n---\n\n" +
        "Queued #2\n\nhow many words are in\n\"my notes.txt\"?\n\n---\n\nQueued #3 (from Bob)\n\ntell me a joke"
      const reply = ask(collected, memoryTools(files()))
      const [first, second, third] = reply.split(/\n\n(?=my notes|I am)/)
      assert.strictEqual(first, "README.md says:\n\none two three\n".trimEnd())
      assert.strictEqual(second, "my notes.txt has 2 words.")
      assert.include(third!, "Try:")
    }))

  it.effect("makes a call again that was skipped for a newer message", () =>
    Effect.sync(() => {
      const tools = memoryTools(files())
      const parts = partsOf([user("read README.md")], Object.keys(tools))
      const call = parts.find((part) => part.type === "tool-call")!
      const state = conversation()
      state.messages = [
        user("read README.md"),
        ...Prompt.fromResponseParts(parts).content,
        toolMessage(call.id, call.name, { result: "Skipped: a newer message arrived.", isFailure: true }),
        user("list")
      ]
      const reply = run(state, tools)
      assert.deepStrictEqual(state.calls.map(([name]) => name), ["list", "read"])
      assert.include(reply, "one two three")
      const ids = state.messages.flatMap(({ content }) =>
        typeof content === "string" ? [] : content.flatMap((part) => part.type === "tool-call" ? [part.id] : [])
      )
      assert.strictEqual(new Set(ids).size, 3)
    }))

  it.effect("leaves what was asked of a run that ended early, once something new is asked", () =>
    Effect.sync(() => {
      const tools = memoryTools(files())
      const state = conversation("check slowly 5 times")
      step(state, tools)
      state.messages = [...state.messages, user("[Switchyard note] The previous run was stopped."), user("list")]
      state.calls.length = 0
      assert.notInclude(run(state, tools), "Checked")
      assert.strictEqual(state.calls.length, 1)
    }))

  it.effect("does not take a note for a task", () =>
    Effect.sync(() => {
      const tools = memoryTools(files())
      const state = conversation("check slowly 2 times")
      step(state, tools)
      state.messages = [...state.messages, user("[Switchyard note] read README.md")]
      assert.strictEqual(run(state, tools), "Checked 2 times.")
    }))

  it.effect("refuses numbers that are too large or too small", () =>
    Effect.sync(() => {
      for (const text of ["count slowly to 1001", "count slowly to 0"]) assert.include(answerTo(text), "from 1 to 1000")
      for (const text of ["check slowly 51 times", "check slowly 0 times"]) {
        assert.include(answerTo(text), "from 1 to 50")
      }
    }))

  it.effect.prop(
    "answers every message once, whenever it arrives",
    { arrivals: FastCheck.array(FastCheck.nat({ max: 3 }), { minLength: 1, maxLength: 6 }) },
    ({ arrivals }) =>
      Effect.sync(() => {
        const memory = new Map<string, string>()
        const tools = memoryTools(memory)
        const state = conversation("check slowly 3 times")
        let sent = 0
        let reply = step(state, tools)
        for (let boundary = 0; reply === null; boundary++) {
          for (let arriving = arrivals[boundary] ?? 0; arriving > 0; arriving--) {
            state.messages = [...state.messages, user(`how many words are in f${sent}?`)]
            memory.set(`f${sent}`, "w ".repeat(sent))
            sent++
          }
          reply = step(state, tools)
        }
        const expected = Array.from({ length: sent }, (_, index) =>
          `f${index} has ${index} ${index === 1 ? "word" : "words"}.`)
        assert.strictEqual(reply, ["Checked 3 times.", ...expected].join("\n\n"))
        assert.strictEqual(state.calls.length, 3 + sent)
      })
  )
})

describe("OfflineModel as a stream", () => {
  const request = (text: string): ModelRequest => ({
    sessionKey: SessionKey.make("main"),
    runId: RunId.make("run"),
    step: 1,
    model: null,
    prompt: Prompt.make(text),
    tools: [Tool.make("list")]
  })

  it.effect("streams a reply in several deltas and one chunk, with usage of a quarter of the characters", () =>
    Effect.gen(function*() {
      const model = yield* Model
      const chunks = Chunk.toReadonlyArray(yield* Stream.runCollect(Stream.chunks(model.stream(request("help")))))
      assert.strictEqual(chunks.length, 1)
      const parts = Chunk.toReadonlyArray(chunks[0]!)
      const deltas = parts.flatMap((part) => part.type === "text-delta" ? [part.delta] : [])
      const finish = parts[parts.length - 1]!
      assert.strictEqual(parts[0]!.type, "text-start")
      assert.isAbove(deltas.length, 3)
      assert.isTrue(
        finish.type === "finish" && finish.reason === "stop" && finish.usage.inputTokens === 1 &&
          finish.usage.outputTokens === Math.ceil(deltas.join("").length / 4)
      )
    }).pipe(Effect.provide(OfflineModel.layer)))

  it.effect("streams one number every 100 ms when it counts slowly", () =>
    Effect.gen(function*() {
      const seen = yield* Ref.make("")
      const fiber = yield* Effect.fork(
        Stream.runForEach(OfflineModel.make.stream(request("count slowly to 12")), (part) =>
          part.type === "text-delta"
            ? Ref.update(seen, (text) => text + part.delta)
            : Effect.void)
      )
      yield* TestClock.adjust("99 millis")
      assert.strictEqual(yield* Ref.get(seen), "")
      yield* TestClock.adjust("1 millis")
      assert.strictEqual(yield* Ref.get(seen), "1")
      yield* TestClock.adjust("1 seconds")
      assert.strictEqual(yield* Ref.get(seen), "1 2 3 4 5 6 7 8 9 10 11")
      yield* TestClock.adjust("100 millis")
      yield* Fiber.join(fiber)
      assert.strictEqual(yield* Ref.get(seen), "1 2 3 4 5 6 7 8 9 10 11 12")
    }))

  it.effect("takes 500 ms for each slow check before it asks for its tool", () =>
    Effect.gen(function*() {
      const fiber = yield* Effect.fork(Stream.runCollect(OfflineModel.make.stream(request("check slowly 3 times"))))
      yield* TestClock.adjust("499 millis")
      assert.isNull(fiber.unsafePoll())
      yield* TestClock.adjust("1 millis")
      const parts = Chunk.toReadonlyArray(yield* Fiber.join(fiber))
      assert.deepStrictEqual(
        parts.map(({ type }) => type),
        ["tool-params-start", "tool-params-delta", "tool-params-end", "tool-call", "finish"]
      )
      const call = parts[3]!
      assert.isTrue(call.type === "tool-call" && call.name === "list")
      assert.deepStrictEqual(call.type === "tool-call" ? call.params as unknown : null, { path: "." })
    }))

  it.effect("calls only tools that the request offers", () =>
    Effect.gen(function*() {
      const parts = yield* Stream.runCollect(OfflineModel.make.stream(request("read README.md")))
      assert.isFalse(Chunk.some(parts, ({ type }) => type === "tool-call"))
    }))
})

function fileName() {
  return FastCheck.string({ unit: "grapheme", minLength: 1, maxLength: 20 }).filter((name) => !/["\0/]/.test(name))
}

function grammarWord() {
  const words = OfflineModel.grammar.flatMap(({ example, form }) => `${form} ${example}`.split(" "))
  return FastCheck.oneof(FastCheck.constantFrom(...words, "its", "it", "\"", "`", "please", "?"), fileName())
}

function quote(name: string) {
  return `"${name}"`
}
