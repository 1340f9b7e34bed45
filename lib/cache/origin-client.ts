/**
 * The origin client as the configuration wants it, with the certificates of private CAs read from their files.
 */
import { readFile } from 'node:fs/promises'
import type { Clock } from '../clock.ts'
import { explainError, Failure } from '../errors.ts'
import { OriginClient } from '../http/origin.ts'
import { isPublicAddress } from '../ip.ts'
import { readCertificates } from '../x509.ts'
import type { Config } from './config.ts'

/** `ca`: certificates in PEM, from `readOriginCa`. */
export function originClient(config: Config, clock: Clock, ca: readonly string[]): OriginClient {
  const { connect, fields, content } = config.timeouts
  return new OriginClient({
    clock,
    isPublic: isPublicAddress,
    parent: config.parentProxy,
    deadlines: { lookup: connect, connect, tls: connect, parent: connect, fields, content },
    limits: { perOrigin: config.limits.originConnections },
    ca,
  })
}

/** The certificates in the files of `https.origin_ca`, PEM. Throws a Failure with one sentence when one has none. */
export async function readOriginCa({ https }: Config): Promise<readonly string[]> {
  const found: string[] = []
  for (const file of https.originCa) {
    try {
      const certificates = readCertificates(await readFile(file, 'utf8'))
      if (certificates.length === 0) throw new Error('it holds no certificate in PEM form')
      found.push(...certificates.map(({ pem }) => pem))
    } catch (cause) {
      throw new Failure(`https.origin_ca: cannot use ${file}: ${explainError(cause)}`, {
        code: 'ORIGIN_CA',
        fault: 'internal',
        publicText: 'The service cannot start.',
        cause,
      })
    }
  }
  return found
}
