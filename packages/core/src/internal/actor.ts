/** @internal */
import { SessionBusy, StoreUnavailable } from "@switchyard/protocol/Errors"
import type { RunId, SessionId, SessionKey } from "@switchyard/protocol/Ids"
import * as Cause from "effect/Cause"
import type { Clock } from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as FiberId from "effect/FiberId"
import * as Scope from "effect/Scope"
import type { EventHub } from "../EventHub.js"
import * as Journal from "../Journal.js"
import * as QueuePolicy from "../QueuePolicy.js"
import type { Answered, SessionRef } from "../SessionRef.js"
import { ActorGone, SessionSuperseded } from "../SessionRef.js"
import * as SessionState from "../SessionState.js"
import type { SessionWriteLock } from "../SessionWriteLock.js"
import * as Transcript from "../Transcript.js"
import { type AppendError, StoreFailure, type TranscriptStore } from "../TranscriptStore.js"
import { Announcer } from "./announcer.js"
import { Appender, type Asker, type Part } from "./appender.js"
import { JournalWriter, type Written } from "./journalWriter.js"
import { queueView } from "./queueView.js"
import { Run, type RunServices } from "./run.js"

/**
 * What an actor needs of its host.
 *
 * @internal
 */
export interface Dependencies {
  readonly services: RunServices
  readonly store: TranscriptStore["Type"]
  readonly hub: EventHub["Type"]
  readonly lock: SessionWriteLock["Type"]
  /** Keeps the actor alive until the scope closes. */
  readonly hold: Effect.Effect<void, never, Scope.Scope>
  /** The actor ended before its time, by a fault or because the session has another owner. */
  readonly died: (reason: "superseded" | "defect") => Effect.Effect<void>
  /** How a run is settled that the journal shows as open. */
  readonly recoverAs: "interrupted" | "failed"
}

const maxTimerMs = 2 ** 31 - 1

type DistributiveOmit<T, K extends PropertyKey> = T extends unknown ? Omit<T, K> : never
type Untimed = DistributiveOmit<QueuePolicy.Event, "now" | "mono">

interface Letter {
  readonly ticket: number
  readonly offer: QueuePolicy.Offer
  readonly asker: Asker
}

type Signal =
  | { readonly _tag: "Abort"; readonly runId: RunId; readonly asker: Asker }
  | {
    readonly _tag: "Stop"
    readonly ticket: number
    readonly clearQueued: boolean
    readonly command: QueuePolicy.Offer | null
    readonly asker: Asker
  }
  | { readonly _tag: "Drain"; readonly asker: Asker }

type Internal =
  | { readonly _tag: "Run"; readonly event: Untimed; readonly asker: Asker }
  | { readonly _tag: "Written"; readonly written: Written }
  | { readonly _tag: "Tick" }

interface RunState {
  readonly token: number
  readonly run: Run
  fiber: Fiber.RuntimeFiber<void> | null
  aborted: boolean
  /** When its time is over, in monotonic milliseconds. */
  deadline: number | null
  /** When it is detached because it did not end. */
  grace: number | null
}

const nobody: Asker = { resolve: () => {}, reject: () => {}, persistent: true }

/**
 * The state of one activation. Touched only by the actor's own fiber, and synchronously by those who leave something at
 * its door and ring.
 *
 * @internal
 */
export class Actor {
  readonly ref: SessionRef
  private readonly key: SessionKey
  private readonly deps: Dependencies
  private readonly clock: Clock
  private readonly appender: Appender
  private readonly transcript = Transcript.make()
  private readonly announcer: Announcer
  private readonly bell = Effect.unsafeMakeLatch(true)
  // What is to be forked once the synchronous part of a turn is over. All of it are children of the actor's fiber.
  private forks: Array<Effect.Effect<void>> = []
  // --- the door ---
  private mailbox: Array<Letter> = []
  private control: Array<Signal> = []
  private internals: Array<Internal> = []
  private tickets = 0
  private closed = false
  // --- the journal ---
  private readonly writer: JournalWriter
  private superseded = false
  // --- the run, time, idleness ---
  private run: RunState | null = null
  private timer: { readonly due: number; fiber: Fiber.RuntimeFiber<void> | null } | null = null
  private held: Scope.CloseableScope | null = null
  private restsSince: number | null = null
  private leaving = false
  private idle: Array<() => void> = []

