/**
 * The settings that are in force, and the rules that are made of them. A reload puts other settings in their place; those that
 * need a restart stay as they were, and are told.
 */
import type { Clock, Milliseconds } from '../async/clock.ts'
import { type Config, inForce, needRestart } from './config/config.ts'
import { OriginCredentials } from './fetch/origin-credentials.ts'
import type { Listening } from './listening.ts'
import { type Rules, rulesOf } from './policy/policy.ts'

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
  #rules: Rules
  #credentials: OriginCredentials
  /** The rules of this moment, for parts that ask anew each time. */
  readonly current = (): Rules => this.#rules

  constructor({ config, warnings = [] }: LoadedConfig, parts: RulesInForceParts) {
    this.#parts = parts
    this.#started = config
    this.#warnings = warnings
    this.#rules = rulesOf(config, parts.listening.ports)
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

  /** Makes the rules of the settings anew, now and from time to time: addresses of the machine come and go. */
  refresh(): void {
    this.#rules = rulesOf(this.config, this.#parts.listening.ports)
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
    this.#rules = rulesOf(next, this.#parts.listening.ports)
  }
}
