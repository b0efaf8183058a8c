import * as Tool from "@effect/ai/Tool"
import * as Command from "@effect/platform/Command"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as BuiltinTools from "../src/BuiltinTools.js"
import { fileName, inWorkspace, text } from "./support.js"

/** Words, every kind of white space, unprintable characters, and bytes that are no UTF-8. U+FFFD itself is left out. */
const anyBytes = FastCheck.array(
  FastCheck.oneof(
    {
      weight: 4,
      arbitrary: FastCheck.constantFrom(
        ...[" ", "\t", "\n", "\v", "\f", "\r", "\u00a0", "\u2003", "\u2028", "\u2060", "\u3000"],
        ...["word", "a", "é", "日本", "🙂", "\u200b", "\u00ad", "\ufeff", "\ue000"],
        ...["\u0001", "\0", "\u0085", "\uffff"]
      ).map((text) => new TextEncoder().encode(text))
    },
    { weight: 1, arbitrary: FastCheck.uint8Array({ maxLength: 3 }) }
  ),
  { maxLength: 30 }
).map((pieces) => Uint8Array.from(pieces.flatMap((piece) => [...piece])))

describe("BuiltinTools", () => {
  it("describes its parameters as JSON schema", () => {
    for (const tool of Object.values(BuiltinTools.toolkit.tools)) {
      const schema = Tool.getJsonSchemaFromSchemaAst(tool.parametersSchema.ast)
      assert.strictEqual((schema as { readonly type?: string }).type, "object", tool.name)
      assert.strictEqual(tool.failureMode, "return")
    }
  })

  it.scoped.prop(
    "reads back exactly what was written, whatever the name and the content",
    { files: FastCheck.dictionary(fileName, text, { maxKeys: 4 }) },
    ({ files }) =>
      inWorkspace(({ ok }) =>
        Effect.gen(function*() {
          for (const [path, content] of Object.entries(files)) yield* ok("write", { path, content })
          for (const [path, content] of Object.entries(files)) {
            assert.strictEqual(yield* ok("read", { path }), content, JSON.stringify(path))
          }
        })
      ),
    { fastCheck: { numRuns: 40 } }
  )

  it.scoped.prop(
    "gives parts that join to the whole text",
    { content: text, limit: FastCheck.integer({ min: 1, max: 4 }) },
    ({ content, limit }) =>
      inWorkspace(({ call, ok }) =>
        Effect.gen(function*() {
          yield* ok("write", { path: "f", content })
          let joined = ""
          for (let offset = 1;; offset += limit) {
            const part = yield* call("read", { path: "f", offset, limit })
            if (part.isFailure || part.result === "") break
            joined += part.result
          }
          assert.strictEqual(joined, content)
        })
      ),
    { fastCheck: { numRuns: 40 } }
  )

  it.scoped("tells how to read a file that is too large, and reads it that way", () =>
    inWorkspace(({ fails, ok }) =>
      Effect.gen(function*() {
        const line = `${"x".repeat(99)}\n`
        yield* ok("write", { path: "big.txt", content: line.repeat(20_000) })
        const advice = yield* fails("read", { path: "big.txt" })
        assert.include(advice, "big.txt has 2000000 bytes")
        assert.include(advice, `{ "offset": 1, "limit": 1000 }`)
        assert.strictEqual(yield* ok("read", { path: "big.txt", offset: 19_999, limit: 1000 }), line.repeat(2))
        assert.include(yield* fails("read", { path: "big.txt", offset: 1 }), "have more than 1048576 bytes")
        assert.include(yield* fails("read", { path: "big.txt", offset: 20_002 }), "there is no line 20002")
      })
    ))

  it.scoped("says so when a file is missing, a folder, or not text", () =>
    inWorkspace(({ fails, fs, paths, root }) =>
      Effect.gen(function*() {
        yield* fs.writeFile(paths.join(root, "binary"), new Uint8Array([0xff, 0xfe, 0x00]))
        assert.strictEqual(yield* fails("read", { path: "nope.txt" }), "There is no file or folder nope.txt.")
        assert.strictEqual(yield* fails("read", { path: "." }), ". is a folder, not a file.")
        assert.include(yield* fails("read", { path: "binary" }), "not a text file")
        assert.strictEqual(yield* fails("list", { path: "binary" }), "binary is a file, not a folder.")
        assert.strictEqual(yield* fails("count_words", { path: "nope.txt" }), "There is no file or folder nope.txt.")
      })
    ))

  it.scoped("refuses every way out in every tool, and leaves what is outside as it was", () =>
    inWorkspace(({ fails, fs, outside, paths, root }) =>
      Effect.gen(function*() {
        yield* fs.symlink(outside, paths.join(root, "folder"))
        yield* fs.symlink(paths.join(outside, "secret.txt"), paths.join(root, "file"))
        yield* fs.symlink(paths.join(outside, "new.txt"), paths.join(root, "dangling"))
        const ways = [
          "../outside/secret.txt",
          `${outside}/secret.txt`,
          "folder/secret.txt",
          "file",
          "dangling",
          "folder/new.txt"
        ]
        for (const path of ways) {
          for (
            const [name, params] of [
              ["read", { path }],
              ["write", { path, content: "changed" }],
              ["count_words", { path }],
              ["list", { path }],
              ["search", { text: "secret", path }]
            ] as const
          ) {
            assert.include(yield* fails(name, params), "is refused", `${name} ${path}`)
          }
        }
        assert.deepStrictEqual(yield* fs.readDirectory(outside), ["secret.txt"])
        assert.strictEqual(yield* fs.readFileString(paths.join(outside, "secret.txt")), "secret")
      })
    ))

  it.scoped("does not wait for the other end of a pipe", () =>
    inWorkspace(({ fails, ok, paths, root }) =>
      Effect.gen(function*() {
        yield* Command.exitCode(Command.make("mkfifo", paths.join(root, "pipe")))
        for (const name of ["read", "count_words"]) {
          assert.include(yield* fails(name, { path: "pipe" }), "neither a file nor a folder")
        }
        assert.include(yield* fails("write", { path: "pipe", content: "" }), "neither a file nor a folder")
        assert.strictEqual(yield* ok("search", { text: "x" }), `No line contains "x".`)
        assert.strictEqual(yield* ok("list", {}), "pipe")
      })
    ))

  it.scoped("writes as a whole: keeps the mode, makes folders, leaves no temporary file", () =>
    inWorkspace(({ fs, ok, paths, root }) =>
      Effect.gen(function*() {
        assert.strictEqual(yield* ok("write", { path: "a/b/c.sh", content: "é" }), "Wrote 2 bytes to a/b/c.sh.")
        const file = paths.join(root, "a/b/c.sh")
        yield* fs.chmod(file, 0o750)
        const before = yield* fs.stat(file)
        yield* ok("write", { path: "a/b/c.sh", content: "" })
        const after = yield* fs.stat(file)
        assert.strictEqual(after.mode & 0o777, 0o750)
        assert.notDeepEqual(after.ino, before.ino)
        assert.deepStrictEqual(yield* fs.readDirectory(paths.join(root, "a/b")), ["c.sh"])
      })
    ))

  it.scoped("shows a reader the old content or the new, never a part, while it writes", () =>
    inWorkspace(({ ok }) =>
      Effect.gen(function*() {
        const contents = ["a".repeat(300_000), "b".repeat(200_000)]
        yield* ok("write", { path: "f", content: contents[0] })
        const writer = yield* Effect.fork(
          Effect.forEach(Array.from({ length: 20 }, (_, i) => contents[i % 2]!), (content) =>
            ok("write", { path: "f", content }))
        )
        for (let i = 0; i < 20; i++) {
          assert.include(contents, yield* ok("read", { path: "f" }))
        }
        yield* Fiber.join(writer)
      })
    ))

  it.scoped("refuses content that is too large", () =>
    inWorkspace(({ fails }) =>
      Effect.gen(function*() {
        const content = "x".repeat(8 * 1024 * 1024 + 1)
        assert.include(yield* fails("write", { path: "f", content }), "at most 8388608")
      })
    ))

  it.scoped("lists sorted, marks folders, and shows no more than 1,000 entries", () =>
    inWorkspace(({ fs, ok, outside, paths, root }) =>
      Effect.gen(function*() {
        assert.strictEqual(yield* ok("list", {}), "The folder is empty.")
        yield* ok("write", { path: "b.txt", content: "" })
        yield* ok("write", { path: "sub/x.txt", content: "" })
        yield* ok("write", { path: "A.txt", content: "" })
        yield* ok("write", { path: "two\nlines", content: "" })
        yield* fs.symlink(outside, paths.join(root, "out"))
        yield* fs.symlink("sub", paths.join(root, "inner"))
        assert.strictEqual(yield* ok("list", { path: "." }), `A.txt\nb.txt\ninner/\nout\nsub/\n"two\\nlines"`)
        assert.strictEqual(yield* ok("list", { path: "sub" }), "x.txt")
        yield* fs.makeDirectory(paths.join(root, "many"))
        yield* Effect.forEach(
          Array.from({ length: 1003 }, (_, i) => `f${String(i).padStart(4, "0")}`),
          (name) => fs.writeFileString(paths.join(root, "many", name), ""),
          { concurrency: 16, discard: true }
        )
        const lines = String(yield* ok("list", { path: "many" })).split("\n")
        assert.strictEqual(lines.length, 1001)
        assert.strictEqual(lines[999], "f0999")
        assert.strictEqual(lines[1000], "… and 3 more")
      })
    ))

  it.scoped("finds lines in text files, and leaves out binaries, large files, links, node_modules and .git", () =>
    inWorkspace(({ fs, ok, outside, paths, root }) =>
      Effect.gen(function*() {
        const put = (path: string, content: string) => ok("write", { path, content })
        yield* put("b/two.txt", "nothing\n  a needle here\r\n")
        yield* put("one.txt", "needle\nNeedle\nneedles")
        yield* put("node_modules/x.js", "needle")
        yield* put(".git/config", "needle")
        yield* put("binary", "needle\0")
        yield* put("large.txt", "needle\n".repeat(200_000))
        yield* fs.symlink("..", paths.join(root, "b/loop"))
        yield* fs.symlink(outside, paths.join(root, "out"))
        assert.strictEqual(
          yield* ok("search", { text: "needle" }),
          "b/two.txt:2: a needle here\none.txt:1: needle\none.txt:3: needles\n" +
            "Not searched because they are larger than 1048576 bytes: 1 files."
        )
        assert.strictEqual(yield* ok("search", { text: "needle", path: "b" }), "b/two.txt:2: a needle here")
        assert.strictEqual(yield* ok("search", { text: "Needle", path: "one.txt" }), "one.txt:2: Needle")
        assert.include(String(yield* ok("search", { text: "secret" })), `No line contains "secret".`)
      })
    ))

  it.scoped("shows 100 matches at most, and only the part of a long line around the match", () =>
    inWorkspace(({ fails, ok }) =>
      Effect.gen(function*() {
        yield* ok("write", { path: "f", content: "needle\n".repeat(101) })
        const lines = String(yield* ok("search", { text: "needle" })).split("\n")
        assert.strictEqual(lines.length, 101)
        assert.strictEqual(lines[100], "Only the first 100 matching lines are shown.")
        yield* ok("write", { path: "f", content: `${"🙂".repeat(1000)}needle${"🙂".repeat(1000)}` })
        const long = String(yield* ok("search", { text: "needle" }))
        assert.include(long, "needle")
        assert.isBelow(long.length, 250)
        assert.isTrue(!/\p{Cs}/u.test(long))
        assert.include(yield* fails("search", { text: "" }), "must be one line")
      })
    ))

  it.scoped.prop(
    "finds exactly the lines that contain the text",
    {
      lines: FastCheck.array(
        FastCheck.array(FastCheck.constantFrom("a", "ab", "b", " ", "é"), { maxLength: 6 }).map((words) =>
          words.join("")
        ),
        { maxLength: 8 }
      )
    },
    ({ lines }) =>
      inWorkspace(({ ok }) =>
        Effect.gen(function*() {
          yield* ok("write", { path: "f", content: lines.join("\n") })
          const expected = lines.flatMap((line, index) => line.includes("ab") ? [`f:${index + 1}: ${line.trim()}`] : [])
          assert.strictEqual(
            yield* ok("search", { text: "ab" }),
            expected.length === 0 ? `No line contains "ab".` : expected.join("\n")
          )
        })
      ),
    { fastCheck: { numRuns: 40 } }
  )

  it.scoped.prop(
    "counts words as wc -w does, for any bytes",
    { contents: FastCheck.array(anyBytes, { minLength: 1, maxLength: 40 }) },
    ({ contents }) =>
      inWorkspace(({ fs, ok, paths, root }) =>
        Effect.gen(function*() {
          const names = contents.map((_, index) => `f${index}`)
          for (const [index, content] of contents.entries()) {
            yield* fs.writeFile(paths.join(root, names[index]!), content)
          }
          const output = yield* Command.make("wc", "-w", ...names).pipe(
            Command.workingDirectory(root),
            Command.env({ LC_ALL: "C.UTF-8" }),
            Command.lines
          )
          for (const [index, path] of names.entries()) {
            const expected = Number.parseInt(output[index]!.trim(), 10)
            assert.strictEqual(yield* ok("count_words", { path }), expected, `bytes ${contents[index]}`)
          }
        })
      ),
    { fastCheck: { numRuns: 20 } }
  )

  it.scoped("counts a character that lies across two pieces of a large file once", () =>
    inWorkspace(({ ok }) =>
      Effect.gen(function*() {
        // 65,535 bytes come before the two bytes of "é".
        yield* ok("write", { path: "f", content: `${"ab ".repeat(21_845)}é x` })
        assert.strictEqual(yield* ok("count_words", { path: "f" }), 21_847)
      })
    ))

  it.scoped("answers wrong arguments with a failure that the model can act on", () =>
    inWorkspace(({ fails }) =>
      Effect.gen(function*() {
        assert.include(yield* fails("read", {}), "Failed to decode tool call parameters")
        assert.include(yield* fails("read", { path: "f", limit: 0 }), "Failed to decode tool call parameters")
      })
    ))
})
