/**
 * Keeps processes that share a state folder from working on one session at once, with a file per held session.
 *
 * A lock names its holder: process id, start time of the process, host, and since when. It is stale when that process
 * is gone or its id belongs to another process by now; a living holder is never robbed, however slow, and neither is one
 * on another host, of which nothing can be known.
 *
 * @since 0.1.0
 */
import { SessionWriteLock } from "@switchyard/core/SessionWriteLock"
import { SessionBusy, StoreUnavailable } from "@switchyard/protocol/Errors"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as fs from "node:fs"
import * as lockFiles from "./internal/lockFiles.js"

/**
 * Lock files cannot be made in this folder. `reason` is what the system said.
 *
 * @since 0.1.0
 * @category errors
 */
export class LockFolderUnusable extends Schema.TaggedError<LockFolderUnusable>()("LockFolderUnusable", {
  path: Schema.String,
  reason: Schema.String,
  cause: Schema.optional(Schema.Defect)
}) {
  override get message() {
    return `Lock files cannot be kept in ${this.path}: ${this.reason}; check that the folder exists and that this user ` +
      "may write there"
  }
}

/**
 * Locks as files in a folder, which is made if it does not exist. Locks that dead processes left there are removed.
 *
 * A session that a living process has is refused at once with `SessionBusy`, naming the holder; a second acquire within
 * one process is refused as well. Since when a session is held is told to the second. If the folder becomes unusable
 * later, acquiring fails with `StoreUnavailable`.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerFile = (options: {
  readonly directory: string
}): Layer.Layer<SessionWriteLock, LockFolderUnusable> =>
  Layer.scoped(
    SessionWriteLock,
    Effect.gen(function*() {
      const clock = yield* Effect.clock
      const locks = yield* Effect.acquireRelease(
        Effect.try({
          try: () => {
            fs.mkdirSync(options.directory, { recursive: true, mode: 0o700 })
            const locks = lockFiles.make(fs.realpathSync(options.directory))
            locks.sweep(clock.unsafeCurrentTimeMillis())
            return locks
          },
          catch: (cause) => unusable(options.directory, cause)
        }),
        (locks) => Effect.sync(locks.close)
      )
      return {
        acquire: (session) =>
          Effect.asVoid(Effect.acquireRelease(
            Effect.clockWith((clock) => {
              const taking = Effect.try({
                try: () => locks.take(locks.fileOf(session), clock.unsafeCurrentTimeMillis()),
                catch: (cause) => new StoreUnavailable({ reason: unusable(options.directory, cause).message })
              })
              return Effect.flatMap(taking, (result) =>
                result._tag === "Taken" ? Effect.succeed(result) : new SessionBusy({
                  sessionKey: session,
                  reason: { _tag: "Owner", pid: result.pid, host: result.host, since: result.since }
                }))
            }),
            (taken) =>
              Effect.catchAll(
                Effect.try({ try: () => locks.release(taken), catch: (cause) => unusable(options.directory, cause) }),
                // the lock goes with this process at the latest, and what was done under it is done
                (error) => Effect.logWarning(error.message)
              )
          ))
      }
    })
  )

const unusable = (directory: string, cause: unknown) =>
  new LockFolderUnusable({ path: directory, reason: cause instanceof Error ? cause.message : String(cause), cause })
