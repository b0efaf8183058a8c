import { Effect } from "effect"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

/** A fresh folder that goes when the scope closes. */
export const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "switchyard-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)
