/**
 * The keys in use: those of the dynamic file, which is watched. Deleting or replacing it takes effect within a second; a file
 * that cannot be read leaves the keys in use and says so.
 */
import { stat } from 'node:fs/promises'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { systemCode } from '../../errors.ts'
import type { Logger } from '../../log/log.ts'
import type { IdentityKey } from '../identity/identity-key.ts'
import {
  type DynamicConfig,
  type Making,
  makeDynamicConfig,
  type SamlKeyPair,
  type SealingKey,
  type SecretKey,
  upgraded,
  withoutRetired,
} from './dynamic-config.ts'
import {
  checkSaveable,
  closeToOthers,
  readDynamicConfig,
  saveDynamicConfig,
} from './dynamic-file.ts'

/** Keys of the dynamic file. Every call answers what the file says now. */
export interface SamlKeys {
  /** Newest first: the first seals, all open. 32 bytes each, for AES-256-GCM. */
  sealing(): readonly SealingKey[]
  /** Newest first: the first signs and is what IdPs are to encrypt to; the others still decrypt and are still published. */
  saml(): readonly SamlKeyPair[]
}

export interface KeyRingOptions extends Omit<Making, 'now'> {
  readonly path: string
  readonly clock: Clock
  readonly log: Logger
}

/** How often the file is looked at. */
const INTERVAL: Milliseconds = 1000
const RETRY: Milliseconds = 60_000

export class KeyRing implements SamlKeys {
  readonly #options: KeyRingOptions
  #config: DynamicConfig
  /** What the file looked like when it was last read or written; undefined when it was not there. */
  #seen: string | undefined
  /** Told apart from every other state of the keys: caches compare it. */
  #generation = 0
  #cancelWatch = () => {}
  /** When keys that could not be saved are tried again. */
  #retryAt = Number.NEGATIVE_INFINITY
  #closed = false
  #checking: Promise<void> = Promise.resolve()

  private constructor(options: KeyRingOptions, config: DynamicConfig) {
    this.#options = options
    this.#config = config
  }

  /** Reads the file, or makes it. Throws a Failure when it can be neither read nor written. */
  static async open(options: KeyRingOptions): Promise<KeyRing> {
    const { path, clock, log, entityId } = options
    await checkSaveable(path)
    const before = await appearance(path)
    const { config: first, made, seen } = await readOrMake(options, before)
    const now = clock.now()
    const newer = made ? undefined : await upgraded(first, { ...options, now })
    const config = newer ?? first
    const ring = new KeyRing(options, usable(config, now))
    ring.#seen = seen
    if (newer !== undefined) {
      await saveDynamicConfig(path, config)
      ring.#seen = await appearance(path)
      log.info('added keys an older version did not have', { path })
    }
    if (made) log.info('made keys of sessions and of SAML', { path })
    else if (config.entityId !== entityId) {
      log.warn(
        'the dynamic configuration was made for another entity ID; every instance needs a file of its own',
        {
          path,
          made_for: config.entityId,
        },
      )
    }
    if (!made) await ring.#warnIfExposed()
    ring.#watch()
    return ring
  }

  /** Changes whenever the keys do. */
  get generation(): number {
    return this.#generation
  }

  /** Keys of session tokens, newest first. */
  session(): readonly SecretKey[] {
    return this.#live().session
  }

  sealing(): readonly SealingKey[] {
    return this.#live().sealing
  }

  saml(): readonly SamlKeyPair[] {
    return this.#live().saml
  }

  /** Keys of the signed identity, newest first. */
  identity(): readonly IdentityKey[] {
    return this.#live().identity
  }

