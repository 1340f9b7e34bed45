/**
 * Looks at the certificate a TLS server shows, accepted or not, and judges how long certificates last.
 */
import { type ConnectionOptions, connect, rootCertificates } from 'node:tls'
import type { Milliseconds } from '../../async/clock.ts'
import { explainError } from '../../errors.ts'
import { isIpLiteral } from '../../http/message/target.ts'
import { doubtful, type Finding, right, wrong } from './check.ts'

export interface SeenCertificate {
  readonly ends: Milliseconds
  /** Why it would not be accepted, as a code of OpenSSL or Node; undefined when it would be. */
  readonly problem: string | undefined
}

const DEADLINE: Milliseconds = 10_000
export const day: Milliseconds = 86_400_000

/** The day of a moment, in UTC. */
export function dayOf(moment: Milliseconds): string {
  return Number.isFinite(moment) ? new Date(moment).toISOString().slice(0, 10) : 'an unknown day'
}

/** Judges the end of a certificate: within `soon` of it the finding is doubtful. */
export function judgeEnd(
  ends: Milliseconds,
  by: { readonly now: Milliseconds; readonly soon: Milliseconds; readonly mend: string },
): Finding {
  const { now, soon, mend } = by
  if (ends <= now) return wrong(`expired on ${dayOf(ends)}`, mend)
  const found = `until ${dayOf(ends)}, ${Math.floor((ends - now) / day)} days`
  return ends - now < soon ? doubtful(found, mend) : right(found)
}

/** The certificate a server shows for `host`, or why there is none. */
export function seeCertificate(server: {
  readonly address: string
  readonly port: number
  readonly host: string
  /** Certificates (PEM) of authorities that are trusted besides the well-known ones. */
  readonly ca?: readonly string[] | undefined
}): Promise<SeenCertificate | string> {
  const { address, port, host, ca = [] } = server
  const options: ConnectionOptions = {
    ...{ host: address, port, ALPNProtocols: ['http/1.1'], rejectUnauthorized: false },
    ...(isIpLiteral(host) ? {} : { servername: host }),
    ...(ca.length === 0 ? {} : { ca: [...rootCertificates, ...ca] }),
    timeout: DEADLINE,
  }
  return new Promise(settle => {
    const socket = connect(options, () => {
      const { valid_to: ends } = socket.getPeerCertificate()
      const { authorized, authorizationError } = socket
      socket.destroy()
      // Typed as an Error, but always a text: a code, or a message without one.
      const problem = authorized ? undefined : String(authorizationError)
      settle(ends === undefined ? 'it shows no certificate' : { ends: Date.parse(ends), problem })
    })
    socket.once('error', error => settle(explainError(error)))
    socket.once('timeout', () => {
      socket.destroy()
      settle(`no TLS handshake within ${DEADLINE / 1000} s`)
    })
  })
}
