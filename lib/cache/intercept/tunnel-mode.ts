/**
 * Decides whether a CONNECT the policy admits is tunnelled, intercepted or refused. Pure.
 */
import type { Authority } from '../../http/message/target.ts'
import type { HttpsConfig } from '../config/config.ts'
import type { HostPattern } from '../config/setting-kinds.ts'
import { closestPattern, type HostList, hostList } from '../policy/hosts.ts'

type TunnelMode = 'tunnel' | 'intercept' | 'refuse'

/** The settings of `https`, ready for look-ups. */
export interface ModeRules {
  readonly patterns: HostList<HostPattern & { readonly mode: TunnelMode }>
  readonly otherwise: TunnelMode
}

type ModeSettings = Pick<
  HttpsConfig,
  'intercept' | 'interceptDomains' | 'tunnelDomains' | 'refuseDomains'
>

export function compileModes(settings: ModeSettings): ModeRules {
  const withMode = (mode: TunnelMode, patterns: readonly HostPattern[]) =>
    patterns.map(pattern => ({ ...pattern, mode }))
  return {
    // Of equal patterns the first counts: the more careful mode.
    patterns: hostList([
      ...withMode('refuse', settings.refuseDomains),
      ...withMode('tunnel', settings.tunnelDomains),
      ...withMode('intercept', settings.interceptDomains),
    ]),
    otherwise: settings.intercept ? 'intercept' : 'tunnel',
  }
}

/** The mode, and the pattern it comes from; undefined when it is the general rule. */
export interface DecidedMode {
  readonly mode: TunnelMode
  readonly rule: string | undefined
}

/**
 * The closest pattern decides: `archive.example.org` before `.example.org`, one with a port before one without. Hosts that are
 * never stored (`passthrough`) are intercepted only when a list says so.
 */
export function tunnelMode(
  authority: Authority,
  { patterns, otherwise }: ModeRules,
  passthrough: boolean,
): DecidedMode {
  const closest = closestPattern(patterns, authority)
  if (closest !== undefined) return { mode: closest.mode, rule: closest.text }
  return { mode: passthrough ? 'tunnel' : otherwise, rule: undefined }
}
