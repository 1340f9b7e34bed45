/**
 * What becomes of a CONNECT the policy admits: carried through unread, opened, or refused. Pure.
 */
import type { Authority } from '../../http/message/target.ts'
import type { HttpsConfig } from '../config/config.ts'
import type { HostPattern } from '../config/setting-kinds.ts'
import { closestPattern, type HostList, hostList } from '../policy/host-list.ts'

export type TunnelMode = 'tunnel' | 'intercept' | 'refuse'

/** The settings of `https`, ready for look-ups. */
export interface ModeRules {
  readonly refuse: HostList
  readonly tunnel: HostList
  readonly intercept: HostList
  readonly otherwise: TunnelMode
}

export type ModeSettings = Pick<
  HttpsConfig,
  'intercept' | 'interceptDomains' | 'tunnelDomains' | 'refuseDomains'
>

export function compileModes(settings: ModeSettings): ModeRules {
  return {
    refuse: hostList(settings.refuseDomains),
    tunnel: hostList(settings.tunnelDomains),
    intercept: hostList(settings.interceptDomains),
    otherwise: settings.intercept ? 'intercept' : 'tunnel',
  }
}

/** The mode, and the pattern it comes from; undefined when it is the general rule. */
export interface DecidedMode {
  readonly mode: TunnelMode
  readonly rule: string | undefined
}

/**
 * The closest pattern wins: `archive.example.org` over `.example.org`, one with a port over one without. Of two alike the more
 * careful mode: refuse, then tunnel. Hosts that are never stored (`passthrough`) are opened only when a list says so.
 */
export function tunnelMode(
  authority: Authority,
  rules: ModeRules,
  passthrough: boolean,
): DecidedMode {
  let best: { readonly mode: TunnelMode; readonly pattern: HostPattern } | undefined
  for (const mode of ['refuse', 'tunnel', 'intercept'] as const) {
    const pattern = closestPattern(rules[mode], authority)
    if (pattern !== undefined && (best === undefined || isCloser(pattern, best.pattern))) {
      best = { mode, pattern }
    }
  }
  if (best !== undefined) return { mode: best.mode, rule: best.pattern.text }
  return { mode: passthrough ? 'tunnel' : rules.otherwise, rule: undefined }
}

function isCloser(a: HostPattern, b: HostPattern): boolean {
  if (a.subdomains !== b.subdomains) return b.subdomains
  if (a.host.length !== b.host.length) return a.host.length > b.host.length
  return a.port !== undefined && b.port === undefined
}