  constructor(options: {
    readonly key: SessionKey
    readonly deps: Dependencies
    readonly clock: Clock
    readonly activation: string
    readonly freshId: SessionId
    readonly rows: ReadonlyArray<Journal.Row>
  }) {
    this.key = options.key
    this.deps = options.deps
    this.clock = options.clock
    const last = options.rows[options.rows.length - 1]
    const { mono } = this.instant()
    const channel = options.deps.hub.open(options.key, options.activation, options.clock, () => ({
      lastSeq: this.writer.seq,
      activeRunId: this.appender.tentative.active?.runId ?? null,
      waiting: this.appender.tentative.session.rows.map((row) => row.runId)
    }))
    this.announcer = new Announcer(channel)
    let session = SessionState.empty
    for (const row of options.rows) {
      const entry = Journal.fromRow(row)
      session = SessionState.apply(session, entry, mono)
      this.transcript.apply(entry)
      this.announcer.remember(entry)
    }
    this.appender = new Appender(
      options.deps.services.settings,
      QueuePolicy.initial(session, options.freshId),
      // An abort that cannot be refused does not wait for the disk.
      (part) => part.asker.persistent && this.abortRuns(part.step),
      (part) => this.onCommitted(part)
    )
    this.writer = new JournalWriter({
      key: options.key,
      activation: options.activation,
      generation: (last?.generation ?? 0) + 1,
      store: options.deps.store,
      appender: this.appender,
      mono: () => this.instant().mono,
      background: (effect) => this.background(effect),
      leave: (written) => this.leave({ _tag: "Written", written })
    }, last?.seq ?? 0)
    this.ref = this.makeRef(options.freshId)
    this.decide({ _tag: "Recover", outcome: options.deps.recoverAs }, nobody)
  }

  /** The actor's fiber: sleeps until the bell rings, then takes all that is at the door. */
  readonly work: Effect.Effect<void> = Effect.suspend(() => this.loop()).pipe(
    Effect.onExit((exit) =>
      Exit.isFailure(exit) && !Cause.isInterruptedOnly(exit.cause)
        ? Effect.zipRight(
          this.superseded
            ? Effect.logWarning(`Session "${this.key}" has another owner now; this process leaves it`)
            : Effect.logError("A session's actor died by a fault and will be rebuilt from its journal", exit.cause),
          Effect.suspend(() => {
            this.close()
            return Effect.zipRight(this.letGo, this.deps.died(this.superseded ? "superseded" : "defect"))
          })
        )
        : Effect.void
    ),
    Effect.catchAllCause(() => Effect.void) // told to the log and to the host above
  )

  private loop = Effect.fnUntraced(function*(this: Actor) {
    while (true) {
      yield* this.bell.await
      this.bell.unsafeClose()
      this.takeAll()
      if (this.superseded) return yield* new SessionSuperseded({ session: this.key })
      this.writer.flush()
      this.restOrWork()
      this.arm()
      if (this.forks.length > 0) {
        const { forks } = this
        this.forks = []
        for (const fork of forks) yield* fork
      }
      if (this.leaving) {
        yield* this.letGo
        // If nobody else held it, its scope was closed in there, all but for this fiber.
        if (this.closed) return
      } else if (this.held === null) {
        this.held = yield* Scope.make()
        yield* Scope.extend(this.deps.hold, this.held)
      }
    }
  })

  // Notes since when there is nothing to do. An actor that rested long enough lets go of itself, once.
  private restOrWork() {
    if (this.isBusy()) {
      this.restsSince = null
      this.leaving = false
      return
    }
    const { mono } = this.instant()
    this.restsSince ??= mono
    this.leaving = mono - this.restsSince >= this.deps.services.settings.passivateAfterMs
    for (const resume of this.idle.splice(0)) resume()
  }

