/**
 * Fetches or reads a document of IdP metadata and judges it as a whole: structure, signature, dates. The service and `authproxy
 * doctor` use it. Remote: only 200 counts, 30 seconds, 10 MiB (specification, section 8).
 */
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { withDeadline } from '../../../async/deadline.ts'
import { iterate } from '../../../bytes/source.ts'
import { explainError, Failure } from '../../../errors.ts'
import { readBounded } from '../../../files/bounded-file.ts'
import type { OriginClient } from '../../../http/client/client.ts'
import { Fields } from '../../../http/message/field.ts'
import { parseUri } from '../../../http/message/target.ts'
import { metadataLimits } from '../../../saml/core/message.ts'
import { type IdpMetadata, readIdpMetadata } from '../../../saml/metadata/idp-metadata.ts'
import type { SamlConfig } from '../../config/config.ts'
import type { WorkerPool } from '../worker/pool.ts'

const DOWNLOAD_TIME: Milliseconds = 30_000

/** The error for metadata that cannot be fetched or used. The message has the reason and the source. */
export class MetadataFailure extends Failure {
  constructor(message: string, cause?: unknown) {
    const publicText = 'The identity provider is not known at the moment.'
    super(message, { code: 'idp_metadata', fault: 'upstream', publicText, cause })
  }
}

/** The error for metadata of `authproxy dev-idp` where others can reach the gateway. */
export class DevelopmentMetadata extends MetadataFailure {
  constructor(from: string) {
    super(
      `the metadata of ${from} is of authproxy dev-idp, where each client can be any user; domain has to be local for it: localhost, app.localhost, app.test or a loopback address`,
    )
  }
}

/** The validators of a document, by which a later request asks whether it has changed (RFC 9110 sections 8.8.2 and 8.8.3). */
export interface DocumentValidators {
  readonly etag: string | undefined
  readonly lastModified: string | undefined
}

/** Downloads a document; undefined when the server answers 304 to these validators. Throws a MetadataFailure. */
export async function fetchMetadata(
  url: string,
  by: {
    readonly origin: OriginClient
    readonly clock: Clock
    readonly signal: AbortSignal
    readonly validators?: DocumentValidators | undefined
  },
): Promise<{ readonly bytes: Buffer; readonly validators: DocumentValidators } | undefined> {
  const { origin, clock, signal: closing, validators } = by
  const uri = parseUri(url)
  if ('problem' in uri) throw new MetadataFailure(`idpMetadataURL: ${uri.problem}`)
  const late = () =>
    new MetadataFailure(`${uri.host} did not deliver within ${DOWNLOAD_TIME / 1000} s`)
  const aborted = () => new MetadataFailure('the service stops')
  const fields = Fields.of(
    ['Accept', 'application/samlmetadata+xml, application/xml;q=0.9, text/xml;q=0.9, */*;q=0.1'],
    ['Accept-Encoding', 'identity'],
    ['User-Agent', 'authproxy'],
    ['If-None-Match', validators?.etag],
    ['If-Modified-Since', validators?.lastModified],
  )
  return withDeadline(
    { clock, after: DOWNLOAD_TIME, signal: closing, late, aborted },
    async signal => {
      const response = await origin.request({ method: 'GET', uri, fields, signal, trusted: true })
      if (response.status !== 200) {
        response.content.close()
        if (response.status === 304 && isSaid(validators)) return undefined
        throw new MetadataFailure(`${uri.host} answered ${response.status} instead of 200`)
      }
      const blocks: Buffer[] = []
      let size = 0
      for await (const block of iterate(response.content)) {
        size += block.length
        if (size > metadataLimits.size) throw new MetadataFailure('it is larger than 10 MiB')
        blocks.push(Buffer.from(block))
      }
      const newValidators = {
        etag: sendable(response.fields.get('ETag')),
        lastModified: sendable(response.fields.get('Last-Modified')),
      }
      return { bytes: Buffer.concat(blocks), validators: newValidators }
    },
  )
}

function isSaid(known: DocumentValidators | undefined): boolean {
  return known?.etag !== undefined || known?.lastModified !== undefined
}

/** The validator, if it has a form that every server accepts in a condition. */
function sendable(validator: string | undefined): string | undefined {
  return validator !== undefined && /^[\x20-\x7e]{1,500}$/.test(validator) ? validator : undefined
}

/** Reads a document from a file. Throws a MetadataFailure. */
export async function readMetadata(path: string): Promise<Buffer> {
  try {
    return (await readBounded(path, metadataLimits.size)).bytes
  } catch (error) {
    throw new MetadataFailure(`${path} cannot be read: ${explainError(error)}`, error)
  }
}

/** The size of documents that are read in less time than a thread takes to start. */
const SMALL = 32_768

/** The IdP of a document with a good signature and dates at `now`. Messages name `from`. Throws a MetadataFailure. */
export async function judgeMetadata(
  bytes: Uint8Array,
  from: string,
  by: {
    readonly config: SamlConfig
    readonly now: Milliseconds
    /** The pool of threads that reads large documents. */
    readonly pool: WorkerPool
  },
): Promise<IdpMetadata> {
  const { idpEntityId: entityId, allowSha1, idpMetadataCertificate } = by.config
  const fail = (problem: string, cause?: unknown): never => {
    throw new MetadataFailure(`the metadata of ${from} ${problem}`, cause)
  }
  const rules = { entityId, certificates: await certificatesIn(idpMetadataCertificate), allowSha1 }
  const read =
    bytes.length <= SMALL
      ? readIdpMetadata(bytes, rules)
      : await by.pool
          .run({ kind: 'metadata', bytes, rules })
          .catch(error => fail(`cannot be read: ${explainError(error)}`, error))
  if (!read.ok) {
    const untrusted = read.because.startsWith('signature_')
    return fail(`is ${untrusted ? 'not to be trusted' : 'of no use'}: ${read.problem}`)
  }
  const { validUntil, forDevelopment } = read.idp
  if (forDevelopment && !isLocal(by.config.baseUrl)) throw new DevelopmentMetadata(from)
  if (validUntil !== undefined && validUntil <= by.now) {
    fail(`expired at ${new Date(validUntil).toISOString()}`)
  }
  return read.idp
}

/** Whether a public origin is of this machine or of a test: localhost, a loopback address, *.localhost, *.test (RFC 6761). */
function isLocal(baseUrl: string): boolean {
  const { hostname } = new URL(baseUrl)
  return /^(?:127\.\d+\.\d+\.\d+|\[::1\]|(?:.*\.)?(?:localhost|test))$/.test(hostname)
}

async function certificatesIn(path: string | undefined): Promise<readonly string[] | undefined> {
  if (path === undefined) return undefined
  const text = (await readBounded(path, metadataLimits.size)).bytes.toString()
  const found = text.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? []
  if (found.length === 0) throw new MetadataFailure(`${path} holds no certificate in PEM`)
  return found.map(pem => `${pem}\n`)
}
