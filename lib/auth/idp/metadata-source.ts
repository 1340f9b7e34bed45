/**
 * Keeps the IdP's metadata fresh: from a URL asked every 30 minutes or sooner, with a cache on disk beside the dynamic file, or
 * from a local file read once. Owns the refresh loop and the one copy in use. A document is judged as a whole, for the service and
 * for `authproxy doctor`: structure, signature, dates. Remote: only 200 counts, 30 seconds, 10 MiB (specification, section 8).
 *
 * # Facts
 * - When the first download fails, the cache has to be still valid.
 * - `cacheDuration` and `validUntil` (saml-metadata-2.0-os section 2.3.2) make the next download come sooner, never later: new keys
 *   of the IdP are to be known within half an hour. A part of each wait is left to chance, so that instances that were started
 *   together do not ask together for ever.
 * - After 304 the copy in the cache is judged again: certificates that metadata is checked with may be others by now.
 * - A signature by a key we do not know may mean that the IdP has changed keys since: it causes one refresh, a minute apart at
 *   the least, so that a forger cannot make us hammer the IdP.
 */
import { createHash } from 'node:crypto'
import { type Clock, day, type Milliseconds } from '../../async/clock.ts'
import { withDeadline } from '../../async/deadline.ts'
import { repeat } from '../../async/repeat.ts'
import { SingleFlight } from '../../async/single-flight.ts'
import { iterate } from '../../bytes/source.ts'
import { explainError, Failure } from '../../errors.ts'
import { writeFileAtomically } from '../../files/atomic-file.ts'
import { readBounded } from '../../files/bounded-file.ts'
import type { OriginClient } from '../../http/client/client.ts'
import { Fields } from '../../http/message/field.ts'
import { parseUri } from '../../http/message/target.ts'
import type { Logger } from '../../log/log.ts'
import { type IdpMetadata, readIdpMetadata } from '../../saml/metadata/idp-metadata.ts'
import { metadataLimits } from '../../saml/xml/message.ts'
import type { SamlConfig } from '../config/config.ts'
import { metadataBounds, type PoolBounds, WorkerPool } from './worker/pool.ts'

/** The interval of the specification, section 8. */
const REFRESH_INTERVAL: Milliseconds = 30 * 60_000
/** The random part of a wait, by which the wait may be shorter. */
const CHANCE = 0.1
/** The shortest time between refreshes that a `cacheDuration` asks for. */
const SHORTEST_CACHING: Milliseconds = 5 * 60_000
/** The shortest time between refreshes of metadata that ends soon or has ended. */
const ENDING_INTERVAL: Milliseconds = 60_000
/** The time between refreshes that unknown keys cause. */
const SUSPICION_INTERVAL: Milliseconds = 60_000

export interface SourceParts {
  readonly config: () => SamlConfig
  readonly origin: OriginClient
  readonly clock: Clock
  readonly random: (size: number) => Buffer
  readonly log: Logger
  /** Receives the identity provider in use each time its metadata has been read. */
  readonly inUse?: (idp: IdpMetadata) => void
  /** The bounds of the thread that reads a document, where they differ from the usual ones. */
  readonly readerBounds?: Partial<PoolBounds>
}

export class IdpMetadataSource {
  readonly #parts: SourceParts
  readonly #pool: WorkerPool
  readonly #closing = new AbortController()
  readonly #flight = new SingleFlight<void>()
  #idp: IdpMetadata | undefined
  #fetched: Milliseconds | undefined
  /** The validators of the document in the cache on disk; undefined when the document in use may be another. */
  #cached: { readonly digest: string; readonly validators: DocumentValidators } | undefined
  #refreshFailure: string | undefined
  /** The digest of the file as it was read, and whether it has changed since. */
  #file = { digest: '', hasChanged: false }
  #lastSuspicion = Number.NEGATIVE_INFINITY
  #endLoop = () => {}

  private constructor(parts: SourceParts) {
    this.#parts = parts
    this.#pool = new WorkerPool(parts.clock, { ...metadataBounds, ...parts.readerBounds })
  }

