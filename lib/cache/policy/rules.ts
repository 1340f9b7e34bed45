/**
 * The rules in force: what follows from the configuration and decides about requests. A reload replaces them all at once.
 */
import type { Config } from '../config/config.ts'
import type { Policy } from './policy.ts'
import type { RouteRules } from './route.ts'

/** What a reload replaces, all at once. */
export interface Rules {
  readonly config: Config
  readonly policy: Policy
  readonly routes: RouteRules
}
