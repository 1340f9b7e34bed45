/**
 * The settings that are in force, and the rules that are made of them. A reload puts other settings in their place; those that
 * need a restart stay as they were, and are told.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Clock, Milliseconds } from '../async/clock.ts'
import { type Config, inForce, needRestart } from './config/config.ts'
import { OriginCredentials } from './fetch/origin-credentials.ts'
import type { Listening } from './listening.ts'
import { type Rules, rulesOf } from './policy/policy.ts'
import { type Own, ownIdentity } from './policy/routing.ts'

/** A configuration, and what is doubtful about it, for the overview. */
export interface LoadedConfig {
  readonly config: Config
  readonly warnings?: readonly string[]
}

interface RulesInForceParts {
  readonly listening: Pick<Listening, 'ports'>
  readonly clock: Clock
}

/** How often the addresses of the machine are read again. */
const identityInterval: Milliseconds = 60_000

export class RulesInForce {
  readonly #parts: RulesInForceParts
  readonly #started: Config
  #warnings: readonly string[]
  #pending: readonly string[] = []
  /** What the rules were made with. */
  #own: Own
  #rules: Rules
  #credentials: OriginCredentials
  /** The rules of this moment, for parts that ask anew each time. */
  readonly current = (): Rules => this.#rules

  constructor({ config, warnings = [] }: LoadedConfig, parts: RulesInForceParts) {
    this.#parts = parts
    this.#started = config
    this.#warnings = warnings
    this.#own = ownIdentity(config, parts.listening.ports)
    this.#rules = rulesOf(config, this.#own)
    this.#credentials = OriginCredentials.read(config.archives, process.env)
  }

  get config(): Config {
    return this.#rules.config
  }

  /** What is doubtful about the configuration and the files it names. */
  get warnings(): readonly string[] {
    return [...this.#warnings, ...this.#credentials.warnings]
  }

  /** The credentials that the proxy has for origins. */
  get credentials(): OriginCredentials {
    return this.#credentials
  }

  /** A sentence for each setting that takes effect when the service is restarted. */
  get pending(): readonly string[] {
    return this.#pending
  }

  /**
   * Looks, now and from time to time, whether the machine has other addresses: they come and go. The rules are made anew only then; what
   * they remember of clients stays otherwise.
   */
  refresh(): void {
    const own = ownIdentity(this.config, this.#parts.listening.ports)
    if (!isDeepStrictEqual(own, this.#own)) {
      this.#own = own
      this.#rules = rulesOf(this.config, own)
    }
    this.#parts.clock.after(identityInterval, () => this.refresh())
  }

  /**
   * Puts what was read in the place of the settings of before. `certifying`: the service has the parts that make certificates. Throws a
   * Failure, and changes nothing, when a file of credentials cannot be used.
   */
  replace({ config, warnings = [] }: LoadedConfig, certifying: boolean): void {
    this.#credentials = OriginCredentials.read(config.archives, process.env)
    this.#warnings = warnings
    this.#pending = needRestart(this.#started, config, certifying).map(
      setting => `${setting} has changed; it takes effect when the service is restarted`,
    )
    const next = inForce(this.#started, config, certifying)
    this.#own = ownIdentity(next, this.#parts.listening.ports)
    this.#rules = rulesOf(next, this.#own)
  }
}
