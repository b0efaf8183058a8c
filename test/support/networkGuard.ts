import * as dns from "node:dns"
import { syncBuiltinESMExports } from "node:module"
import * as net from "node:net"

/** Whether a host is this machine: `localhost`, 127.0.0.0/8 or ::1, also as an IPv4-mapped address. */
export const isLoopback = (host: string): boolean => {
  const bare = host.toLowerCase().replace(/^\[|\]$/g, "").replace(/^::ffff:(?=\d+\.)/, "")
  if (net.isIP(bare) === 4) return bare.startsWith("127.")
  return bare === "::1" || bare === "localhost" || bare.endsWith(".localhost")
}

const symbol = Symbol.for("@switchyard/test/networkGuard")

/**
 * Lets this process reach nothing but loopback addresses and local sockets.
 *
 * A connection or a name look-up elsewhere fails with an error as if the network were down, and is added to the list
 * that is returned. A second call returns the same list.
 */
export const guardNetwork = (): Array<string> => {
  const known = globalThis as { [symbol]?: Array<string> }
  return known[symbol] ??= install()
}

const install = (): Array<string> => {
  const refused: Array<string> = []

  const refuse = (target: string): NodeJS.ErrnoException => {
    refused.push(target)
    return Object.assign(new Error(`the test harness refuses to reach ${target}`), { code: "ENETUNREACH" })
  }

  // `connect` takes (options), (port, host), (path), or one array that holds either of these.
  const destination = (args: ReadonlyArray<unknown>): string | undefined => {
    const [first, second] = Array.isArray(args[0]) ? args[0] as ReadonlyArray<unknown> : args
    if (typeof first === "object" && first !== null) {
      const { host, path } = first as { readonly host?: string | null; readonly path?: string | null }
      return path ? undefined : host ?? undefined
    }
    return typeof second === "string" ? second : undefined
  }

  const connect = net.Socket.prototype.connect as (this: net.Socket, ...args: Array<unknown>) => net.Socket
  net.Socket.prototype.connect = function(this: net.Socket, ...args: Array<unknown>) {
    const host = destination(args)
    if (host !== undefined && !isLoopback(host)) return this.destroy(refuse(host))
    return connect.apply(this, args)
  } as net.Socket["connect"]

  type Callback = (error: Error) => void
  const guardLookup = (owner: object, name: string, fail: (error: Error, args: ReadonlyArray<unknown>) => unknown) => {
    const target = owner as Record<string, (...args: Array<unknown>) => unknown>
    const original = target[name]
    if (original === undefined) return
    target[name] = (...args) =>
      isLoopback(String(args[0])) || net.isIP(String(args[0])) !== 0
        ? original.apply(owner, args)
        : fail(refuse(String(args[0])), args)
  }
  const defaultDns = (dns as unknown as { readonly default: typeof dns }).default ?? dns
  for (const name of Object.keys(defaultDns).filter((name) => /^(lookup|resolve.*)$/.test(name))) {
    guardLookup(defaultDns, name, (error, args) => process.nextTick(args.at(-1) as Callback, error))
    guardLookup(defaultDns.promises, name, (error) => Promise.reject(error))
  }
  syncBuiltinESMExports()

  return refused
}
