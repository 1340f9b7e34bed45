/**
 * The certificate a TLS server shows, whether we would accept it or not: looked at, nothing is sent. What its dates and its
 * name mean is judged here as well, without I/O.
 */
import { type ConnectionOptions, connect, rootCertificates } from 'node:tls'
import type { Milliseconds } from '../../async/clock.ts'
import { explainError } from '../../errors.ts'
import { isIpLiteral } from '../../http/message/target.ts'
import { certificateProblem } from '../../x509/certificate-problem.ts'
import { type Diagnosis, dayOf, doubtful, right, wrong } from './check.ts'

/** What was seen of a certificate. */
export interface SeenCertificate {
  readonly ends: Milliseconds
  /** Why it would not be accepted, as a code of OpenSSL or Node; undefined: it would. */
  readonly problem: string | undefined
}

export interface Server {
  /** Where it listens. */
  readonly address: string
  readonly port: number
  /** What it is to show a certificate for. */
  readonly host: string
  readonly ca?: readonly string[] | undefined
}

const DEADLINE: Milliseconds = 10_000
const day = 86_400_000
/** Renewal that works by itself is done long before. */
const SOON: Milliseconds = 14 * day

/** Looks at the certificate; the sentence why not when there is none to see. */
export function seeCertificate(server: Server): Promise<SeenCertificate | string> {
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
      const problem = authorized ? undefined : codeOf(authorizationError)
      settle(ends === undefined ? 'it shows no certificate' : { ends: Date.parse(ends), problem })
    })
    socket.once('error', error => settle(explainError(error)))
    socket.once('timeout', () => {
      socket.destroy()
      settle(`no TLS handshake within ${DEADLINE / 1000} s`)
    })
  })
}

/** Typed as an Error, and a text in fact when OpenSSL found the problem. */
function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : String(error)
}

/** Codes that say no more than that its issuer is not known here; browsers may know more authorities, or other ones. */
const UNKNOWN_HERE = [
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
]

/** What a certificate is worth to browsers that come to the public host. */
export function judgePublicCertificate(
  what: string,
  seen: SeenCertificate,
  now: Milliseconds,
): Diagnosis {
  const { ends, problem } = seen
  const days = Math.floor((ends - now) / day)
  if (ends <= now) {
    return wrong(what, `expired on ${dayOf(ends)}`, 'renew it at the edge, and reload the edge')
  }
  if (problem !== undefined && UNKNOWN_HERE.includes(problem)) {
    return doubtful(
      what,
      `until ${dayOf(ends)}, from an authority that is not known here`,
      'name a private authority in NODE_EXTRA_CA_CERTS=FILE; a public one is known when the edge sends the whole chain',
    )
  }
  if (problem !== undefined) {
    return wrong(
      what,
      certificateProblem(problem)?.replace(/^The origin's certificate/, 'it') ?? problem,
      'browsers will not go on: give the edge a certificate for this host from an authority they know',
    )
  }
  if (ends - now < SOON) {
    return doubtful(what, `until ${dayOf(ends)}, ${days} days`, 'see why it has not been renewed')
  }
  return right(what, `until ${dayOf(ends)}, ${days} days`)
}

/** What the end of the backend's certificate means; whether it is accepted is told by a request. */
export function judgeBackendCertificate(
  what: string,
  { ends }: SeenCertificate,
  now: Milliseconds,
): Diagnosis {
  const found = `until ${dayOf(ends)}, ${Math.floor((ends - now) / day)} days`
  return ends - now < SOON
    ? doubtful(what, found, 'renew it: once it has expired every request is answered 502')
    : right(what, found)
}
