/**
 * Who may talk to a gateway that has no access tokens: programs on this machine, and pages that it served itself.
 *
 * @since 0.1.0
 */
import * as Net from "node:net"

/**
 * Whether a host is this machine and nothing else: `localhost`, 127.0.0.0/8 or ::1.
 */
export const isLoopback = (host: string): boolean => {
  const bare = host.toLowerCase().replace(/^\[(.*)\]$/, "$1")
  return bare === "localhost" || bare === "::1" || (Net.isIPv4(bare) && bare.startsWith("127."))
}

/**
 * A host as it stands in a URL.
 */
export const inUrl = (host: string): string => Net.isIPv6(host) ? `[${host}]` : host

/**
 * The check that each request passes first. It answers with why the request is refused, or with nothing.
 *
 * `Host` must name this gateway by a loopback name, and an `Origin` must be of that very host: a foreign page can make
 * its own name resolve to this machine (DNS rebinding), or open a WebSocket to it, but can forge neither header.
 */
export const makeGuard = (bound: { readonly host: string; readonly port: number }) => {
  const hosts = new Set<string>()
  for (const name of ["localhost", "127.0.0.1", "[::1]", inUrl(bound.host)]) {
    hosts.add(`${name}:${bound.port}`)
    // Clients leave out the default port of http.
    if (bound.port === 80) hosts.add(name)
  }
  return (headers: { readonly [name: string]: string | ReadonlyArray<string> | undefined }): string | undefined => {
    const host = lowerCase(headers["host"])
    if (!hosts.has(host)) {
      return `This gateway answers to loopback names only, for example 127.0.0.1:${bound.port}.`
    }
    const origin = lowerCase(headers["origin"])
    if (headers["origin"] !== undefined && origin !== `http://${host}` && origin !== `https://${host}`) {
      return "This gateway does not answer to pages of other sites."
    }
    return undefined
  }
}

const lowerCase = (header: string | ReadonlyArray<string> | undefined): string => String(header ?? "").toLowerCase()
