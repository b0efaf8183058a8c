import * as Schedule from "effect/Schedule"

/** The code of SQLite (`SQLITE_BUSY`, …) in an error or what caused it; empty if there is none. */
export const codeOf = (error: unknown): string => {
  for (let at = error; typeof at === "object" && at !== null; at = (at as { cause?: unknown }).cause) {
    const { code } = at as { code?: unknown }
    if (typeof code === "string") return code
  }
  return ""
}

/** The sentence of the error that caused an error. */
export const reasonOf = (error: unknown): string => {
  let reason = String(error)
  for (let at = error; typeof at === "object" && at !== null; at = (at as { cause?: unknown }).cause) {
    const { message } = at as { message?: unknown }
    if (typeof message === "string" && message !== "") reason = message
  }
  return reason
}

/** Another connection is in the way: the statement changed nothing and may be tried again. */
export const isBusy = (error: unknown): boolean => /^SQLITE_(BUSY|LOCKED)/.test(codeOf(error))

/** How long a busy database is tried again before its callers are told, in milliseconds. */
export const busyLimitMs = 10_000

/** The pauses between tries: 5 ms, doubling up to 250 ms, each a little random so that two processes part. */
export const backoff = Schedule.exponential("5 millis").pipe(
  Schedule.either(Schedule.spaced("250 millis")),
  Schedule.jittered
)
