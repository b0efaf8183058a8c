import { assert, describe, it } from "@effect/vitest"
import { SessionWriteLock } from "@switchyard/core/SessionWriteLock"
import type { SessionBusy, StoreUnavailable } from "@switchyard/protocol/Errors"
import type { SessionKey } from "@switchyard/protocol/Ids"
import * as FileWriteLock from "@switchyard/sql/FileWriteLock"
import { Context, Effect, Layer, TestClock } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import ts from "typescript"
import { startTimeOf } from "../src/internal/processIdentity.js"

const session = "agent:main:\u00fc/../main" as SessionKey

const folder = Effect.acquireRelease(
  Effect.sync(() => fs.mkdtempSync(path.join(os.tmpdir(), "switchyard-lock-"))),
  (folder) => Effect.sync(() => fs.rmSync(folder, { recursive: true, force: true }))
)

/** A lock service of its own on a folder, as another process would have. */
const open = (directory: string) =>
  Effect.map(
    Layer.build(Layer.fresh(FileWriteLock.layerFile({ directory }))),
    (context) => Context.get(context, SessionWriteLock)
  )

const locksIn = (directory: string) => fs.readdirSync(directory).filter((name) => name.endsWith(".lock"))

/** The reason why a lock was not to be had: a holder. */
const refusal = <A, R>(acquire: Effect.Effect<A, SessionBusy | StoreUnavailable, R>) =>
  Effect.map(Effect.flip(acquire), (error) => {
    assert(error._tag === "SessionBusy")
    return error
  })

/** Replaces a file: the name then stands for another one, whose text other names do not share. */
const replace = (file: string, text: string) => {
  fs.unlinkSync(file)
  fs.writeFileSync(file, text)
}

/** The one lock file of a folder. */
const lockFile = (directory: string) => {
  const names = locksIn(directory)
  assert.strictEqual(names.length, 1)
  return path.join(directory, names[0]!)
}

const fixture = (name: string) => fileURLToPath(new URL(`./fixtures/${name}`, import.meta.url))

const ended = (child: ChildProcess) =>
  Effect.async<void>((resume) => {
    if (child.exitCode !== null || child.signalCode !== null) return resume(Effect.void)
    child.once("close", () => resume(Effect.void))
  })

/** A process that lives until it is killed, at the latest when the scope closes. */
const living = Effect.acquireRelease(
  Effect.async<ChildProcess & { readonly pid: number }>((resume) => {
    const child = spawn(process.execPath, [fixture("holdLock.mjs")], { stdio: ["pipe", "pipe", "inherit"] })
    child.stdout.once("data", () => resume(Effect.succeed(child as never)))
  }),
  (child) =>
    Effect.suspend(() => {
      child.kill("SIGKILL")
      return ended(child)
    })
)

/** Rewrites the lock that is held as if another process held it. */
const pretend = (directory: string, holder: Record<string, unknown>) => {
  const file = lockFile(directory)
  const theirs = { ...JSON.parse(fs.readFileSync(file, "utf8")), ...holder }
  replace(file, JSON.stringify(theirs))
  return file
}

/** A folder in which another process holds the session's lock. */
const heldBy = (holder: Record<string, unknown>) =>
  Effect.gen(function*() {
    const directory = yield* folder
    const lock = yield* open(directory)
    yield* Effect.scoped(
      Effect.zipRight(lock.acquire(session), Effect.sync(() => pretend(directory, { nonce: "other", ...holder })))
    )
    return { directory, lock }
  })

