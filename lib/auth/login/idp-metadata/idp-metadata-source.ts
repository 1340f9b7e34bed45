/**
 * Keeps the IdP's metadata fresh: from a URL asked every 30 minutes or sooner, with a cache on disk beside the dynamic file, or
 * from a local file read once. Owns the refresh loop and the one copy in use.
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
import { type Clock, day, type Milliseconds } from '../../../async/clock.ts'
import { repeat } from '../../../async/repeat.ts'
import { SingleFlight } from '../../../async/single-flight.ts'
import { explainError } from '../../../errors.ts'
import { writeFileAtomically } from '../../../files/atomic-file.ts'
import type { OriginClient } from '../../../http/client/client.ts'
import type { Logger } from '../../../log/log.ts'
import type { IdpMetadata } from '../../../saml/metadata/idp-metadata.ts'
import type { SamlConfig } from '../../config/config.ts'
import { metadataBounds, type PoolBounds, WorkerPool } from '../worker/pool.ts'
import {
  type DocumentValidators,
  fetchMetadata,
  judgeMetadata,
  MetadataFailure,
  readMetadata,
} from './idp-metadata-document.ts'

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
      await source.#take(await readMetadata(idpMetadata.path), idpMetadata.path)
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
          throw new MetadataFailure(`IdP metadata cannot be had: ${both}`, error)
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
