/**
 * What is wrong with a message, before anybody is asked to take it.
 *
 * @since 0.1.0
 */
import type { Message } from "@switchyard/client/Client"
import { SessionKey } from "@switchyard/protocol/Ids"
import { decode, decodeField } from "@switchyard/protocol/Submission"
import * as Effect from "effect/Effect"
import { type CommandFailed, refused } from "./failure.js"

const options: Record<string, string> = {
  sessionKey: "--session",
  idempotencyKey: "--id",
  message: "--message",
  mode: "--mode"
}

const optionOf = (field: string): string => options[field] ?? field

/** Refuses what no gateway would take, and names the option. */
export const check = (message: Message): Effect.Effect<void, CommandFailed> =>
  Effect.asVoid(Effect.mapError(decode(message), (error) =>
    error._tag === "InvalidRequest"
      ? refused(`${optionOf(error.field)}: ${error.reason}`)
      : refused(
        `${optionOf(error.field)} has ${error.bytes} bytes, and at most ${error.limitBytes} are taken; send less`
      )))

/** The same for a conversation, of which only the session is known. */
export const checkSession = (key: string): Effect.Effect<void, CommandFailed> =>
  Effect.asVoid(
    Effect.mapError(decodeField("sessionKey", SessionKey, key), (error) => refused(`--session: ${error.reason}`))
  )
