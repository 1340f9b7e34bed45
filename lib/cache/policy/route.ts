/**
 * Where a target is really kept: the canonical target it is stored under and the origins that can be asked for it. Pure.
 * Every origin named here passes the policy again before it is asked.
 */
import type { TargetUri } from '../../http/message/target.ts'

/** The rules of routing, in the order they are tried; routing.ts makes them. */
export type RouteRules = readonly RouteRule[]

/** One rule: a new place for the targets it knows, undefined for all others. */
export interface RouteRule {
  /** The setting it comes from, for logs and `explain`. */
  readonly name: string
  /** Both ends in words, for people. */
  readonly shown?: { readonly from: string; readonly to: string }
  /** Knows canonical targets only. */
  readonly route: (asked: TargetUri) => Omit<Route, 'rule'> | undefined
}

export interface Route {
  /** What the cache key is made of: targets with equal content share it. */
  readonly target: TargetUri
  /** Whom to ask, best first; never empty. */
  readonly origins: readonly [TargetUri, ...TargetUri[]]
  /** The rule that applied; undefined when the target is its own origin. */
  readonly rule?: string
  readonly shown?: RouteRule['shown']
}

/** The first rule that knows the target decides; without one it stays where it is. */
export function route(asked: TargetUri, rules: RouteRules): Route {
  for (const rule of rules) {
    const found = rule.route(asked)
    if (found === undefined) continue
    return { ...found, rule: rule.name, ...(rule.shown === undefined ? {} : { shown: rule.shown }) }
  }
  return { target: asked, origins: [asked] }
}