  private readonly letGo: Effect.Effect<void> = Effect.suspend(() => {
    const { held } = this
    this.held = null
    return held === null ? Effect.void : Scope.close(held, Exit.void)
  })

  /** Answers everyone who still waits. Synchronous, and safe to call twice. */
  close(): void {
    this.closed = true
    const gone = new ActorGone({ session: this.key })
    this.run?.run.detach()
    for (const { asker } of [...this.control.splice(0), ...this.mailbox.splice(0)]) asker.reject(gone)
    for (const internal of this.internals.splice(0)) if (internal._tag === "Run") internal.asker.reject(gone)
    this.appender.abandon(gone)
    for (const resume of this.idle.splice(0)) resume()
    this.announcer.close()
  }

  // --- what others call ---

  private makeRef(freshId: SessionId): SessionRef {
    const { key } = this
    const capacity = this.deps.services.settings.mailboxCapacity
    const ask = <E>(leave: (asker: Asker) => E | undefined, persistent: boolean, answered?: Answered) =>
      Effect.async<QueuePolicy.Reply, E | AppendError | ActorGone>((resume) => {
        if (this.closed) return resume(new ActorGone({ session: key }))
        const refused = leave({
          resolve: (reply) => {
            answered?.done()
            resume(Effect.succeed(reply))
          },
          reject: (error) => {
            answered?.done()
            resume(Effect.fail(error))
          },
          persistent
        })
        if (refused !== undefined) return resume(Effect.fail(refused))
        answered?.asked()
        this.bell.unsafeOpen()
      })
    const appendErrors = <E>(effect: Effect.Effect<QueuePolicy.Reply, E | AppendError>) =>
      Effect.mapError(effect, (error) =>
        error instanceof StoreFailure
          ? new StoreUnavailable({ reason: error.reason, retryAfterMs: 1_000 })
          // A conflict is settled by the actor itself and never told.
          : error as Exclude<typeof error, { readonly _tag: "StoreFailure" | "AppendConflict" }>)
    return {
      sessionId: this.appender.tentative.session.sessionId ?? freshId,
      submit: (offer, answered) =>
        appendErrors(ask(
          (asker) => {
            if (this.mailbox.length + this.appender.submissions >= capacity) {
              return new SessionBusy({ sessionKey: key, reason: { _tag: "Mailbox", capacity }, retryAfterMs: 100 })
            }
            this.mailbox.push({ ticket: this.tickets += 1, offer, asker })
            return undefined
          },
          false,
          answered
        )),
      abort: (runId) =>
        appendErrors(ask<never>((asker) => {
          this.control.push({ _tag: "Abort", runId, asker })
          return undefined
        }, true)),
      stop: ({ answered, clearQueued, command }) =>
        appendErrors(ask<never>(
          (asker) => {
            this.control.push({ _tag: "Stop", ticket: this.tickets += 1, clearQueued, command, asker })
            return undefined
            // a stop that comes as a message has an id, and may be refused like one
          },
          command === null,
          answered
        )),
      queue: Effect.sync(() => queueView(key, this.appender.tentative, this.run?.run.isPrepared ?? false)),
      isRunning: Effect.sync(() => this.appender.tentative.active !== null),
      isUnsettled: (runId) => {
        const { open, rows } = this.appender.committed.session
        return rows.some((row) => row.runId === runId) || open?.runId === runId ||
          (open?.members.includes(runId) ?? false)
      },
      drain: Effect.async<void>((resume) => {
        if (this.closed) return resume(Effect.void)
        this.control.push({ _tag: "Drain", asker: nobody })
        this.idle.push(() => resume(Effect.void))
        this.bell.unsafeOpen()
      })
    }
  }

  private leave(internal: Internal) {
    if (this.closed) return
    this.internals.push(internal)
    this.bell.unsafeOpen()
  }

