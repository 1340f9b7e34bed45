/**
 * The settings that are in force, and the rules that are made of them. A reload replaces the settings, except those that need a
 * restart: they stay as they were, and a warning names them.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Clock, Milliseconds } from '../async/clock.ts'
import { waitingSentences } from '../config/restart.ts'
import { type Config, inForce, needRestart, needsAuthority } from './config/config.ts'
import { type OriginCredentials, readCredentials } from './fetch/origin-credentials.ts'
import type { OpenListeners } from './listening.ts'
import { type Rules, rulesOf } from './policy/policy.ts'
import { ownIdentity } from './policy/routing.ts'

/** A configuration, and the warnings about it for the overview. */
export interface LoadedConfig {
  readonly config: Config
  readonly warnings?: readonly string[]
}

interface RulesInForceParts {
  readonly listening: Pick<OpenListeners, 'ports'>
  readonly clock: Clock
  /** Whether there is a listener for TLS. */
  readonly secure: boolean
}

/** The time between two readings of the machine's addresses. */
const identityInterval: Milliseconds = 60_000

export class RulesInForce {
  readonly #parts: RulesInForceParts
  readonly #started: Config
  #warnings: readonly string[]
  #waiting: readonly string[] = []
  #rules: Rules
  #credentials: OriginCredentials
  /** Returns the rules that are in force. Parts call it for each decision, so that a reload takes effect. */
  readonly current = (): Rules => this.#rules

  constructor({ config, warnings = [] }: LoadedConfig, parts: RulesInForceParts) {
    this.#parts = parts
    this.#started = config
    this.#warnings = warnings
    this.#rules = rulesOf(config, ownIdentity(config, parts.listening.ports))
    this.#credentials = readCredentials(config.archives, process.env)
  }

  get config(): Config {
    return this.#rules.config
  }

  /** The warnings about the configuration and the files it names, and the changed settings that wait for a restart. */
  get warnings(): readonly string[] {
    return [...this.#warnings, ...this.#credentials.warnings, ...this.pending]
  }

  get credentials(): OriginCredentials {
    return this.#credentials
  }

  /** A sentence about the changed settings that wait for a restart; empty when there are none. */
  get pending(): readonly string[] {
    return waitingSentences(this.#waiting)
  }

  /**
   * Reads the addresses of the machine now and at each interval, because they change. The rules are made again only when the addresses
   * have changed.
   */
  refresh(): void {
    const own = ownIdentity(this.config, this.#parts.listening.ports)
    if (!isDeepStrictEqual(own, this.#rules.policy.own)) this.#rules = rulesOf(this.config, own)
    this.#parts.clock.after(identityInterval, () => this.refresh())
  }

  /** Replaces the settings. Throws a Failure, and changes nothing, when a file of credentials cannot be used. */
  replace({ config, warnings = [] }: LoadedConfig): void {
    // The service opens the parts that make certificates when it starts.
    const certifying = needsAuthority(this.#started, this.#parts.secure)
    this.#credentials = readCredentials(config.archives, process.env)
    this.#warnings = warnings
    this.#waiting = needRestart(this.#started, config, certifying)
    const next = inForce(this.#started, config, certifying)
    this.#rules = rulesOf(next, ownIdentity(next, this.#parts.listening.ports))
  }
}
