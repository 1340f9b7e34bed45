/**
 * The TLS edge of a demonstration: decrypts and hands the bytes on, nothing else. Real edges do more (spec: preserve Host,
 * overwrite X-Forwarded-Proto); here nobody stands between.
 */
import { connect } from 'node:net'
import { createServer, type Server, type TLSSocket } from 'node:tls'

export interface TlsEdge {
  readonly server: Server
  /** Ends every connection and listens no more. */
  close(): Promise<void>
}

/** An edge before 127.0.0.1:`to`, not listening yet. */
export function createTlsEdge(
  identity: { readonly key: string; readonly cert: string },
  to: number,
): TlsEdge {
  const open = new Set<TLSSocket>()
  const server = createServer({ ...identity, ALPNProtocols: ['http/1.1'] }, outside => {
    const inside = connect(to, '127.0.0.1')
    open.add(outside)
    outside.on('error', () => inside.destroy())
    inside.on('error', () => outside.destroy())
    outside.on('close', () => {
      open.delete(outside)
      inside.destroy()
    })
    inside.on('close', () => outside.end())
    outside.pipe(inside)
    inside.pipe(outside)
  })
  // Browsers break handshakes off when they do not know the certificate; that is no news.
  server.on('tlsClientError', () => undefined)
  return {
    server,
    close: () =>
      new Promise(closed => {
        server.close(() => closed())
        for (const socket of open) socket.destroy()
      }),
  }
}
