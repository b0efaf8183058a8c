/**
 * How the command is called where it was started.
 *
 * @since 0.1.0
 */
import { basename } from "node:path"

/**
 * `switchyard`, or `npx switchyard` if npm started it or if it is the file of a checkout, which no PATH has.
 */
export const commandName = (
  started: string | undefined = process.argv[1],
  // eslint-disable-next-line no-restricted-syntax -- What npm says about itself is no setting of ours.
  env: NodeJS.ProcessEnv = process.env
): string => {
  const byNpm = env["npm_execpath"] !== undefined || env["npm_lifecycle_event"] !== undefined
  const inCheckout = started !== undefined &&
    (basename(started) !== "switchyard" || /[\\/]node_modules[\\/]\.bin[\\/]/.test(started))
  return byNpm || inCheckout ? "npx switchyard" : "switchyard"
}
