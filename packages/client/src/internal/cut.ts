/**
 * Telling a cut connection from an answer.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"

/** Milliseconds that no change of the wall clock moves. */
export const monotonic = Effect.map(Clock.currentTimeNanos, (nanos) => Number(nanos / 1_000_000n))

/** The connection was cut, or the gateway ended the call since it is shutting down. */
export const isCut = (exit: Exit.Exit<unknown, unknown>): boolean => {
  if (Exit.isSuccess(exit)) return false
  const failure = Option.getOrUndefined(Cause.failureOption(exit.cause))
  return failure === undefined
    ? Cause.isInterruptedOnly(exit.cause)
    : (failure as { readonly _tag?: string })._tag === "RpcClientError"
}
