import * as Command from "@effect/platform/Command"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Workspace from "../src/Workspace.js"
import { fileName, inWorkspace } from "./support.js"

const refusal = (workspace: Workspace.Workspace["Type"], path: string) =>
  Effect.gen(function*() {
    const reading = yield* Effect.flip(workspace.resolve(path))
    const writing = yield* Effect.flip(workspace.resolveForWrite(path))
    assert.strictEqual(reading._tag, "PathRefused")
    assert.strictEqual(writing.reason, reading.reason)
    return reading
  })

describe("Workspace", () => {
  it.scoped("creates its folder and resolves relative and absolute paths inside it", () =>
    inWorkspace(({ fs, paths, root, workspace }) =>
      Effect.gen(function*() {
        assert.strictEqual((yield* fs.stat(root)).type, "Directory")
        assert.strictEqual(yield* workspace.resolve("."), root)
        assert.strictEqual(yield* workspace.resolve("a/../b.txt"), paths.join(root, "b.txt"))
        assert.strictEqual(yield* workspace.resolve(paths.join(root, "b.txt")), paths.join(root, "b.txt"))
        assert.strictEqual(yield* workspace.resolveForWrite("new/deep/c.txt"), paths.join(root, "new/deep/c.txt"))
      })
    ))

  it.scoped("accepts absolute paths spelled with the link through which its own root was given", () =>
    inWorkspace(({ fs, outside, paths, root }) =>
      Effect.gen(function*() {
        const link = paths.join(outside, "link")
        yield* fs.symlink(root, link)
        const workspace = yield* Workspace.make({ root: link })
        assert.strictEqual(workspace.root, root)
        assert.strictEqual(yield* workspace.resolve(paths.join(link, "a.txt")), paths.join(root, "a.txt"))
      })
    ))

  it.scoped("refuses .. and absolute paths that lead out, whether or not something is there", () =>
    inWorkspace(({ outside, root, workspace }) =>
      Effect.gen(function*() {
        for (
          const path of [
            "..",
            "../",
            "../outside/secret.txt",
            "a/../../outside",
            "../nothing",
            outside,
            "/",
            "/etc/passwd",
            `${root}x`,
            `${root}/../outside`
          ]
        ) {
          const error = yield* refusal(workspace, path)
          assert.strictEqual(error.reason, "outside", path)
          assert.include(error.message, "leads out of the workspace folder")
          assert.include(error.message, "inside the workspace folder")
        }
      })
    ))

  it.scoped("refuses links to a file or folder outside, also in the middle of a path and through a second link", () =>
    inWorkspace(({ fs, outside, paths, root, workspace }) =>
      Effect.gen(function*() {
        const at = (name: string) => paths.join(root, name)
        yield* fs.symlink(outside, at("folder"))
        yield* fs.symlink(paths.join(outside, "secret.txt"), at("file"))
        yield* fs.symlink("folder", at("second"))
        for (const path of ["folder", "file", "second", "folder/secret.txt", "folder/new.txt", "second/new/deep.txt"]) {
          assert.strictEqual((yield* refusal(workspace, path)).reason, "link-outside", path)
        }
      })
    ))

  it.scoped("refuses a dangling link and what is behind it, inside and outside", () =>
    inWorkspace(({ fs, outside, paths, root, workspace }) =>
      Effect.gen(function*() {
        yield* fs.symlink(paths.join(outside, "nothing"), paths.join(root, "out"))
        yield* fs.symlink("nothing", paths.join(root, "in"))
        for (const path of ["out", "in", "out/x", "in/x"]) {
          assert.strictEqual((yield* refusal(workspace, path)).reason, "dangling-link", path)
        }
      })
    ))

  it.scoped("follows links that stay inside", () =>
    inWorkspace(({ fs, paths, root, workspace }) =>
      Effect.gen(function*() {
        yield* fs.makeDirectory(paths.join(root, "real"))
        yield* fs.symlink("real", paths.join(root, "link"))
        assert.strictEqual(yield* workspace.resolveForWrite("link/a.txt"), paths.join(root, "real/a.txt"))
      })
    ))

  it.scoped("refuses a loop of links and a file used as a folder", () =>
    inWorkspace(({ fs, paths, root, workspace }) =>
      Effect.gen(function*() {
        yield* fs.symlink("b", paths.join(root, "a"))
        yield* fs.symlink("a", paths.join(root, "b"))
        yield* fs.writeFileString(paths.join(root, "file"), "")
        for (const path of ["a", "file/x"]) {
          assert.strictEqual((yield* refusal(workspace, path)).reason, "inside-file", path)
        }
      })
    ))

  it.scoped("refuses an empty path, a NUL, a path that is too long, a pipe, and a folder as the file to write", () =>
    inWorkspace(({ paths, root, workspace }) =>
      Effect.gen(function*() {
        yield* Command.exitCode(Command.make("mkfifo", paths.join(root, "pipe")))
        const reasons = yield* Effect.forEach(
          ["", "a\0b", "x".repeat(5000), "pipe"],
          (path) => Effect.map(refusal(workspace, path), ({ reason }) => reason)
        )
        assert.deepStrictEqual(reasons, ["empty", "nul", "unreachable", "not-regular"])
        assert.strictEqual((yield* Effect.flip(workspace.resolveForWrite("."))).reason, "folder")
      })
    ))

  it.scoped("fails to open over a file", () =>
    inWorkspace(({ outside, paths }) =>
      Effect.gen(function*() {
        const error = yield* Effect.flip(Workspace.make({ root: paths.join(outside, "secret.txt") }))
        assert.strictEqual(error._tag, "SystemError")
      })
    ))

  it.scoped.prop(
    "gives a path inside for any text, or refuses it",
    {
      parts: FastCheck.array(
        FastCheck.oneof(fileName, FastCheck.constantFrom("..", ".", "", "~", "\0", "\\..", "out", "in")),
        { maxLength: 6 }
      )
    },
    ({ parts }) =>
      inWorkspace(({ fs, outside, paths, root, workspace }) =>
        Effect.gen(function*() {
          yield* fs.symlink(outside, paths.join(root, "out"))
          yield* fs.symlink(".", paths.join(root, "in"))
          const resolved = yield* Effect.either(workspace.resolve(parts.join("/")))
          if (resolved._tag === "Left") assert.strictEqual(resolved.left._tag, "PathRefused")
          else assert.isTrue(resolved.right === root || resolved.right.startsWith(`${root}/`), resolved.right)
        })
      )
  )
})
