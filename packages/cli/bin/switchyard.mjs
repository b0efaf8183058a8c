#!/usr/bin/env node
import { existsSync } from "node:fs"

const main = new URL("../dist/bin.js", import.meta.url)

if (existsSync(main)) {
  await import(main.href)
} else {
  process.stderr.write("Switchyard is not built yet: run `npm start` or `npm test` once in the checkout.\n")
  process.exitCode = 2
}
