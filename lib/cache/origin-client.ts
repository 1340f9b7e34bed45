/**
 * The way to origins as the configuration wants it: deadlines, connections, the parent proxy, further authorities.
 */
import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { Clock } from '../clock.ts'
import { Failure, systemCode } from '../errors.ts'
import type { Lookup } from '../http/name-lookup.ts'
import { OriginClient } from '../http/origin.ts'
import { isPublicAddress } from '../ip.ts'
import type { Config } from './config.ts'

/** Throws a Failure with one sentence when a file of `https.origin_ca` cannot be used. */
export async function originClient(
  config: Config,
  clock: Clock,
  lookup?: Lookup,
): Promise<OriginClient> {
  const { connect, fields, content } = config.timeouts
  return new OriginClient({
    clock,
    isPublic: isPublicAddress,
    parent: config.parentProxy,
    ca: await authorities(config.https.originCa),
    deadlines: { lookup: connect, connect, tls: connect, parent: connect, fields, content },
    limits: { perOrigin: config.limits.originConnections },
    ...(lookup === undefined ? {} : { lookup }),
  })
}

/** PEM texts, each with at least one certificate. */
async function authorities(files: readonly string[]): Promise<readonly string[]> {
  const texts: string[] = []
  for (const file of files) {
    try {
      const text = await readFile(file, 'latin1')
      for (const one of text.match(certificatePattern) ?? [text]) new X509Certificate(one)
      texts.push(text)
    } catch (error) {
      throw unusable(file, error)
    }
  }
  return texts
}

const certificatePattern = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g

function unusable(file: string, error: unknown): Failure {
  const reasons: Readonly<Record<string, string>> = {
    ENOENT: 'there is no such file',
    EACCES: 'this process may not read it',
    EISDIR: 'it is a directory',
  }
  const reason = reasons[systemCode(error) ?? ''] ?? 'it has no certificate in PEM form'
  return new Failure(`https.origin_ca names ${file}, which cannot be used: ${reason}`, {
    code: 'ORIGIN_CA',
    fault: 'internal',
    publicText: 'The service cannot start.',
    cause: error,
  })
}
