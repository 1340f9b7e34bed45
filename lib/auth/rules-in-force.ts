/**
 * The rules of one instance that are in force: its settings, and what is made of them at each reload. Settings that need a
 * restart stay as they were, and are told.
 */

import type { Config } from './config/config.ts'
import { inForce, needRestart } from './config/config.ts'
import { readBrand } from './pages/page.ts'
import type { Rules } from './pipeline.ts'
import { GroupNames } from './session/group-names.ts'

interface RulesInForceParts extends Omit<Parameters<typeof GroupNames.open>[0], 'path'> {
  readonly partsOf: (config: Config) => Pick<Rules, 'identity' | 'backend'>
}

interface RulesNow extends Rules {
  /** The names of groups under `identity.rename`. */
  readonly groupNames: GroupNames | undefined
  /** Settings that wait for a restart. */
  readonly waiting: readonly string[]
}

export class RulesInForce {
  readonly #parts: RulesInForceParts
  readonly #started: Config
  #rules: RulesNow
  /** The rules of this moment, for parts that ask again each time. */
  readonly current = (): RulesNow => this.#rules

  private constructor(parts: RulesInForceParts, rules: RulesNow) {
    this.#parts = parts
    this.#started = rules.config
    this.#rules = rules
  }

  /** Throws a Failure when a file that the configuration names cannot be used. */
  static async open(config: Config, parts: RulesInForceParts): Promise<RulesInForce> {
    return new RulesInForce(parts, { ...(await rulesOf(config, parts)), waiting: [] })
  }

  /**
   * Replaces the configuration in force, whole or not at all. Throws a Failure and changes nothing when it cannot, and
   * the reason of `givenUp` when that has fired meanwhile.
   */
  async replace(wanted: Config, givenUp?: AbortSignal): Promise<void> {
    const { config, groupNames: before } = this.#rules
    const next = await rulesOf(inForce(this.#started, wanted, config), this.#parts, before)
    if (givenUp?.aborted) {
      if (next.groupNames !== before) await next.groupNames?.close()
      throw givenUp.reason
    }
    // Compared with the start: settings that need a restart stay pending across later reloads.
    const waiting = needRestart(this.#started, wanted, config)
    // Requests that are under way keep their old backend; its connections go when they are idle.
    this.#rules = { ...next, waiting }
    // Nothing waits from here on: with a disk that hangs, a reload that took effect would be told as one that was given up.
    if (next.groupNames !== before) void before?.close()
  }

  async close(): Promise<void> {
    await this.#rules.groupNames?.close()
  }
}

/** What is made of a configuration; the names of groups of `before` stay while they are those of the same file. */
async function rulesOf(config: Config, parts: RulesInForceParts, before?: GroupNames) {
  const brand = await readBrand(config)
  const made = { config, brand, ...parts.partsOf(config) }
  const { groupNames: path } = config
  if (path === undefined) return { ...made, groupNames: undefined }
  const groupNames = before?.path === path ? before : await GroupNames.open({ ...parts, path })
  return { ...made, groupNames }
}
