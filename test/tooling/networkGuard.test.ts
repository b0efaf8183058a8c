import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as dns from "node:dns"
import * as net from "node:net"
import { guardNetwork, isLoopback } from "../support/networkGuard.js"

const refused = guardNetwork()

const connectError = (port: number, host: string) =>
  Effect.async<string>((resume) => {
    const socket = net.connect({ port, host })
    socket.once("error", (error) => resume(Effect.succeed(error.message)))
    socket.once("connect", () => {
      socket.destroy()
      resume(Effect.succeed("connected"))
    })
  })

const listen = Effect.acquireRelease(
  Effect.async<net.Server>((resume) => {
    const server = net.createServer((socket) => socket.destroy())
    server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
  }),
  (server) => Effect.async<void>((resume) => void server.close(() => resume(Effect.void)))
)

describe("networkGuard", () => {
  it("knows the names of this machine", () => {
    for (const host of ["localhost", "127.0.0.1", "127.8.8.8", "::1", "[::1]", "::ffff:127.0.0.1", "a.localhost"]) {
      assert.isTrue(isLoopback(host), host)
    }
    for (const host of ["example.com", "10.0.0.1", "0.0.0.0", "::", "127.example.com", "localhost.example.com"]) {
      assert.isFalse(isLoopback(host), host)
    }
  })

  it.scoped("lets a test reach a server on this machine", () =>
    Effect.gen(function*() {
      const server = yield* listen
      assert.strictEqual(yield* connectError((server.address() as net.AddressInfo).port, "127.0.0.1"), "connected")
    }))

  it.effect("refuses every other address and name, and remembers it", () =>
    Effect.gen(function*() {
      assert.include(yield* connectError(80, "192.0.2.1"), "192.0.2.1")
      const fetched = yield* Effect.promise(() => fetch("http://example.com").then(() => "fetched", () => "refused"))
      assert.strictEqual(fetched, "refused")
      const found = yield* Effect.promise(() => dns.promises.lookup("example.org").then(() => "found", () => "refused"))
      assert.strictEqual(found, "refused")
      // Emptied here: what is left in this list fails the test.
      assert.deepStrictEqual(refused.splice(0), ["192.0.2.1", "example.com", "example.org"])
    }))
})
