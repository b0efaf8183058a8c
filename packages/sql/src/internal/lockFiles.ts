import * as crypto from "node:crypto"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { isAlive, startTimeOf } from "./processIdentity.js"

export interface Holder {
  readonly pid: number
  readonly startTime: string
  readonly host: string
  readonly since: number
}

/** Which file a name stood for. The number alone is used again for another file some day. */
interface Identity {
  readonly inode: number
  readonly modifiedAt: number
}

export type Take =
  | ({ readonly _tag: "Taken"; readonly file: string } & Identity)
  | ({ readonly _tag: "Held" } & Holder)

/** A file that no holder wrote whole is left alone for this long, in milliseconds. */
const malformedAfterMs = 5_000

/** How long locks share one owner file, in milliseconds, and so how exactly they tell since when they are held. */
const ownerForMs = 1_000

/** A name that is taken, and cannot be read either, may be a link to nowhere: it is busy, and no reason to go on for ever. */
const maxTries = 100

/**
 * Locks in a folder. A lock is a hard link to a file that names its owner, so that it appears whole and at once, or not
 * at all; locks that are taken within a second share that file, since making one costs more than all the rest.
 *
 * The calls are synchronous: they take a few microseconds each, and a thread pool does not.
 */
export const make = (directory: string) => {
  const host = os.hostname()
  const startTime = startTimeOf(process.pid) ?? ""
  let owner: ({ readonly file: string; readonly since: number } & Identity) | undefined

  const nameOf = (text: string) =>
    path.join(directory, `${crypto.createHash("sha256").update(text).digest("hex")}.lock`)

  const ownerAt = (now: number) => {
    if (owner !== undefined && now >= owner.since && now < owner.since + ownerForMs) return owner
    close()
    // No two owner files have the same text: a stale lock is known by it.
    const nonce = crypto.randomUUID()
    const file = path.join(directory, `${nonce}.owner`)
    const text = JSON.stringify({ pid: process.pid, startTime, host, since: now, nonce })
    fs.writeFileSync(file, text, { flag: "wx", mode: 0o600 })
    return owner = { file, since: now, ...identityOf(fs.lstatSync(file)) }
  }

  /** Removes the name of the owner file; the locks that are held keep what it says. */
  const close = () => {
    if (owner !== undefined) fs.rmSync(owner.file, { force: true })
    owner = undefined
  }

  const isStale = (lock: Existing, now: number): boolean => {
    const { holder } = lock
    if (holder === undefined) return now - lock.modifiedAt > malformedAfterMs
    if (holder.host !== host) return false
    if (holder.pid === process.pid) return holder.startTime !== startTime
    if (!isAlive(holder.pid)) return true
    const since = startTimeOf(holder.pid)
    return since !== undefined && holder.startTime !== "" && since !== holder.startTime
  }

  const held = (holder: Holder | undefined, since: number): Take => ({
    _tag: "Held",
    ...holder ?? { pid: 0, startTime: "", host, since: Math.trunc(since) }
  })

  const take = (file: string, now: number): Take => {
    for (let tries = 0; tries < maxTries; tries++) {
      const { inode, modifiedAt, file: own } = ownerAt(now)
      const code = link(own, file)
      if (code === undefined) return { _tag: "Taken", file, inode, modifiedAt }
      if (code !== "EEXIST") {
        // the file is gone, or has as many names as a file can have
        close()
        continue
      }
      const lock = read(file)
      if (lock === undefined) continue
      if (!isStale(lock, now)) return held(lock.holder, lock.modifiedAt)
      const busy = clear(file, lock, now)
      if (busy !== undefined) return busy
    }
    return held(undefined, now)
  }

  /**
   * Removes a stale lock, unless it is gone. Two takers that judge the same lock stale must not both remove "it": the
   * slower one would remove the lock that the faster one has taken by then. So only who holds the lock on *this* stale
   * lock, named by its text, may remove it, after reading it again. A taker that dies meanwhile leaves a stale lock
   * on the stale lock, which is cleared in the same way.
   */
  const clear = (file: string, lock: Existing, now: number): Take | undefined => {
    const name = ({ inode, modifiedAt, text }: Existing) => `${file}\n${text}\n${inode}\n${modifiedAt}`
    const claim = take(nameOf(name(lock)), now)
    if (claim._tag === "Held") return claim
    try {
      const there = read(file)
      if (there !== undefined && name(there) === name(lock)) fs.rmSync(file, { force: true })
    } finally {
      release(claim)
    }
    return undefined
  }

  const release = (taken: { readonly file: string } & Identity) => {
    const stat = fs.lstatSync(taken.file, { throwIfNoEntry: false })
    if (stat?.ino === taken.inode && stat.mtimeMs === taken.modifiedAt) fs.unlinkSync(taken.file)
  }

  return {
    fileOf: nameOf,
    take,
    release,
    close,
    /** Removes what dead processes left, after a try whether the folder can hold locks at all. */
    sweep: (now: number) => {
      const probe = take(nameOf(crypto.randomUUID()), now)
      if (probe._tag === "Taken") release(probe)
      for (const name of fs.readdirSync(directory)) {
        const file = path.join(directory, name)
        const existing = /\.(lock|owner)$/.test(name) ? read(file) : undefined
        if (existing === undefined || !isStale(existing, now)) continue
        if (name.endsWith(".lock")) clear(file, existing, now)
        else fs.rmSync(file, { force: true })
      }
    }
  }
}

interface Existing extends Identity {
  readonly text: string
  readonly holder: Holder | undefined
}

const identityOf = (stat: fs.Stats): Identity => ({ inode: stat.ino, modifiedAt: stat.mtimeMs })

/** What a lock file says, or undefined if there is none. */
const read = (file: string): Existing | undefined => {
  try {
    const text = fs.readFileSync(file, "utf8")
    return { text, holder: parse(text), ...identityOf(fs.lstatSync(file)) }
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined
    throw error
  }
}

const parse = (text: string): Holder | undefined => {
  try {
    const value = JSON.parse(text) as Holder | null
    return value !== null && Number.isInteger(value.pid) && value.pid > 0 && typeof value.startTime === "string" &&
        typeof value.host === "string" && Number.isFinite(value.since)
      ? { pid: value.pid, startTime: value.startTime, host: value.host, since: value.since }
      : undefined
  } catch {
    return undefined
  }
}

const codeOf = (error: unknown) => (error as NodeJS.ErrnoException).code

/** Undefined if the name is new and now stands for the file, else why not: `EEXIST`, `ENOENT` or `EMLINK`. */
const link = (from: string, to: string): "EEXIST" | "ENOENT" | "EMLINK" | undefined => {
  try {
    fs.linkSync(from, to)
    return undefined
  } catch (error) {
    const code = codeOf(error)
    if (code === "EEXIST" || code === "ENOENT" || code === "EMLINK") return code
    throw error
  }
}
