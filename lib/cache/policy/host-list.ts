/**
 * Finds the patterns of a host list that cover a host. Whole labels are compared, in any case. Pure.
 */
import type { Authority } from '../../http/message/target.ts'
import { normaliseAddress } from '../../ip.ts'
import type { HostPattern } from '../config/setting-kinds.ts'

/** Patterns by the host they name; those with a leading dot apart. */
export interface HostList<Pattern extends HostPattern = HostPattern> {
  readonly exact: ReadonlyMap<string, readonly Pattern[]>
  readonly below: ReadonlyMap<string, readonly Pattern[]>
}

/** Made once for each configuration. */
export function hostList<Pattern extends HostPattern>(
  patterns: readonly Pattern[],
): HostList<Pattern> {
  return {
    exact: byHost(patterns.filter(pattern => !pattern.subdomains)),
    below: byHost(patterns.filter(pattern => pattern.subdomains)),
  }
}

/** Of the patterns of one host those with a port come first, then in their own order. */
function byHost<Pattern extends HostPattern>(
  patterns: readonly Pattern[],
): ReadonlyMap<string, readonly Pattern[]> {
  const found = new Map<string, readonly Pattern[]>()
  const ported = patterns.filter(({ port }) => port !== undefined)
  for (const pattern of [...ported, ...patterns.filter(({ port }) => port === undefined)]) {
    const host = normaliseAddress(pattern.host) ?? pattern.host.toLowerCase()
    found.set(host, [...(found.get(host) ?? []), pattern])
  }
  return found
}

/** The patterns that cover a host at any port, the closest first. Addresses have no subdomains. */
export function matching<Pattern extends HostPattern>(
  list: HostList<Pattern>,
  host: string,
): readonly Pattern[] {
  const address = normaliseAddress(host)
  if (address !== undefined) return list.exact.get(address) ?? []
  const found = [...(list.exact.get(host) ?? [])]
  for (let rest = host; ; rest = rest.slice(rest.indexOf('.') + 1)) {
    found.push(...(list.below.get(rest) ?? []))
    if (!rest.includes('.')) return found
  }
}

/** The closest pattern that covers a host at its port; one with a port before one without. */
export function closestPattern<Pattern extends HostPattern>(
  list: HostList<Pattern>,
  { host, port }: Authority,
): Pattern | undefined {
  return matching(list, host).find(one => one.port === undefined || one.port === port)
}
