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
  /** Runs the effect with a permit of the `main` lane, waiting for one in order of arrival. */
  readonly withPermit: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
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
    const main = Effect.unsafeMakeSemaphore(options?.main ?? defaultPermits)
    return { withPermit: main.withPermits(1) }
  })
