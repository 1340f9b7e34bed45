/**
 * Holds the keys in use, and follows the dynamic file they come from.
 *
 * Deleting or replacing the file takes effect within a second. A file that cannot be read leaves the keys in use as they are, and
 * the log says so.
 */
import { stat } from 'node:fs/promises'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { Failure, systemCode } from '../../errors.ts'
import { WatchedFile } from '../../files/watched-file.ts'
import type { Logger } from '../../log/log.ts'
import {
  type DynamicConfig,
  type IdentityKey,
  isLive,
  type Key,
  type KeyMakingOptions,
  makeDynamicConfig,
  type SamlKeyPair,
  type SealingKey,
  type SecretKey,
} from './dynamic-config.ts'
import {
  checkSaveable,
  closeToOthers,
  readDynamicConfig,
  saveDynamicConfig,
} from './dynamic-file.ts'

interface KeyRingOptions extends Omit<KeyMakingOptions, 'now'> {
  readonly path: string
  /** Whether the operator distributes the file. Then this instance only reads it, and never makes, completes or rotates it. */
  readonly shared?: boolean
  readonly clock: Clock
  readonly log: Logger
}

const noKeys = { entityId: '', session: [], sealing: [], saml: [], identity: [] }

export class KeyRing {
  readonly #options: KeyRingOptions
  readonly #file: WatchedFile
  #config: DynamicConfig = noKeys
  #generation = 0
  #unsaved = false
  /** The moment the next key retires. */
  #nextEnd: Milliseconds = Number.POSITIVE_INFINITY

  private constructor(options: KeyRingOptions) {
    const { path, clock, log } = options
    this.#options = options
    this.#file = new WatchedFile({
      path,
      clock,
      readAgain: () => this.#changed(),
      write: () => saveDynamicConfig(path, this.#config),
      reportFailure: error =>
        log.error('the keys in use stay: the dynamic configuration cannot be used', {
          path,
          error,
        }),
    })
  }

  /** Reads the file, or makes keys that `begin` saves. Throws a Failure when the file could be neither read nor written. */
  static async open(options: KeyRingOptions): Promise<KeyRing> {
    const { path, log, entityId, shared = false } = options
    if (!shared) await checkSaveable(path)
    const ring = new KeyRing(options)
    await ring.#file.look()
    const found = await readDynamicConfig(path)
    if (found !== undefined) await ring.#take(found)
    else if (shared) throw noSharedKeys(path, 'there is no such file')
    else {
      ring.#use(await ring.#make())
      ring.#unsaved = true
    }
    if (ring.#config.entityId !== entityId) {
      log.warn(
        'the dynamic configuration was made for another entity ID, as after a change of domain; every instance needs a file of its own',
        { path, made_for: ring.#config.entityId },
      )
    }
    return ring
  }

  /** Saves new keys, and follows the file from now on. A start that fails before this call leaves no file. Throws a Failure. */
  async begin(): Promise<void> {
    const found = this.#unsaved ? await this.#saveFirst() : undefined
    this.#unsaved = false
    if (found !== undefined) await this.#take(found)
    this.#file.watch()
  }

  /** Changes whenever the keys do, so that caches can compare it. */
  get generation(): number {
    this.#live()
    return this.#generation
  }

  /** Keys of session tokens. Newest first: the first signs, all verify. */
  session(): readonly SecretKey[] {
    return this.#live().session
  }

  /** Keys of sealed values. Newest first: the first seals, all open. */
  sealingKeys(): readonly SealingKey[] {
    return this.#live().sealing
  }

  /** The SAML key pairs, newest first. IdPs should encrypt to the first; all decrypt and are published. */
  saml(): readonly SamlKeyPair[] {
    return this.#live().saml
  }

  /** Keys of the signed identity, newest first. */
  identity(): readonly IdentityKey[] {
    return this.#live().identity
  }

  /** Checks the file now. Never throws. */
  check(): Promise<void> {
    return this.#file.check()
  }

  /** Ends the watch; settles when nothing is being read or written. */
  close(): Promise<void> {
    return this.#file.close()
  }

  /** Saves the first keys, or answers the keys of another process that has made the file meanwhile. */
  async #saveFirst(): Promise<DynamicConfig | undefined> {
    const { path, log } = this.#options
    try {
      await saveDynamicConfig(path, this.#config, { exclusive: true })
      log.info('made keys of sessions and of SAML', { path })
      return undefined
    } catch (error) {
      const exists = systemCode(error instanceof Error ? error.cause : undefined) === 'EEXIST'
      const theirs = exists ? await readDynamicConfig(path) : undefined
      if (theirs === undefined) throw error
      return theirs
    } finally {
      await this.#file.look()
    }
  }

  async #changed(): Promise<void> {
    const { path, log } = this.#options
    const found = await readDynamicConfig(path)
    if (found !== undefined) {
      await this.#take(found)
      log.info('the dynamic configuration was replaced: its keys are in use', { path })
      return
    }
    if (this.#options.shared === true) throw noSharedKeys(path, 'the file is gone')
    const made = await this.#make()
    // Making keys takes a while: the administrator may have put another file instead of the deleted one.
    if (await this.#file.look()) return this.#changed()
    // New keys are used even when they cannot be saved: the administrator who deleted the file wants the old ones gone.
    this.#use(made)
    await this.#file.write()
    log.info('the dynamic configuration was deleted: all keys are new', { path })
  }

  /** Uses the keys of the file. */
  async #take(found: DynamicConfig): Promise<void> {
    const { path, log, shared } = this.#options
    this.#use(found)
    if (shared === true) return this.#checkShared()
    if (!(await closeToOthers(path))) return
    log.warn(
      'others on this machine could read the keys of sessions; if one of them might have, make new keys: delete the file',
      { path },
    )
    await this.#file.look()
  }

  /** Warns of distributed keys that every user can read, and leaves the file as it is: the operator distributes it. */
  async #checkShared(): Promise<void> {
    const { path, log } = this.#options
    if (((await stat(path)).mode & 0o007) === 0) return
    log.warn('every user of this machine could read the keys of sessions', { path })
  }

  #make(): Promise<DynamicConfig> {
    return makeDynamicConfig({ ...this.#options, now: this.#options.clock.now() })
  }

  /** Uses these keys without those that have retired; but a kind whose every key has retired keeps its newest. */
  #use(config: DynamicConfig): void {
    const now = this.#options.clock.now()
    this.#nextEnd = Number.POSITIVE_INFINITY
    this.#generation += 1
    const keep = <K extends Key>(keys: readonly K[]) => {
      const live = keys.filter(isLive(now))
      for (const { retires } of live) this.#nextEnd = Math.min(this.#nextEnd, retires ?? Infinity)
      return live.length > 0 ? live : keys.slice(0, 1)
    }
    const { entityId, session, sealing, saml, identity } = config
    const secrets = { session: keep(session), sealing: keep(sealing) }
    this.#config = { entityId, ...secrets, saml: keep(saml), identity: keep(identity) }
  }

  #live(): DynamicConfig {
    if (this.#options.clock.now() >= this.#nextEnd) this.#use(this.#config)
    return this.#config
  }
}

function noSharedKeys(path: string, why: string): Failure {
  return new Failure(
    `the keys in ${path} (keys.shared) cannot be used: ${why}; copy the file of the instance that makes and rotates the keys`,
    { code: 'SHARED_KEYS' },
  )
}