describe("FileWriteLock", () => {
  it.scoped("refuses a second acquire at once, naming the holder, until the first is released (9.2)", () =>
    Effect.gen(function*() {
      const directory = yield* folder
      const lock = yield* open(directory)
      const other = yield* open(directory)
      yield* TestClock.setTime(1_234)
      yield* Effect.scoped(Effect.gen(function*() {
        yield* lock.acquire(session)
        yield* TestClock.setTime(99_999)
        for (const taker of [lock, other]) {
          const error = yield* refusal(taker.acquire(session))
          assert.deepStrictEqual(error.reason, { _tag: "Owner", pid: process.pid, host: os.hostname(), since: 1_234 })
        }
        yield* other.acquire("another" as SessionKey)
      }))
      yield* other.acquire(session)
    }))

  it.scoped("names its file by a hash, never by the session key, and removes it on release (9.5)", () =>
    Effect.gen(function*() {
      const directory = yield* folder
      const lock = yield* open(directory)
      yield* Effect.scoped(Effect.gen(function*() {
        yield* lock.acquire(session)
        assert.match(path.basename(lockFile(directory)), /^[0-9a-f]{64}\.lock$/)
        const text = fs.readFileSync(lockFile(directory), "utf8")
        assert.notInclude(text, "agent:main")
        assert.deepInclude(JSON.parse(text), { pid: process.pid, host: os.hostname(), since: 0 })
      }))
      assert.deepStrictEqual(locksIn(directory), [])
    }))

  it.scoped("never robs a living process, however long it holds (9.4)", () =>
    Effect.gen(function*() {
      const child = yield* living
      const { directory, lock } = yield* heldBy({ pid: child.pid, startTime: startTimeOf(child.pid), since: 17 })
      yield* TestClock.setTime(8.64e14)
      const error = yield* refusal(lock.acquire(session))
      assert.deepStrictEqual(error.reason, { _tag: "Owner", pid: child.pid, host: os.hostname(), since: 17 })
      // nor does a process that starts
      yield* Effect.flip(Effect.flatMap(open(directory), (lock) => lock.acquire(session)))
    }))

  it.scoped("takes the lock of a process that was killed (9.4)", () =>
    Effect.gen(function*() {
      const child = yield* living
      const { directory, lock } = yield* heldBy({ pid: child.pid, startTime: startTimeOf(child.pid) })
      yield* Effect.flip(lock.acquire(session))
      child.kill("SIGKILL")
      yield* ended(child)
      yield* lock.acquire(session)
      assert.strictEqual(JSON.parse(fs.readFileSync(lockFile(directory), "utf8")).pid, process.pid)
      yield* Effect.flip(lock.acquire(session))
    }))

  it.scoped("takes the lock of a process whose id belongs to another by now (9.4)", () =>
    Effect.gen(function*() {
      const child = yield* living
      const { lock } = yield* heldBy({ pid: child.pid, startTime: "long ago" })
      yield* lock.acquire(session)
      const own = yield* heldBy({ pid: process.pid, startTime: "long ago" })
      yield* own.lock.acquire(session)
    }))

  it.scoped("never judges the holder on another host (9.4)", () =>
    Effect.gen(function*() {
      const child = yield* living
      const { lock } = yield* heldBy({ pid: child.pid, startTime: startTimeOf(child.pid), host: "elsewhere", since: 5 })
      child.kill("SIGKILL")
      yield* ended(child)
      yield* TestClock.setTime(8.64e14)
      const error = yield* refusal(lock.acquire(session))
      assert.deepStrictEqual(error.reason, { _tag: "Owner", pid: child.pid, host: "elsewhere", since: 5 })
    }))

  it.scoped("leaves a malformed lock alone for 5 s, then takes it (9.4)", () =>
    Effect.gen(function*() {
      for (const text of ["", "{", "null", "[]", "{\"pid\":-1}", "{\"pid\":1,\"startTime\":1}"]) {
        const { directory, lock } = yield* heldBy({})
        const file = lockFile(directory)
        replace(file, text)
        const modified = fs.statSync(file).mtimeMs
        yield* TestClock.setTime(Math.trunc(modified) + 5_000)
        assert.strictEqual((yield* Effect.flip(lock.acquire(session)))._tag, "SessionBusy")
        yield* TestClock.setTime(Math.trunc(modified) + 5_002)
        yield* Effect.scoped(lock.acquire(session))
      }
    }))

  it.scoped("does not remove a lock that is not its own", () =>
    Effect.gen(function*() {
      const { directory } = yield* heldBy({ pid: 1, host: "elsewhere" })
      assert.strictEqual(JSON.parse(fs.readFileSync(lockFile(directory), "utf8")).host, "elsewhere")
    }))

  it.scoped("leaves nothing in the folder when it is closed (9.5)", () =>
    Effect.gen(function*() {
      const directory = yield* folder
      yield* Effect.scoped(Effect.gen(function*() {
        const lock = yield* open(directory)
        for (const now of [0, 500, 5_000]) {
          yield* TestClock.setTime(now)
          yield* lock.acquire(`session ${now}` as SessionKey)
        }
        assert.strictEqual(locksIn(directory).length, 3)
      }))
      assert.deepStrictEqual(fs.readdirSync(directory), [])
    }))

  it.scoped("takes locks although its owner file was removed by somebody", () =>
    Effect.gen(function*() {
      const directory = yield* folder
      const lock = yield* open(directory)
      for (const name of fs.readdirSync(directory)) fs.unlinkSync(path.join(directory, name))
      yield* lock.acquire(session)
      yield* Effect.flip(lock.acquire(session))
    }))

  it.scoped("finds a lock behind a symbolic link to the folder, and releases it after the link is gone", () =>
    Effect.gen(function*() {
      const directory = yield* folder
      const link = path.join(yield* folder, "state")
      fs.symlinkSync(directory, link)
      const [direct, linked] = [yield* open(directory), yield* open(link)]
      yield* Effect.scoped(Effect.gen(function*() {
        yield* linked.acquire(session)
        yield* Effect.flip(direct.acquire(session))
        fs.unlinkSync(link)
      }))
      yield* direct.acquire(session)
    }))

  it.scoped("is busy, and comes back, where the name is a link to nowhere", () =>
    Effect.gen(function*() {
      const { directory, lock } = yield* heldBy({})
      const file = lockFile(directory)
      fs.unlinkSync(file)
      fs.symlinkSync(path.join(directory, "nowhere"), file)
      assert.strictEqual((yield* Effect.flip(lock.acquire(session)))._tag, "SessionBusy")
    }))

  it.scoped("removes what dead processes left when it starts, and nothing of living ones (9.5)", () =>
    Effect.gen(function*() {
      const child = yield* living
      const dead = yield* living
      const directory = yield* folder
      const lock = yield* open(directory)
      const leave = (key: string, holder: ChildProcess & { readonly pid: number }) => {
        const before = new Set(locksIn(directory))
        const startTime = startTimeOf(holder.pid)
        return Effect.scoped(Effect.map(lock.acquire(key as SessionKey), () => {
          const file = path.join(directory, locksIn(directory).find((name) => !before.has(name))!)
          const text = JSON.parse(fs.readFileSync(file, "utf8"))
          replace(file, JSON.stringify({ ...text, pid: holder.pid, startTime, nonce: "other" }))
        }))
      }
      yield* leave("a", dead)
      yield* leave("b", child)
      yield* leave("c", dead)
      fs.writeFileSync(path.join(directory, "dead.owner"), "half")
      dead.kill("SIGKILL")
      yield* ended(dead)
      yield* TestClock.setTime(8.64e14)
      yield* Effect.scoped(open(directory))
      assert.strictEqual(locksIn(directory).length, 1)
      assert.notInclude(fs.readdirSync(directory), "dead.owner")
      assert.strictEqual(JSON.parse(fs.readFileSync(lockFile(directory), "utf8")).pid, child.pid)
    }))

  it.scoped("says in plain words that the folder cannot hold locks", () =>
    Effect.gen(function*() {
      const file = path.join(yield* folder, "file")
      fs.writeFileSync(file, "")
      for (const directory of [file, path.join(file, "below")]) {
        const error = yield* Effect.flip(open(directory))
        assert.strictEqual(error._tag, "LockFolderUnusable")
        assert.include(error.message, `Lock files cannot be kept in ${directory}: `)
      }
    }))

  it.scoped("says that the store is unavailable when the folder is lost, and lets go of what it held", () =>
    Effect.gen(function*() {
      const directory = path.join(yield* folder, "locks")
      const lock = yield* open(directory)
      yield* Effect.scoped(Effect.gen(function*() {
        yield* lock.acquire(session)
        fs.rmSync(directory, { recursive: true })
        const error = yield* Effect.flip(lock.acquire("another" as SessionKey))
        assert(error._tag === "StoreUnavailable")
        assert.include(error.reason, directory)
      }))
    }))

  it.scoped("lets one of many processes take a stale lock, and never two at once (9.4)", () =>
    Effect.gen(function*() {
      const directory = yield* folder
      const build = yield* folder
      // The processes run the module itself, compiled: it needs nothing but Node.
      for (const name of ["lockFiles", "processIdentity"]) {
        const source = fs.readFileSync(new URL(`../src/internal/${name}.ts`, import.meta.url), "utf8")
        const options = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 }
        fs.writeFileSync(
          path.join(build, `${name}.js`),
          ts.transpileModule(source, { compilerOptions: options }).outputText
        )
      }
      fs.writeFileSync(path.join(build, "package.json"), "{\"type\":\"module\"}")
      const results = yield* Effect.forEach(
        [0, 1, 2],
        () => report([fixture("contend.mjs"), path.join(build, "lockFiles.js"), directory, "150"]),
        { concurrency: "unbounded" }
      )
      for (const result of results) assert.deepStrictEqual(result, { taken: 150, overlaps: 0 })
    }))
})

/** Runs a script to its end and reads the JSON that it prints. */
const report = (args: ReadonlyArray<string>) =>
  Effect.async<unknown>((resume) => {
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] })
    let said = ""
    child.stdout.on("data", (chunk) => {
      said += String(chunk)
    })
    child.on("close", () => resume(Effect.sync(() => JSON.parse(said))))
    return Effect.sync(() => child.kill("SIGKILL"))
  })
