/** @internal */
import type { SessionKey } from "@switchyard/protocol/Ids"
import type { Submission } from "@switchyard/protocol/Submission"
import { createHash } from "node:crypto"

/**
 * Tells the same message from another under one id: session, text, attachments, and what was asked for explicitly.
 *
 * @internal
 */
export const submissionDigest = (sessionKey: SessionKey, submission: Submission): string =>
  createHash("sha256").update(JSON.stringify([
    sessionKey,
    submission.text,
    submission.attachments.map(({ data, fileName, mediaType }) => [mediaType, fileName, data]),
    submission.mode,
    submission.route,
    submission.clearQueued,
    submission.debounceMs,
    submission.timeoutMs,
    submission.model
  ])).digest("base64url")
