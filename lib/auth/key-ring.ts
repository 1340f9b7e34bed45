/**
 * The keys in use: those of the dynamic file, which is watched. Deleting or replacing it takes effect within a second; a file
 * that cannot be read leaves the keys in use and says so.
 */
import { stat } from 'node:fs/promises'
import type { Clock, Milliseconds } from '../clock.ts'
import { systemCode } from '../errors.ts'
import type { Logger } from '../log.ts'
import {
  checkSaveable,
  type DynamicConfig,
  type Making,
  makeDynamicConfig,
  readDynamicConfig,
  type SecretKey,
  saveDynamicConfig,
  upgraded,
  withoutRetired,
} from './dynamic-config.ts'
import type { IdentityKey } from './identity-key.ts'
import type { SamlKeyPair, SamlKeys, SealingKey } from './saml/contract.ts'

export interface KeyRingOptions extends Omit<Making, 'now'> {
  readonly path: string
  readonly clock: Clock
  readonly log: Logger
}

/** How often the file is looked at. */
const INTERVAL: Milliseconds = 1000

export class KeyRing implements SamlKeys {
  readonly #options: KeyRingOptions
  #config: DynamicConfig
  /** What the file looked like when it was last read or written; undefined when it was not there. */
  #seen: string | undefined
  /** Told apart from every other state of the keys: caches compare it. */
  #generation = 0
  #cancelWatch = () => {}
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
    const seen = await appearance(path)
    const found = await readDynamicConfig(path)
    const now = clock.now()
    const newer = found === undefined ? undefined : await upgraded(found, { ...options, now })
    const config = newer ?? found ?? (await makeDynamicConfig({ ...options, now }))
    const ring = new KeyRing(options, usable(config, now))
    ring.#seen = seen
    if (found === undefined || newer !== undefined) {
      await saveDynamicConfig(path, config)
      ring.#seen = await appearance(path)
      if (newer === undefined) log.info('made keys of sessions and of SAML', { path })
      else log.info('added keys an older version did not have', { path })
    }
    if (found !== undefined && found.entityId !== entityId) {
      log.warn(
        'the dynamic configuration was made for another entity ID; every instance needs a file of its own',
        {
          path,
          made_for: found.entityId,
        },
      )
    }
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
      if (now === this.#seen) return
      this.#seen = now
      const found = await readDynamicConfig(path)
      if (found === undefined) await this.#remake()
      else await this.#take(found)
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
    await this.#save(config)
  }

  async #save(config: DynamicConfig): Promise<void> {
    const { path } = this.#options
    await saveDynamicConfig(path, config)
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
    const { ino, mtimeMs, size } = await stat(path)
    return `${ino} ${mtimeMs} ${size}`
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined
    throw error
  }
}
