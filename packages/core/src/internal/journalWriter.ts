/** @internal */
import type { SessionKey } from "@switchyard/protocol/Ids"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Journal from "../Journal.js"
import { type AppendError, StoreFailure, type TranscriptStore } from "../TranscriptStore.js"
import type { Appender } from "./appender.js"

const maxEntriesPerAppend = 512
const retryDelaysMs = [500, 1_000, 2_000, 4_000, 8_000, 10_000]

/**
 * How writing goes on: what was started in the background has ended.
 *
 * @internal
 */
export type Written =
  | {
    readonly _tag: "Appended"
    readonly rows: ReadonlyArray<Journal.Row>
    readonly exit: Exit.Exit<void, AppendError>
  }
  | {
    readonly _tag: "Looked"
    readonly rows: ReadonlyArray<Journal.Row>
    readonly found: Exit.Exit<ReadonlyArray<Journal.Row>, StoreFailure>
    readonly error: AppendError
  }
  | { readonly _tag: "Retry" }

/**
 * Writes the decisions of one activation into its journal, one append at a time, until each is there or refused.
 *
 * @internal
 */
export class JournalWriter {
  private attempts = 0
  private waiting = false

  constructor(
    private readonly options: {
      readonly key: SessionKey
      readonly activation: string
      readonly generation: number
      readonly store: TranscriptStore["Type"]
      readonly appender: Appender
      /** The monotonic clock, in milliseconds. */
      readonly mono: () => number
      /** Runs an effect beside the actor; `leave` brings its result back to the actor's fiber. */
      readonly background: (effect: Effect.Effect<void>) => void
      readonly leave: (written: Written) => void
    },
    public seq: number
  ) {}

  /** Starts the next append, if there is something to write and nothing in flight. */
  flush(): void {
    if (this.waiting) return
    const { activation, appender, generation, key, leave, store } = this.options
    const parts = appender.next(maxEntriesPerAppend)
    if (parts.length === 0) return
    const rows = Journal.toRows({
      session: key,
      activation,
      generation,
      follows: this.seq,
      entries: parts.flatMap((part) => part.step.entries)
    })
    this.options.background(Effect.flatMap(
      Effect.exit(store.append({ session: key, follows: this.seq, rows })),
      (exit) => Effect.sync(() => leave({ _tag: "Appended", rows, exit }))
    ))
  }

  /** Goes on. `superseded` means that the session has another owner: nothing may be written any more. */
  goOn(written: Written): "goesOn" | "superseded" {
    switch (written._tag) {
      case "Appended":
        if (Exit.isSuccess(written.exit)) return this.appended(written.rows)
        return this.notAppended(written.rows, errorOf(written.exit.cause))
      case "Looked":
        return this.looked(written.rows, written.found, written.error)
      case "Retry":
        this.waiting = false
        return "goesOn"
    }
  }

  private appended(rows: ReadonlyArray<Journal.Row>): "goesOn" {
    this.seq += rows.length
    this.attempts = 0
    this.options.appender.succeeded()
    return "goesOn"
  }

  private notAppended(rows: ReadonlyArray<Journal.Row>, error: AppendError): "goesOn" {
    const { appender, background, key, leave, store } = this.options
    if (error._tag === "AppendConflict" || (error._tag === "StoreFailure" && error.committed === "unknown")) {
      // Only the journal knows whether it was written after all.
      this.waiting = true
      background(Effect.flatMap(
        Effect.exit(store.read(key, this.seq)),
        (found) => Effect.sync(() => leave({ _tag: "Looked", rows, found, error }))
      ))
      return "goesOn"
    }
    if (appender.failed(error, this.options.mono()) === "again") {
      this.waiting = true
      const delay = this.retryDelay()
      background(
        Effect.logWarning(`${error.message}; trying again in ${delay} ms`).pipe(
          Effect.zipRight(Effect.sleep(delay)),
          Effect.zipRight(Effect.sync(() => leave({ _tag: "Retry" })))
        )
      )
    }
    return "goesOn"
  }

  private looked(
    rows: ReadonlyArray<Journal.Row>,
    found: Exit.Exit<ReadonlyArray<Journal.Row>, StoreFailure>,
    error: AppendError
  ): "goesOn" | "superseded" {
    const { background, leave } = this.options
    if (Exit.isFailure(found)) {
      background(Effect.zipRight(
        Effect.sleep(this.retryDelay()),
        Effect.sync(() => leave({ _tag: "Appended", rows, exit: Exit.fail(error) }))
      ))
      return "goesOn"
    }
    this.waiting = false
    const own = found.value.length === rows.length && found.value.every((row, index) => isSame(row, rows[index]!))
    if (own) return this.appended(rows)
    if (found.value.length === 0 && error._tag === "StoreFailure") {
      return this.notAppended(rows, new StoreFailure({ reason: error.reason, committed: "no", cause: error.cause }))
    }
    return "superseded"
  }

  private retryDelay(): number {
    const delay = retryDelaysMs[Math.min(this.attempts, retryDelaysMs.length - 1)]!
    this.attempts += 1
    return delay
  }
}

const isSame = (a: Journal.Row, b: Journal.Row): boolean =>
  a.activation === b.activation && a.seq === b.seq && a.kind === b.kind && a.run === b.run && a.payload === b.payload

const errorOf = (cause: Cause.Cause<AppendError>): AppendError => {
  const failure = Cause.failureOption(cause)
  return failure._tag === "Some"
    ? failure.value
    : new StoreFailure({ reason: "it stopped unexpectedly", committed: "unknown", cause: Cause.squash(cause) })
}
