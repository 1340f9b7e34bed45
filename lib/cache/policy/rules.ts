/**
 * The rules in force: the configuration and what is compiled from it to decide about requests.
 */
import type { Config } from '../config/config.ts'
import { ownIdentity } from './own-identity.ts'
import { compilePolicy, type Policy } from './policy.ts'
import { type RouteRules, routeRules } from './routing.ts'

/** A reload replaces all of it at once. */
export interface Rules {
  readonly config: Config
  readonly policy: Policy
  readonly routes: RouteRules
}

/** The rules of a configuration. `ports` are those the service listens on; a command takes the configured ones. */
export function rulesOf(config: Config, ports = config.listen.map(({ port }) => port)): Rules {
  const policy = compilePolicy(config, ownIdentity(config, ports))
  return { config, policy, routes: routeRules(config) }
}
