/**
 * @since 0.1.0
 */

/**
 * Serves Switchyard's calls over a WebSocket at `/rpc`, and `GET /health` for whoever watches the process.
 *
 * @since 0.1.0
 */
export * as Gateway from "./Gateway.js"
