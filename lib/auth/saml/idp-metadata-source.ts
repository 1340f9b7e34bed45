/**
 * Where the IdP's metadata comes from and how it stays fresh: a URL that is asked every 30 minutes, with a cache on disk beside
 * the dynamic file, or a local file that is read once. Owns the refresh loop and the one copy everybody uses.
 *
 * # Facts
 * - Remote: only 200 counts, 30 seconds, 10 MiB. Without a download there has to be a cache that is still valid.
 * - A signature by a key we do not know may mean that the IdP has changed keys since: it brings one refresh, a minute apart at
 *   the least, so that a forger cannot make us hammer the IdP.
 */
import { writeFileAtomically } from '../../atomic-file.ts'
import { readBounded } from '../../bounded-file.ts'
import type { Clock, Milliseconds } from '../../clock.ts'
import { explainError, Failure } from '../../errors.ts'
import { within } from '../../http/deadline.ts'
import { Fields } from '../../http/field.ts'
import type { OriginClient } from '../../http/origin.ts'
import { parseUri } from '../../http/target.ts'
import type { Logger } from '../../log.ts'
import { SingleFlight } from '../../single-flight.ts'
import type { SamlConfig } from './contract.ts'
import type { IdpMetadata } from './idp-metadata.ts'
import { type MetadataThread, readInThread } from './metadata-thread.ts'
import { metadataLimits } from './scan.ts'

const minute = 60_000
const day = 24 * 60 * minute

/** Numbers of the specification, section 8. */
const DOWNLOAD_TIME: Milliseconds = 30_000
const REFRESH_INTERVAL: Milliseconds = 30 * minute
/** Between refreshes that unknown keys ask for. */
const SUSPICION_INTERVAL: Milliseconds = minute

export interface SourceParts {
  readonly config: () => SamlConfig
  readonly origin: OriginClient
  readonly clock: Clock
  readonly log: Logger
  /** Bounds of the thread that reads a document; its own when not given. */
  readonly reading?: Pick<MetadataThread, 'deadline' | 'heapMegabytes'>
}

/** Metadata could not be had, or is of no use. The message says which, and where it was looked for. */
export class MetadataFailure extends Failure {
  constructor(message: string, cause?: unknown) {
    const publicText = 'The identity provider is not known at the moment.'
    super(message, { code: 'idp_metadata', fault: 'upstream', publicText, cause })
  }
}

export class IdpMetadataSource {
  readonly #parts: SourceParts
  readonly #closing = new AbortController()
  readonly #flight = new SingleFlight<void>()
  #idp: IdpMetadata | undefined
  #fetched: Milliseconds | undefined
  #refreshFailure: string | undefined
  #lastSuspicion = Number.NEGATIVE_INFINITY
  #cancelTimer: () => void = () => {}

  private constructor(parts: SourceParts) {
    this.#parts = parts
  }

  /** Gets the metadata for the first time. Throws a MetadataFailure when there is none, not even in the cache. */
  static async open(parts: SourceParts): Promise<IdpMetadataSource> {
    const source = new IdpMetadataSource(parts)
    const { idpMetadata } = parts.config()
    if (idpMetadata.from === 'file') {
      await source.#take(await readLocal(idpMetadata.path), idpMetadata.path)
    } else {
      await source.#firstDownload()
      source.#schedule()
    }
    return source
  }

  /** The IdP; undefined once its metadata has expired. */
  current(): IdpMetadata | undefined {
    const idp = this.#idp
    const now = this.#parts.clock.now()
    return idp?.validUntil !== undefined && idp.validUntil <= now ? undefined : idp
  }

  /** When the metadata in use was downloaded or read; undefined when it is from the cache. */
  get fetched(): Milliseconds | undefined {
    return this.#fetched
  }

  /** The last metadata, expired or not. */
  get last(): IdpMetadata | undefined {
    return this.#idp
  }

  /** What keeps logins from working, a sentence each. */
  problems(): readonly string[] {
    if (this.current() !== undefined) return []
    const failure = this.#refreshFailure === undefined ? '' : `; ${this.#refreshFailure}`
    return [`the metadata of the IdP has expired${failure}`]
  }

