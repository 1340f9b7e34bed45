/**
 * The TLS edge of a demonstration, which decrypts and forwards the bytes unchanged.
 * A real edge also preserves Host and overwrites X-Forwarded-Proto; here no other proxy stands in front.
 */
import { connect } from 'node:net'
import { pipeline } from 'node:stream'
import { createServer, type TLSSocket } from 'node:tls'

/** An edge in front of the port `to()` on 127.0.0.1, not listening yet. `close` stops listening and ends every connection. */
export function createTlsEdge(
  identity: { readonly key: string; readonly cert: string },
  to: () => number,
) {
  const open = new Set<TLSSocket>()
  const server = createServer({ ...identity, ALPNProtocols: ['http/1.1'] }, outside => {
    open.add(outside)
    outside.on('close', () => open.delete(outside))
    const inside = connect(to(), '127.0.0.1')
    // When one side ends or fails, both are closed; the demonstration has nothing to say about it.
    pipeline(outside, inside, outside, () => undefined)
  })
  // Browsers break off the handshake when they do not know the certificate: that is expected here.
  server.on('tlsClientError', () => undefined)
  return {
    server,
    close: () =>
      new Promise<void>(closed => {
        server.close(() => closed())
        for (const socket of open) socket.destroy()
      }),
  }
}