  /** Gets the metadata for the first time. Throws a MetadataFailure when neither the source nor the cache has any. */
  static async open(parts: SourceParts): Promise<IdpMetadataSource> {
    const source = new IdpMetadataSource(parts)
    const { idpMetadata } = parts.config()
    if (idpMetadata.from === 'file') {
      const bytes = await readMetadata(idpMetadata.path)
      await source.#take(bytes, idpMetadata.path)
      source.#file = { digest: digestOf(bytes), hasChanged: false }
    } else {
      await source.#firstDownload()
      source.#endLoop = repeat(
        parts.clock,
        () => source.#untilRefresh(),
        () => source.#refresh(),
      )
    }
    return source
  }

  /** The IdP; undefined once its metadata has expired. */
  current(): IdpMetadata | undefined {
    const idp = this.#idp
    const now = this.#parts.clock.now()
    return idp?.validUntil !== undefined && idp.validUntil <= now ? undefined : idp
  }

  /** The moment the metadata in use was downloaded, read, or confirmed by its server; undefined when it is from the cache. */
  get fetchedAt(): Milliseconds | undefined {
    return this.#fetched
  }

  /** The last metadata, expired or not. */
  get last(): IdpMetadata | undefined {
    return this.#idp
  }

  /** The problems that keep logins from working, a sentence each. */
  problems(): readonly string[] {
    if (this.current() !== undefined) return []
    const failure = this.#refreshFailure === undefined ? '' : `; ${this.#refreshFailure}`
    return [`the metadata of the IdP has expired${failure}`]
  }

  /** Looks whether the file has changed since it was read, and warns once of each change. Never throws. */
  async checkFile(): Promise<void> {
    const { idpMetadata } = this.#parts.config()
    const { digest, hasChanged } = this.#file
    if (idpMetadata.from !== 'file' || digest === '') return
    const bytes = await readMetadata(idpMetadata.path).catch(() => undefined)
    const changed = bytes !== undefined && digestOf(bytes) !== digest
    this.#file = { digest, hasChanged: changed }
    if (changed && !hasChanged) this.#parts.log.warn(CHANGED, { path: idpMetadata.path })
  }

  /** The sentence about a file that has changed; undefined when it is the one in use. */
  get remark(): string | undefined {
    return this.#file.hasChanged ? CHANGED : undefined
  }

  /**
   * Called when a signature was made with a key that the metadata `used` does not have. Settles with true when there are other
   * keys now, so that verifying once more is worth it; undefined at once when no refresh is due and nothing has changed.
   */
  refreshForUnknownKey(used: IdpMetadata | undefined): Promise<boolean> | undefined {
    const { clock, config } = this.#parts
    if (config().idpMetadata.from === 'file') return undefined
    const isOther = () => keysOf(this.current()) !== keysOf(used)
    // Messages that waited for a thread were checked with the keys from before the refresh.
    if (isOther()) return Promise.resolve(true)
    const now = clock.now()
    if (this.#flight.size === 0) {
      if (now - this.#lastSuspicion < SUSPICION_INTERVAL) return undefined
      this.#lastSuspicion = now
    }
    return this.#refresh().then(isOther)
  }

  /** Settles when no download is under way, which takes at most half a minute. Never throws. */
  async downloadsEnded(): Promise<void> {
    if (this.#flight.size > 0) await this.#refresh()
  }

  /** Ends the refresh loop and the thread. */
  close(): void {
    this.#endLoop()
    this.#closing.abort()
    void this.#pool.close()
  }

  /** The wait until the next download: 30 minutes, or less. */
  #untilRefresh(): Milliseconds {
    const { clock, random } = this.#parts
    const { cacheDuration = Infinity, validUntil = Infinity } = this.#idp ?? {}
    const wait = Math.min(
      REFRESH_INTERVAL,
      Math.max(cacheDuration, SHORTEST_CACHING),
      Math.max((validUntil - clock.now()) / 2, ENDING_INTERVAL),
    )
    return Math.ceil(wait * (1 - (CHANCE * random(2).readUInt16BE()) / 65_536))
  }

  async #firstDownload(): Promise<void> {
    const { config, log } = this.#parts
    const { metadataCacheFile: cache } = config()
    try {
      return await this.#download()
    } catch (error) {
      this.#refreshFailure = explainError(error)
      await readMetadata(cache)
        .then(bytes => this.#take(bytes, cache))
        .catch(unread => {
          const both = `${this.#refreshFailure}; and there is no valid cache: ${explainError(unread)}`
          throw new MetadataFailure(`IdP metadata cannot be fetched: ${both}`, error)
        })
      const facts = { error, cache }
      log.warn('IdP metadata could not be downloaded; the cached metadata is used', facts)
    }
  }

  /** Refreshes the metadata. Never throws; the known metadata stays in use when it fails. */
  #refresh(): Promise<void> {
    return this.#flight.run('refresh', async () => {
      try {
        await this.#download()
      } catch (error) {
        if (this.#closing.signal.aborted) return
        this.#refreshFailure = explainError(error)
        const { log } = this.#parts
        log.warn('IdP metadata could not be refreshed; the last one stays in use', { error })
      }
    })
  }

  async #download(): Promise<void> {
    const { config, log, clock, origin } = this.#parts
    const { idpMetadata, metadataCacheFile: cache } = config()
    if (idpMetadata.from !== 'url') return
    const cached = this.#cached
    const copy = await this.#copyInCache()
    const known = copy && cached?.validators
    const by = { origin, clock, signal: this.#closing.signal, validators: known }
    const fetched = await fetchMetadata(idpMetadata.url, by)
    // The validators are unknown until this document is in use and in the cache.
    this.#cached = undefined
    const bytes = fetched?.bytes ?? copy
    if (bytes === undefined) return
    await this.#take(bytes, idpMetadata.url)
    this.#fetched = clock.now()
    this.#refreshFailure = undefined
    if (fetched === undefined) {
      this.#cached = cached
      log.info('IdP metadata has not changed')
      return
    }
    try {
      await writeFileAtomically(cache, bytes)
      this.#cached = { digest: digestOf(bytes), validators: fetched.validators }
      log.info('IdP metadata was updated and cached', { cache })
    } catch (error) {
      log.warn('IdP metadata was updated, but could not be cached', { error, cache })
    }
  }

  /** The document in use as the cache has it; undefined when it has another one, or the metadata has expired. */
  async #copyInCache(): Promise<Buffer | undefined> {
    const cached = this.#cached
    if (cached === undefined || this.current() === undefined) return undefined
    const { metadataCacheFile } = this.#parts.config()
    const bytes = await readMetadata(metadataCacheFile).catch(() => undefined)
    return bytes !== undefined && digestOf(bytes) === cached.digest ? bytes : undefined
  }

  /** Judges a document and puts it into use. Throws a MetadataFailure, and changes nothing, when it cannot be used. */
  async #take(bytes: Uint8Array, from: string): Promise<void> {
    const { config, clock, log } = this.#parts
    const now = clock.now()
    const idp = await judgeMetadata(bytes, from, { config: config(), now, pool: this.#pool })
    const news = keysOf(this.#idp) !== keysOf(idp)
    this.#idp = idp
    this.#parts.inUse?.(idp)
    if (news) {
      const keys = idp.keys.map(key => key.fingerprint.slice(0, 16))
      log.info('signing keys of the IdP', { idp: idp.entityId, keys })
    }
    for (const warning of idp.warnings) log.warn('IdP metadata', { problem: warning })
    warnOfDates(idp, now, log)
  }
}

const CHANGED =
  'idpMetadataFile has changed since it was read: restart for the new metadata; until then logins with a new key of the identity provider fail'

function digestOf(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('base64url')
}

/** Certificates are used beyond their end, since the metadata vouches for its keys; but the IdP may have forgotten them. */
function warnOfDates(idp: IdpMetadata, now: Milliseconds, log: Logger): void {
  for (const { ends, fingerprint } of idp.keys) {
    if (ends - now > 30 * day) continue
    const message =
      ends <= now ? 'a certificate of the IdP has expired' : 'a certificate of the IdP expires soon'
    log.warn(message, { ends: new Date(ends), certificate: fingerprint.slice(0, 16) })
  }
  if (idp.validUntil !== undefined && idp.validUntil - now < day) {
    const validUntil = new Date(idp.validUntil)
    log.warn('the metadata of the IdP expires within a day', { validUntil })
  }
}

function keysOf(idp: IdpMetadata | undefined): string {
  return (idp?.keys ?? [])
    .map(key => key.fingerprint)
    .sort()
    .join()
}

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
interface DocumentValidators {
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
        const answered = `${uri.host} answered ${response.status} instead of 200`
        throw new MetadataFailure(`${answered}${placeOf(response.fields, url)}`)
      }
      const coding = response.fields.get('Content-Encoding') ?? ''
      if (CODINGS.test(coding)) {
        response.content.close()
        throw new MetadataFailure(
          `${uri.host} sends the document with Content-Encoding: ${coding.slice(0, 40)}, although it was asked for none (Accept-Encoding: identity)`,
        )
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

/** The content codings that change the bytes. Some servers name a character set in this field, such as `Content-Encoding: utf-8`. */
const CODINGS = /\b(?:gzip|compress|deflate|br|zstd)\b/i

/** Where a redirect leads, without the query, which may have a secret; empty when there is none. */
function placeOf(fields: Fields, url: string): string {
  const to = fields.get('Location')
  if (to === undefined || !URL.canParse(to, url)) return ''
  const { origin, pathname, search } = new URL(to, url)
  const place = `${origin}${pathname}`.slice(0, 300)
  return `; its Location is ${place}${search === '' ? '' : '?…'}, and redirects are not followed: where that is the address of your identity provider, set idpMetadataURL to it`
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