  private isBusy(): boolean {
    const { active, due, session } = this.appender.tentative
    return !this.appender.isEmpty || active !== null || due !== null ||
      (session.rows.length > 0 && !this.appender.tentative.draining)
  }

  // --- one turn ---

  private takeAll() {
    while (!this.superseded) {
      const signal = this.control.shift()
      if (signal !== undefined) {
        this.onSignal(signal)
        continue
      }
      const internal = this.internals.shift()
      if (internal !== undefined) {
        this.onInternal(internal)
        continue
      }
      const letter = this.mailbox.shift()
      if (letter === undefined) return
      this.decide({ _tag: "Submit", offer: letter.offer, covered: null }, letter.asker)
    }
  }

  private instant(): QueuePolicy.Instant {
    return {
      now: this.clock.unsafeCurrentTimeMillis(),
      mono: Number(this.clock.unsafeCurrentTimeNanos()) / 1e6
    }
  }

  private decide(event: Untimed, asker: Asker) {
    this.appender.offer({ ...event, ...this.instant() } as QueuePolicy.Event, asker)
  }

  private onSignal(signal: Signal) {
    switch (signal._tag) {
      case "Abort": {
        // The message may still stand at the door.
        const letter = this.mailbox.find((letter) => letter.offer.runId === signal.runId)
        let removed = false
        if (letter !== undefined) {
          this.mailbox = this.mailbox.filter((other) => other !== letter)
          this.decide({ _tag: "Submit", offer: letter.offer, covered: "abort" }, {
            ...letter.asker,
            resolve: (reply) => {
              removed = reply._tag === "Accepted"
              letter.asker.resolve(reply)
            }
          })
        }
        return this.decide(
          { _tag: "Abort", runId: signal.runId },
          { ...signal.asker, resolve: (reply) => signal.asker.resolve(removed ? { _tag: "Cancelled" } : reply) }
        )
      }
      case "Stop": {
        if (signal.clearQueued) {
          const covered = this.mailbox.filter((letter) => letter.ticket < signal.ticket)
          this.mailbox = this.mailbox.filter((letter) => letter.ticket > signal.ticket)
          for (const { asker, offer } of covered) this.decide({ _tag: "Submit", offer, covered: "stop" }, asker)
        }
        return this.decide({ _tag: "Stop", clearQueued: signal.clearQueued, command: signal.command }, signal.asker)
      }
      case "Drain":
        return this.decide({ _tag: "Drain" }, signal.asker)
    }
  }

  private onInternal(internal: Internal) {
    switch (internal._tag) {
      case "Run":
        return this.decide(internal.event, internal.asker)
      case "Written":
        if (this.writer.goOn(internal.written) === "superseded") this.superseded = true
        return
      case "Tick":
        return this.tick()
    }
  }

  // --- carrying out what was decided ---

  private background(effect: Effect.Effect<void>) {
    this.forks.push(Effect.asVoid(Effect.fork(effect)))
  }

  private abortRuns(step: QueuePolicy.Step) {
    for (const command of step.commands) {
      if (command._tag !== "AbortRun" || this.run?.token !== command.token || this.run.aborted) continue
      this.run.aborted = true
      this.run.grace = this.instant().mono + this.deps.services.settings.settleGraceMs
      this.run.fiber?.unsafeInterruptAsFork(FiberId.none)
    }
  }

  private onCommitted(part: Part) {
    const { commands, entries, reply, state } = part.step
    for (const entry of entries) {
      this.transcript.apply(entry)
      this.announcer.announce(entry)
      if (entry.kind === "settled" && entry.mode !== "command" && entry.run !== null) {
        this.afterRun(entry.run, entry.payload?.outcome ?? "failed")
      }
    }
    if (this.run !== null && this.run.token !== state.active?.token) this.run = null
    for (const command of commands) if (command._tag === "StartRun") this.start(command)
    this.abortRuns(part.step)
    part.asker.resolve(reply)
  }

