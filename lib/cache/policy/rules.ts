/**
 * The rules in force: the configuration and what is compiled from it to decide about requests.
 */
import type { Config } from '../config/config.ts'
import type { Policy } from './policy.ts'
import type { RouteRules } from './routing.ts'

/** A reload replaces all of it at once. */
export interface Rules {
  readonly config: Config
  readonly policy: Policy
  readonly routes: RouteRules
}
