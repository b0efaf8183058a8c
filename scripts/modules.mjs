import { readdirSync, readFileSync } from "node:fs"
import * as path from "node:path"
import { fileURLToPath } from "node:url"

/** The folder of the repository. */
export const root = fileURLToPath(new URL("..", import.meta.url))

/** Every TypeScript file below `folder`, sorted; nothing if there is no such folder. */
export const typescriptFiles = (folder) => {
  try {
    return readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && entry.name.endsWith(".ts") && !entry.name.endsWith(".d.ts"))
      .map((entry) => path.join(entry.parentPath ?? entry.path, entry.name))
      .sort()
  } catch (error) {
    if (error.code === "ENOENT") return []
    throw error
  }
}

/** The names of the folders in `packages/`, sorted. */
export const packageNames = () =>
  readdirSync(path.join(root, "packages"), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)
    .sort()

/** Reads a text file with line feeds only. */
export const readText = (file) => readFileSync(file, "utf8").replaceAll("\r\n", "\n")
