/**
 * The rules of one instance that are in force: its settings, and what is made of them at each reload. Settings that need a
 * restart stay as they were, and are told.
 */

import type { Milliseconds } from '../async/clock.ts'
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
  /** Since when rules are only watched; undefined when none is. */
  readonly watched: Milliseconds | undefined
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
    const rules = await rulesOf(config, parts)
    return new RulesInForce(parts, { ...rules, waiting: [], watched: watchedSince(rules, parts) })
  }

  /**
   * Replaces the configuration in force, whole or not at all. Throws a Failure and changes nothing when it cannot, and
   * the reason of `givenUp` when that has fired meanwhile.
   */
  async replace(wanted: Config, givenUp?: AbortSignal): Promise<void> {
    const { config, groupNames: before, watched } = this.#rules
    const next = await rulesOf(inForce(this.#started, wanted, config), this.#parts, before)
    if (givenUp?.aborted) {
      if (next.groupNames !== before) await next.groupNames?.close()
      throw givenUp.reason
    }
    // Compared with the start: settings that need a restart stay pending across later reloads.
    const waiting = needRestart(this.#started, wanted, config)
    // Requests that are under way keep their old backend; its connections go when they are idle.
    this.#rules = { ...next, waiting, watched: watchedSince(next, this.#parts, watched) }
    // Nothing waits from here on: with a disk that hangs, a reload that took effect would be told as one that was given up.
    if (next.groupNames !== before) void before?.close()
  }

  /** What the administrator should know of the rules. */
  remark(): string | undefined {
    const { config, watched } = this.#rules
    if (watched === undefined) return undefined
    return `${watchedRules(config)} since ${new Date(watched).toISOString()}`
  }

  async close(): Promise<void> {
    await this.#rules.groupNames?.close()
  }
}

/** Since when rules are only watched, which the log says when it begins. */
function watchedSince(
  { config }: Pick<Rules, 'config'>,
  { clock, log }: Pick<RulesInForceParts, 'clock' | 'log'>,
  before?: Milliseconds,
): Milliseconds | undefined {
  if (config.access?.enforced === undefined) return undefined
  if (before === undefined) log.warn(watchedRules(config))
  return before ?? clock.now()
}

function watchedRules({ access }: Config): string {
  const numbers = access?.rules.flatMap(({ watched, number }) => (watched ? [number] : []))
  const which = numbers?.join(', ') || 'where no rule matches'
  return `rules of access are only watched: what they would refuse passes (${which})`
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