  /**
   * Called when a signature was made with a key the metadata does not have. Settles with true when there are other keys now,
   * so that verifying once more is worth it.
   */
  async refreshForUnknownKey(): Promise<boolean> {
    const { clock, config } = this.#parts
    if (config().idpMetadata.from === 'file') return false
    const before = keysOf(this.#idp)
    const now = clock.now()
    if (this.#flight.size === 0) {
      if (now - this.#lastSuspicion < SUSPICION_INTERVAL) return false
      this.#lastSuspicion = now
    }
    await this.#refresh()
    return keysOf(this.#idp) !== before
  }

  /** Ends the refresh loop. */
  close(): void {
    this.#cancelTimer()
    this.#closing.abort()
  }

  async #firstDownload(): Promise<void> {
    const { config, log } = this.#parts
    const { metadataCacheFile } = config()
    try {
      await this.#download()
    } catch (error) {
      try {
        await this.#take(await readLocal(metadataCacheFile), metadataCacheFile)
      } catch (cacheError) {
        const both = `${explainError(error)}; and there is no valid cache: ${explainError(cacheError)}`
        throw new MetadataFailure(`IdP metadata cannot be had: ${both}`, error)
      }
      this.#fetched = undefined
      this.#refreshFailure = explainError(error)
      log.warn('IdP metadata could not be downloaded; the cached metadata is used', {
        error,
        cache: metadataCacheFile,
      })
    }
  }

  #schedule(): void {
    this.#cancelTimer = this.#parts.clock.after(REFRESH_INTERVAL, () => {
      void this.#refresh().finally(() => {
        if (!this.#closing.signal.aborted) this.#schedule()
      })
    })
  }

  /** Never throws: what is known stays in use. */
  #refresh(): Promise<void> {
    return this.#flight.run('refresh', async () => {
      try {
        await this.#download()
      } catch (error) {
        if (this.#closing.signal.aborted) return
        this.#refreshFailure = explainError(error)
        this.#parts.log.warn('IdP metadata could not be refreshed; the last one stays in use', {
          error,
        })
      }
    })
  }

  async #download(): Promise<void> {
    const { config, log, clock } = this.#parts
    const { idpMetadata, metadataCacheFile } = config()
    if (idpMetadata.from !== 'url') return
    const bytes = await this.#fetch(idpMetadata.url)
    await this.#take(bytes, idpMetadata.url)
    this.#fetched = clock.now()
    this.#refreshFailure = undefined
    try {
      await writeFileAtomically(metadataCacheFile, bytes)
      log.info('IdP metadata was updated and cached', { cache: metadataCacheFile })
    } catch (error) {
      log.warn('IdP metadata was updated, but could not be cached', {
        error,
        cache: metadataCacheFile,
      })
    }
  }

  async #fetch(url: string): Promise<Buffer> {
    const uri = parseUri(url)
    if ('problem' in uri) throw new MetadataFailure(`idpMetadataURL: ${uri.problem}`)
    const limit = {
      clock: this.#parts.clock,
      after: DOWNLOAD_TIME,
      signal: this.#closing.signal,
      late: () =>
        new MetadataFailure(`${uri.host} did not deliver within ${DOWNLOAD_TIME / 1000} s`),
      aborted: () => new MetadataFailure('the service stops'),
    }
    return within(limit, async signal => {
      const response = await this.#parts.origin.request({
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
        await response.content.return?.()
        throw new MetadataFailure(`${uri.host} answered ${response.status} instead of 200`)
      }
      const blocks: Buffer[] = []
      let size = 0
      for await (const block of response.content) {
        size += block.length
        if (size > metadataLimits.size) throw new MetadataFailure('it is larger than 10 MiB')
        blocks.push(Buffer.from(block))
      }
      return Buffer.concat(blocks)
    })
  }

  async #trustedCertificates(): Promise<readonly string[] | undefined> {
    const path = this.#parts.config().idpMetadataCertificate
    if (path === undefined) return undefined
    const text = (await readBounded(path, metadataLimits.size)).bytes.toString()
    const found = text.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? []
    if (found.length === 0) throw new MetadataFailure(`${path} holds no certificate in PEM`)
    return found.map(pem => `${pem}\n`)
  }

  /** Reads and judges a document and puts it into use. Throws a MetadataFailure and changes nothing when it is of no use. */
  async #take(bytes: Uint8Array, from: string): Promise<void> {
    const certificates = await this.#trustedCertificates()
    const { config, clock, log } = this.#parts
    const { idpEntityId: entityId, allowSha1 } = config()
    const job = { bytes, entityId, certificates, allowSha1 }
    const thread = { clock, signal: this.#closing.signal, ...this.#parts.reading }
    const read = await readInThread(job, thread).catch(error => {
      throw new MetadataFailure(`the metadata of ${from}: ${explainError(error)}`, error)
    })
    if (!read.ok) throw new MetadataFailure(`the metadata of ${from} ${read.problem}`)
    const { idp } = read
    const now = clock.now()
    if (idp.validUntil !== undefined && idp.validUntil <= now) {
      const when = new Date(idp.validUntil).toISOString()
      throw new MetadataFailure(`the metadata of ${from} expired at ${when}`)
    }
    const news = keysOf(this.#idp) !== keysOf(idp)
    this.#idp = idp
    if (news) {
      const keys = idp.keys.map(key => key.fingerprint.slice(0, 16))
      log.info('signing keys of the IdP', { idp: idp.entityId, keys })
    }
    for (const warning of idp.warnings) log.warn('IdP metadata', { problem: warning })
    warnOfDates(idp, now, log)
  }
}

/** Certificates are used beyond their end, as metadata is what vouches for keys; but somebody forgot something. */
function warnOfDates(idp: IdpMetadata, now: Milliseconds, log: Logger): void {
  for (const { ends, fingerprint } of idp.keys) {
    if (ends - now > 30 * day) continue
    const message =
      ends <= now ? 'a certificate of the IdP has expired' : 'a certificate of the IdP expires soon'
    log.warn(message, { ends: new Date(ends), certificate: fingerprint.slice(0, 16) })
  }
  if (idp.validUntil !== undefined && idp.validUntil - now < day) {
    log.warn('the metadata of the IdP expires within a day', {
      validUntil: new Date(idp.validUntil),
    })
  }
}

function keysOf(idp: IdpMetadata | undefined): string {
  return (idp?.keys ?? [])
    .map(key => key.fingerprint)
    .sort()
    .join()
}

async function readLocal(path: string): Promise<Buffer> {
  try {
    return (await readBounded(path, metadataLimits.size)).bytes
  } catch (error) {
    throw new MetadataFailure(`${path} cannot be read: ${explainError(error)}`, error)
  }
}
