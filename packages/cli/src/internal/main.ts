/**
 * Runs the command line of this process.
 *
 * @since 0.1.0
 */
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Effect from "effect/Effect"
import { run } from "../Cli.js"
import { runMain } from "./process.js"

runMain(Effect.provide(run(process.argv), NodeContext.layer))
