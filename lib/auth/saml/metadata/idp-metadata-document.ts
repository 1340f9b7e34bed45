/**
 * A document of IdP metadata: fetched or read within its bounds, and judged as a whole: structure, signature, dates. What is
 * done with it, and when it is fetched again, is the business of idp-metadata-source.ts; `authproxy doctor` asks here as well.
 *
 * # Facts
 * - Remote: only 200 counts, 30 seconds, 10 MiB (specification, section 8).
 */

import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { within } from '../../../async/deadline.ts'
import { readBounded } from '../../../bounded-file.ts'
import { iterate } from '../../../bytes/source.ts'
import { explainError, Failure } from '../../../errors.ts'
import type { OriginClient } from '../../../http/client/client.ts'
import { Fields } from '../../../http/message/field.ts'
import { parseUri } from '../../../http/message/target.ts'
import type { SamlConfig } from '../contract.ts'
import { metadataLimits } from '../core/scan.ts'
import { type MetadataThread, readInThread } from '../worker/metadata-thread.ts'
import type { IdpMetadata } from './idp-metadata.ts'

const DOWNLOAD_TIME: Milliseconds = 30_000

/** Metadata could not be had, or is of no use. The message says which, and where it was looked for. */
export class MetadataFailure extends Failure {
  constructor(message: string, cause?: unknown) {
    const publicText = 'The identity provider is not known at the moment.'
    super(message, { code: 'idp_metadata', fault: 'upstream', publicText, cause })
  }
}

/** What was downloaded, and the fields it came with. */
export interface Downloaded {
  readonly bytes: Buffer
  readonly fields: Fields
}

/** Downloads a document. Throws a MetadataFailure. */
export async function fetchMetadata(
  url: string,
  by: {
    readonly origin: OriginClient
    readonly clock: Clock
    readonly signal: AbortSignal
  },
): Promise<Downloaded> {
  const { origin, clock, signal: closing } = by
  const uri = parseUri(url)
  if ('problem' in uri) throw new MetadataFailure(`idpMetadataURL: ${uri.problem}`)
  const limit = {
    clock,
    after: DOWNLOAD_TIME,
    signal: closing,
    late: () => new MetadataFailure(`${uri.host} did not deliver within ${DOWNLOAD_TIME / 1000} s`),
    aborted: () => new MetadataFailure('the service stops'),
  }
  return within(limit, async signal => {
    const response = await origin.request({
      method: 'GET',
      uri,
      fields: Fields.of(
        [
          'Accept',
          'application/samlmetadata+xml, application/xml;q=0.9, text/xml;q=0.9, */*;q=0.1',
        ],
        ['Accept-Encoding', 'identity'],
        ['User-Agent', 'authproxy'],
      ),
      signal,
      trusted: true,
    })
    if (response.status !== 200) {
      response.content.close()
      throw new MetadataFailure(`${uri.host} answered ${response.status} instead of 200`)
    }
    const blocks: Buffer[] = []
    let size = 0
    for await (const block of iterate(response.content)) {
      size += block.length
      if (size > metadataLimits.size) throw new MetadataFailure('it is larger than 10 MiB')
      blocks.push(Buffer.from(block))
    }
    return { bytes: Buffer.concat(blocks), fields: response.fields }
  })
}

/** Reads a document from a file. Throws a MetadataFailure. */
export async function readMetadata(path: string): Promise<Buffer> {
  try {
    return (await readBounded(path, metadataLimits.size)).bytes
  } catch (error) {
    throw new MetadataFailure(`${path} cannot be read: ${explainError(error)}`, error)
  }
}

/** The IdP a document describes, as far as it may be believed at `now`. `from` is told in messages. Throws a MetadataFailure. */
export async function judgeMetadata(
  bytes: Uint8Array,
  from: string,
  by: {
    readonly config: SamlConfig
    readonly now: Milliseconds
    /** Bounds of the thread that reads it. */
    readonly thread: MetadataThread
  },
): Promise<IdpMetadata> {
  const { idpEntityId, allowSha1, idpMetadataCertificate } = by.config
  const certificates = await trustedCertificates(idpMetadataCertificate)
  const job = { bytes, entityId: idpEntityId, certificates, allowSha1 }
  const read = await readInThread(job, by.thread).catch(error => {
    throw new MetadataFailure(`the metadata of ${from}: ${explainError(error)}`, error)
  })
  if (!read.ok) throw new MetadataFailure(`the metadata of ${from} ${read.problem}`)
  const { idp } = read
  if (idp.validUntil !== undefined && idp.validUntil <= by.now) {
    const when = new Date(idp.validUntil).toISOString()
    throw new MetadataFailure(`the metadata of ${from} expired at ${when}`)
  }
  return idp
}

async function trustedCertificates(
  path: string | undefined,
): Promise<readonly string[] | undefined> {
  if (path === undefined) return undefined
  const text = (await readBounded(path, metadataLimits.size)).bytes.toString()
  const found = text.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? []
  if (found.length === 0) throw new MetadataFailure(`${path} holds no certificate in PEM`)
  return found.map(pem => `${pem}\n`)
}