  /** Looks at the file now. Never throws. */
  async check(): Promise<void> {
    const { path, log } = this.#options
    try {
      const now = await appearance(path)
      if (now === this.#seen) return now === undefined ? await this.#saveAgain() : undefined
      this.#seen = now
      const found = await readDynamicConfig(path)
      if (found === undefined) await this.#remake()
      else {
        await this.#take(found)
        await this.#warnIfExposed()
      }
      log.info(
        found === undefined
          ? 'the dynamic configuration was deleted: all keys are new'
          : 'the dynamic configuration was replaced: its keys are in use',
        { path },
      )
    } catch (error) {
      log.error('the keys in use stay: the dynamic configuration cannot be used', { path, error })
    }
  }

  /** Ends the watch; settles when nothing is being read or written any more. */
  async close(): Promise<void> {
    this.#closed = true
    this.#cancelWatch()
    await this.#checking
  }

  /** One that an older version wrote, such as a backup, is given what it lacks. */
  async #take(found: DynamicConfig): Promise<void> {
    const now = this.#options.clock.now()
    const newer = await upgraded(found, { ...this.#options, now })
    this.#use(usable(newer ?? found, now))
    if (newer !== undefined) await this.#save(newer)
  }

  /** New keys are used even when they cannot be saved: whoever deleted the file wants the old ones gone. */
  async #remake(): Promise<void> {
    const { clock } = this.#options
    const config = await makeDynamicConfig({ ...this.#options, now: clock.now() })
    this.#use(config)
    this.#retryAt = clock.now() + RETRY
    await this.#save(config)
  }

  async #save(config: DynamicConfig): Promise<void> {
    const { path } = this.#options
    await saveDynamicConfig(path, config)
    this.#seen = await appearance(path)
  }

  /** New keys that could not be saved would be others again after a restart. */
  async #saveAgain(): Promise<void> {
    const { path, clock, log } = this.#options
    if (clock.now() < this.#retryAt) return
    this.#retryAt = clock.now() + RETRY
    await saveDynamicConfig(path, this.#config)
    this.#seen = await appearance(path)
    log.info('the keys in use are saved', { path })
  }

  async #warnIfExposed(): Promise<void> {
    const { path, log } = this.#options
    if (!(await closeToOthers(path))) return
    log.warn(
      'others on this machine could read the keys of sessions; if anybody might have, make new ones: delete the file',
      { path },
    )
    this.#seen = await appearance(path)
  }

  #use(config: DynamicConfig): void {
    this.#config = config
    this.#generation += 1
  }

  #live(): DynamicConfig {
    const live = usable(this.#config, this.#options.clock.now())
    if (count(live) < count(this.#config)) this.#use(live)
    return this.#config
  }

  #watch(): void {
    if (this.#closed) return
    this.#cancelWatch = this.#options.clock.after(INTERVAL, () => {
      this.#checking = this.check().finally(() => this.#watch())
    })
  }
}

/** What the file says; or new keys, unless somebody else has made the file meanwhile: then theirs. */
async function readOrMake(options: KeyRingOptions, before: string | undefined) {
  const { path, clock } = options
  const found = await readDynamicConfig(path)
  if (found !== undefined) return { config: found, made: false, seen: before }
  const config = await makeDynamicConfig({ ...options, now: clock.now() })
  try {
    await saveDynamicConfig(path, config, { exclusive: true })
    return { config, made: true, seen: await appearance(path) }
  } catch (error) {
    const first = systemCode(error instanceof Error ? error.cause : undefined) === 'EEXIST'
    const theirs = first ? await readDynamicConfig(path) : undefined
    if (theirs === undefined) throw error
    return { config: theirs, made: false, seen: await appearance(path) }
  }
}

function count({ session, sealing, saml, identity }: DynamicConfig): number {
  return session.length + sealing.length + saml.length + identity.length
}

/** A file whose every key of a kind has retired is still better than none. */
function usable(config: DynamicConfig, now: Milliseconds): DynamicConfig {
  const live = withoutRetired(config, now)
  const keep = <K>(left: readonly K[], all: readonly K[]) =>
    left.length > 0 ? left : all.slice(0, 1)
  return {
    ...config,
    session: keep(live.session, config.session),
    sealing: keep(live.sealing, config.sealing),
    saml: keep(live.saml, config.saml),
    identity: keep(live.identity, config.identity),
  }
}

async function appearance(path: string): Promise<string | undefined> {
  try {
    const { ino, mtimeMs, size, mode, uid } = await stat(path)
    return [ino, mtimeMs, size, mode, uid].join(' ')
  } catch (error) {
    const code = systemCode(error)
    return code === 'ENOENT' ? undefined : `cannot be looked at: ${code}`
  }
}
