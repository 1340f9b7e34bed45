/**
 * Host lists of the configuration: which pattern covers a host. Whole labels are compared, whatever the case. Pure.
 */
import type { Authority } from '../../http/message/target.ts'
import { normaliseAddress } from '../../ip.ts'
import type { HostPattern } from '../config/setting-kinds.ts'

/** Patterns by the host they name; those with a leading dot apart. */
export interface HostList {
  readonly exact: ReadonlyMap<string, readonly HostPattern[]>
  readonly below: ReadonlyMap<string, readonly HostPattern[]>
}

/** Made once for each configuration. */
export function hostList(patterns: readonly HostPattern[]): HostList {
  return {
    exact: byHost(patterns.filter(pattern => !pattern.subdomains)),
    below: byHost(patterns.filter(pattern => pattern.subdomains)),
  }
}

function byHost(patterns: readonly HostPattern[]): ReadonlyMap<string, readonly HostPattern[]> {
  const found = new Map<string, HostPattern[]>()
  for (const pattern of patterns) {
    const host = normaliseAddress(pattern.host) ?? pattern.host.toLowerCase()
    const before = found.get(host)
    if (before === undefined) found.set(host, [pattern])
    else before.push(pattern)
  }
  return found
}

/** The patterns that cover a host whatever its port, the closest first. Addresses have no subdomains. */
export function matching(list: HostList, host: string): readonly HostPattern[] {
  const address = normaliseAddress(host)
  if (address !== undefined) return list.exact.get(address) ?? []
  const found = [...(list.exact.get(host) ?? [])]
  for (let rest = host; ; rest = rest.slice(rest.indexOf('.') + 1)) {
    found.push(...(list.below.get(rest) ?? []))
    if (!rest.includes('.')) return found
  }
}

/** The closest pattern that covers a host at its port; one with a port before one without. */
export function closestPattern(list: HostList, { host, port }: Authority): HostPattern | undefined {
  const [first, ...rest] = matching(list, host).filter(
    pattern => pattern.port === undefined || pattern.port === port,
  )
  const equal = rest.find(
    pattern =>
      pattern.port !== undefined &&
      pattern.host === first?.host &&
      pattern.subdomains === first.subdomains,
  )
  return first?.port === undefined ? (equal ?? first) : first
}