  private afterRun(runId: RunId, outcome: Journal.Payloads["settled"]["outcome"]) {
    const { agentEnd } = this.deps.services.hooks
    if (agentEnd === undefined) return
    this.background(agentEnd({ sessionKey: this.key, runId, outcome, messages: this.transcript.view() }))
  }

  private start(command: Extract<QueuePolicy.Command, { readonly _tag: "StartRun" }>) {
    const { token } = command
    const { settings } = this.deps.services
    const own = command.rows[command.rows.length - 1]?.payload
    const deadlineMs = own?.settings.timeoutMs ?? settings.runTimeoutMs
    const ask = (event: Untimed, asker: Asker) => this.leave({ _tag: "Run", event, asker })
    const run = new Run(
      {
        sessionKey: this.key,
        runId: command.runId,
        route: own?.route ?? null,
        model: own?.settings.model ?? null
      },
      this.deps.services,
      {
        boundary: (boundary) =>
          Effect.async((resume) => {
            ask({ _tag: "Boundary", token, boundary }, {
              resolve: (reply) => resume(Effect.succeed(reply)),
              reject: () => resume(Effect.interrupt),
              persistent: true
            })
          }),
        append: (entries) => ask({ _tag: "Append", token, entries }, nobody),
        end: (end) => ask({ _tag: "End", token, end }, nobody),
        preparing: () => {
          if (deadlineMs === 0) return
          state.deadline = this.instant().mono + deadlineMs
          this.bell.unsafeOpen()
        },
        now: () => this.clock.unsafeCurrentTimeMillis()
      },
      this.transcript,
      this.announcer.channel
    )
    const state: RunState = { token, run, fiber: null, aborted: false, deadline: null, grace: null }
    this.run = state
    this.forks.push(Effect.suspend(() => {
      // An abort that came before there was a fiber to interrupt.
      if (this.run !== state) return Effect.void
      if (state.aborted) {
        return Effect.sync(() => ask({ _tag: "End", token, end: run.endNow("interrupted") }, nobody))
      }
      return Effect.map(Effect.fork(run.execute), (fiber) => {
        state.fiber = fiber
      })
    }))
  }

  // --- time ---

  private dues(): ReadonlyArray<number | null> {
    return [
      this.appender.tentative.due,
      this.run?.deadline ?? null,
      this.run?.grace ?? null,
      this.restsSince === null || this.leaving ? null : this.restsSince + this.deps.services.settings.passivateAfterMs
    ]
  }

  // One timer serves all limits. It is only ever brought forward: a limit that has gone finds nothing to do.
  private arm() {
    let due = Infinity
    for (const other of this.dues()) if (other !== null && other < due) due = other
    if (due === Infinity || (this.timer !== null && this.timer.due <= due)) return
    this.timer?.fiber?.unsafeInterruptAsFork(FiberId.none)
    const timer: NonNullable<typeof this.timer> = { due, fiber: null }
    this.timer = timer
    const delay = Math.min(Math.max(0, Math.ceil(due - this.instant().mono)), maxTimerMs)
    this.forks.push(Effect.map(
      Effect.fork(
        Effect.flatMap(Effect.sleep(delay), () =>
          Effect.sync(() => {
            if (this.timer === timer) this.timer = null
            this.leave({ _tag: "Tick" })
          }))
      ),
      (fiber) => {
        timer.fiber = fiber
      }
    ))
  }

  private tick() {
    const { mono } = this.instant()
    const { due } = this.appender.tentative
    if (due !== null && due <= mono) this.decide({ _tag: "Timer" }, nobody)
    const state = this.run
    if (state === null) return
    if (state.deadline !== null && state.deadline <= mono) {
      state.deadline = null
      this.decide({ _tag: "Deadline", token: state.token }, nobody)
    }
    if (state.grace !== null && state.grace <= mono) {
      state.grace = null
      // It did not end: it loses its right to write, and the session goes on without it.
      const end = state.run.endNow("interrupted")
      state.run.detach()
      this.decide({ _tag: "End", token: state.token, end: { ...end, detached: true } }, nobody)
    }
  }
}
