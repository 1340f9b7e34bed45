/**
 * The rules of one instance that are in force: its settings, and what is made of them anew at each reload. Settings that need a
 * restart stay as they were, and are told.
 */

import type { Backend } from './backend/backend.ts'
import type { Config } from './config/config.ts'
import { inForce, needRestart } from './config/config.ts'
import { type Brand, readBrand } from './pages/brand.ts'
import type { Rules } from './pipeline.ts'
import { GroupNames } from './session/group-names.ts'

interface RulesInForceParts extends Omit<Parameters<typeof GroupNames.open>[0], 'path'> {
  /** Makes the backend of a configuration. */
  readonly backendOf: (config: Config) => Backend
}

export class RulesInForce {
  readonly #parts: RulesInForceParts
  readonly #started: Config
  #rules: Rules
  #groupNames: GroupNames | undefined
  #waiting: readonly string[] = []
  /** The rules of this moment, for parts that ask anew each time. */
  readonly current = (): Rules => this.#rules

  private constructor(
    config: Config,
    parts: RulesInForceParts,
    { brand, groupNames }: { readonly brand: Brand; readonly groupNames: GroupNames | undefined },
  ) {
    this.#parts = parts
    this.#started = config
    this.#groupNames = groupNames
    this.#rules = { config, brand, backend: parts.backendOf(config) }
  }

  /** Throws a Failure when a file that the configuration names cannot be used. */
  static async open(config: Config, parts: RulesInForceParts): Promise<RulesInForce> {
    const brand = await readBrand(config)
    return new RulesInForce(config, parts, { brand, groupNames: await namesFor(config, parts) })
  }

  get config(): Config {
    return this.#rules.config
  }

  get backend(): Backend {
    return this.#rules.backend
  }

  get brand(): Brand {
    return this.#rules.brand
  }

  /** The names of groups under `identity.rename`. */
  get groupNames(): GroupNames | undefined {
    return this.#groupNames
  }

  /** Settings that wait for a restart. */
  get waiting(): readonly string[] {
    return this.#waiting
  }

  /**
   * Puts a configuration in the place of the one of before, whole or not at all. Throws a Failure and changes nothing when it cannot, and
   * the reason of `givenUp` when that has fired meanwhile.
   */
  async replace(config: Config, givenUp?: AbortSignal): Promise<void> {
    const next = inForce(this.#started, config, this.config)
    const brand = await readBrand(next)
    const backend = this.#parts.backendOf(next)
    const before = this.#groupNames
    const names = before?.path === next.groupNames ? before : await namesFor(next, this.#parts)
    if (givenUp?.aborted) {
      if (names !== before) await names?.close()
      throw givenUp.reason
    }
    // Compared with the start: settings that need a restart stay pending across later reloads.
    this.#waiting = needRestart(this.#started, config, this.config)
    // Requests that are under way keep their old backend; its connections go when they are idle.
    this.#rules = { config: next, backend, brand }
    this.#groupNames = names
    if (names !== before) await before?.close()
  }

  /** Ends the watch of files. */
  async close(): Promise<void> {
    await this.#groupNames?.close()
  }
}

async function namesFor(
  { groupNames: path }: Config,
  parts: RulesInForceParts,
): Promise<GroupNames | undefined> {
  return path === undefined ? undefined : GroupNames.open({ ...parts, path })
}
