/**
 * The names of things on the wire: session keys, session ids, run ids.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"

// Control characters: C0, DEL and C1.
// eslint-disable-next-line no-control-regex
const controlCharacter = /[\u0000-\u001f\u007f-\u009f]/

/**
 * The caller's name for a conversation: 1 to 512 characters, in Unicode NFC, without surrounding white space or
 * control characters. Case matters everywhere.
 *
 * @since 0.1.0
 * @category models
 */
export const SessionKey = Schema.String.pipe(
  Schema.filter((key) =>
    key.length < 1 || key.length > 512 ?
      "a session key has 1 to 512 characters"
      : key !== key.normalize("NFC") ?
      "a session key must be in Unicode NFC"
      : key.trim() !== key ?
      "a session key must not begin or end with white space"
      : controlCharacter.test(key) ?
      "a session key must not contain control characters"
      : !isWellFormed(key) ?
      "a session key must not contain lone surrogates"
      : undefined
  ),
  Schema.brand("SessionKey")
)
/**
 * @since 0.1.0
 * @category models
 */
export type SessionKey = typeof SessionKey.Type

/**
 * One span of a session: a reset begins a new one under the same key.
 *
 * @since 0.1.0
 * @category models
 */
export const SessionId = Schema.NonEmptyString.pipe(Schema.maxLength(128), Schema.brand("SessionId"))
/**
 * @since 0.1.0
 * @category models
 */
export type SessionId = typeof SessionId.Type

/**
 * The name of one submission and of the run that answers it. It is the caller's idempotency key, or a UUIDv7:
 * 1 to 128 characters of `A-Z a-z 0-9 . _ : -`.
 *
 * @since 0.1.0
 * @category models
 */
export const RunId = Schema.String.pipe(
  Schema.pattern(/^[A-Za-z0-9._:-]{1,128}$/, { message: () => "an id has 1 to 128 characters of A-Z a-z 0-9 . _ : -" }),
  Schema.brand("RunId")
)
/**
 * @since 0.1.0
 * @category models
 */
export type RunId = typeof RunId.Type

/**
 * A position in the event stream of a session. Opaque: hand back what an event carried, compare nothing.
 *
 * @since 0.1.0
 * @category models
 */
export const Cursor = Schema.String.pipe(Schema.maxLength(256), Schema.brand("Cursor"))
/**
 * @since 0.1.0
 * @category models
 */
export type Cursor = typeof Cursor.Type

/**
 * Where random bytes for ids come from: the platform's secure source unless a test or a simulation provides its own.
 *
 * @since 0.1.0
 * @category context
 */
export class RandomBytes extends Context.Reference<RandomBytes>()("@switchyard/protocol/Ids/RandomBytes", {
  defaultValue: () => pooled()
}) {}

// Asking the system for each few bytes costs more than everything else about an id.
const pooled = (): (length: number) => Uint8Array => {
  const pool = new Uint8Array(4096)
  let used = pool.length
  return (length) => {
    if (used + length > pool.length) {
      globalThis.crypto.getRandomValues(pool)
      used = 0
    }
    used += length
    return pool.slice(used - length, used)
  }
}

const hex = (bytes: Uint8Array): string => {
  let out = ""
  for (const byte of bytes) out += byte.toString(16).padStart(2, "0")
  return out
}

/**
 * A UUID of version 7 (RFC 9562): 48 bits of milliseconds, then random bits, so that ids sort roughly by age.
 *
 * @since 0.1.0
 * @category constructors
 */
export const uuid: Effect.Effect<string> = Effect.map(
  Effect.all([Clock.currentTimeMillis, RandomBytes]),
  ([now, random]) => {
    const bytes = random(10)
    bytes[0] = (bytes[0]! & 0x0f) | 0x70
    bytes[2] = (bytes[2]! & 0x3f) | 0x80
    const tail = hex(bytes)
    const time = Math.max(0, Math.floor(now)).toString(16).padStart(12, "0")
    return `${time.slice(0, 8)}-${time.slice(8)}-${tail.slice(0, 4)}-${tail.slice(4, 8)}-${tail.slice(8)}`
  }
)

/**
 * A fresh run id. Clients make one before their first try, so that each retry is the same run.
 *
 * @since 0.1.0
 * @category constructors
 */
export const makeRunId: Effect.Effect<RunId> = Effect.map(uuid, (id) => id as RunId)

function isWellFormed(text: string): boolean {
  return !/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/.test(text)
}
