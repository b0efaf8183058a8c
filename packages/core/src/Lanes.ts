/**
 * How many runs execute at once. A lane is a first-in, first-out line with a number of permits.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { availableParallelism } from "node:os"

/**
 * @since 0.1.0
 * @category context
 */
export class Lanes extends Context.Tag("@switchyard/core/Lanes")<Lanes, {
  /**
   * Takes a permit of the `main` lane, waiting for one in order of arrival, and gives the function that hands it back.
   * Calling that again does nothing.
   */
  readonly take: Effect.Effect<() => void>
}>() {}

/**
 * Permits of the `main` lane unless configured: one for each processor, but at least 8 and at most 16.
 *
 * @since 0.1.0
 * @category constants
 */
export const defaultPermits: number = Math.min(16, Math.max(8, availableParallelism()))

/**
 * @since 0.1.0
 * @category layers
 */
export const layer = (options?: { readonly main?: number | undefined }): Layer.Layer<Lanes> =>
  Layer.sync(Lanes, () => {
    let free = options?.main ?? defaultPermits
    const line: Array<() => void> = []
    // A permit that comes back goes to whoever waits longest, before anyone new can take it.
    const permit = () => {
      let held = true
      return () => {
        if (!held) return
        held = false
        const next = line.shift()
        if (next === undefined) free += 1
        else next()
      }
    }
    return {
      take: Effect.async<() => void>((resume) => {
        if (free > 0) {
          free -= 1
          return resume(Effect.succeed(permit()))
        }
        let given: (() => void) | undefined
        const turn = () => {
          given = permit()
          resume(Effect.succeed(given))
        }
        line.push(turn)
        return Effect.sync(() => {
          const at = line.indexOf(turn)
          if (at >= 0) line.splice(at, 1)
          // it was given in the moment in which its taker went away
          else given?.()
        })
      })
    }
  })
