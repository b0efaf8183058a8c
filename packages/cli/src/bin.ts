/**
 * The entry of the `switchyard` command.
 *
 * @since 0.1.0
 */
import { quickAnswer } from "./internal/help.js"

const answer = quickAnswer(process.argv.slice(2))
if (answer === undefined) {
  void import("./internal/main.js")
} else {
  process.stdout.write(answer)
}
