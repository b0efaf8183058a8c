/**
 * What a message may do. Compared as a whole: messages of different authority never share a run.
 *
 * @since 0.1.0
 */

import * as Schema from "effect/Schema"

/**
 * The authority of a submission. It comes from how the caller was let in, never from the message.
 *
 * @since 0.1.0
 * @category models
 */
export const Authority = Schema.Struct({
  senderId: Schema.String,
  owner: Schema.Boolean,
  scopes: Schema.Array(Schema.Literal("read", "write", "approve", "admin"))
})
/**
 * @since 0.1.0
 * @category models
 */
export type Authority = typeof Authority.Type

/**
 * The owner of the machine, with every scope: what callers on loopback have.
 *
 * @since 0.1.0
 * @category constructors
 */
export const owner = (senderId: string): Authority => ({
  senderId,
  owner: true,
  scopes: ["read", "write", "approve", "admin"]
})

/**
 * A text that is equal exactly for equal authorities.
 *
 * @since 0.1.0
 * @category encoding
 */
export const digest = (authority: Authority): string =>
  JSON.stringify([authority.senderId, authority.owner, [...authority.scopes].sort()])

/**
 * Whether one may end a run of the other: the same authority, or an admin.
 *
 * @since 0.1.0
 * @category guards
 */
export const mayAbort = (authority: Authority, runDigest: string): boolean =>
  digest(authority) === runDigest || authority.scopes.includes("admin")
