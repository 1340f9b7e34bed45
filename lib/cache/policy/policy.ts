/**
 * Decides whether a client may reach a target, and how. Decisions are pure. They are made again for every redirect and every routed
 * target.
 *
 * # Facts
 * - A host list compares whole labels: `.example.org` covers example.org and the hosts below it, never badexample.org.
 * - A pattern with a port admits that port alone, for fetches and tunnels; one without admits the ports of `ports` and
 *   `connect_ports`.
 * - A name does not say to which address it resolves. The operator who lists a host trusts it at any address. A host that is not
 *   listed is reached at public addresses only. This file checks that for an address in the target, and the origin client for the
 *   addresses that a name resolves to.
 */
import { type Authority, formatAuthority, type TargetUri } from '../../http/message/target.ts'
import type { ClientLimits } from '../../http/server/clients.ts'
import { AddressSet, isLoopback, isPublicAddress, normaliseAddress } from '../../ip.ts'
import type { Config } from '../config/config.ts'
import { type HostPattern, hasPort, type Ports } from '../config/setting-kinds.ts'
import { canonicalUri } from '../store/key.ts'
import {
  type Confinement,
  type Confinements,
  closestPattern,
  compileParent,
  confinementOf,
  confinementsOf,
  hostList,
  isOwn,
  type OwnIdentity,
  ownIdentity,
  parentsOf,
  patternsFor,
  type RouteRules,
  routeRules,
} from './routing.ts'

interface TargetApproach {
  readonly kind: 'fetch' | 'connect'
  readonly authority: Authority
}

export interface ClientApproach {
  readonly authority: Authority
  readonly client: string
  /** Whether Via shows that the request runs in a circle, for example because it names this proxy (RFC 9110 section 7.6.3). */
  readonly inCircle: boolean
}

/** The setting that causes a refusal. `public-address`, `loop` and `credentials` are not settings; these rules always apply. */
export type DenyRule =
  | 'clients'
  | 'archives.clients'
  | 'loop'
  | 'credentials'
  | 'https.prevent'
  | 'https.refuse_domains'
  | 'deny'
  | 'domains'
  | 'ports'
  | 'connect_ports'
  | 'public-address'

export type Admission = AdmittedTarget | Refusal

export interface AdmittedTarget {
  readonly allow: 'cache' | 'passthrough' | 'tunnel'
  /** Whether the host may be at a private address. If it may not, connections go to public addresses only. */
  readonly trusted: boolean
  /** The host pattern that admits it, as the configuration spells it; `*` when there are no lists. */
  readonly rule: string
}

export interface Refusal {
  readonly deny: DenyRule
  /** The sentence for the client. It names the setting, the refused value and the change that would admit it. */
  readonly sentence: string
}

type TunnelMode = 'tunnel' | 'intercept' | 'refuse'

/** The settings of the policy, ready for look-ups. */
export type Policy = Readonly<ReturnType<typeof compilePolicy>>

/** Prepares the policy of one configuration. Throws a Failure for a client network that is no CIDR. */
export function compilePolicy(settings: Config, own: OwnIdentity) {
  const { https } = settings
  const withMode = (mode: TunnelMode, patterns: readonly HostPattern[]) =>
    patterns.map(pattern => ({ ...pattern, mode }))
  return {
    own,
    parents: (settings.parentProxy?.parents ?? []).map(compileParent),
    clients: AddressSet.fromCidrs(settings.clients),
    /** Peers whose connections begin with the PROXY protocol. */
    balancers: AddressSet.fromCidrs(settings.proxyProtocol),
    /** Clients without limits of their own. */
    unlimited: AddressSet.fromCidrs(settings.limits.perClient.except),
    preventConnect: https.prevent,
    /** Whether no list restricts the hosts. Then every host is admitted, and those of `private_domains` are trusted. */
    open: settings.domains.length === 0 && settings.passthroughDomains.length === 0,
    domains: hostList([...settings.domains, ...settings.privateDomains]),
    /** Networks whose addresses count as public. */
    privateNetworks: AddressSet.fromCidrs(settings.privateNetworks),
    passthroughDomains: hostList(settings.passthroughDomains),
    ports: settings.ports,
    connectPorts: settings.connectPorts,
    /** The patterns of the three lists of `https`. The first of equal patterns counts, so the modes are in the order of caution. */
    modes: hostList([
      ...withMode('refuse', https.refuseDomains),
      ...withMode('tunnel', https.tunnelDomains),
      ...withMode('intercept', https.interceptDomains),
    ]),
    /** The mode of tunnels to hosts in none of these lists. */
    otherMode: https.intercept ? ('intercept' as const) : ('tunnel' as const),
  }
}

/**
 * The refusal for a client that may not use this proxy; undefined when it may. Callers ask this before `admitTarget`, so that a
 * client outside `clients` learns nothing about the other settings.
 */
export function admitClient(
  { client, authority, inCircle }: ClientApproach,
  policy: Policy,
): Refusal | undefined {
  if (!policy.clients.has(client)) {
    return deny(
      'clients',
      `${client} is in no network under \`clients\`; add its network there to let it use this proxy.`,
    )
  }
  return inCircle
    ? deny(
        'loop',
        `${formatAuthority(authority)} leads back to this proxy: the request has come through it before. Proxies name each other, as \`parent_proxy\` for one.`,
      )
    : undefined
}

/** The limits of one client; undefined when it has none. Clients of a socket in the file system have no address and no limits. */
export function limitsOfClient(
  address: string,
  { config: { limits }, policy: { balancers, unlimited } }: Rules,
): ClientLimits | undefined {
  const { perClient } = limits
  if (perClient.connections === undefined && perClient.rate === undefined) return undefined
  if (address === '' || isLoopback(address)) return undefined
  return balancers.has(address) || unlimited.has(address) ? undefined : perClient
}

/** The refusal for a client that may not have the files of a confined archive; undefined when it may. */
export function admitToArchive(
  client: string,
  { clients, setting }: Confinement,
): Refusal | undefined {
  if (clients.has(client)) return undefined
  return deny(
    'archives.clients',
    `${client} is in no network under \`${setting}\`; add its network there to let it have files of this archive.`,
  )
}

/** The refusal to follow a redirect into a confined archive for a file of another archive; undefined when it may be followed. */
export function admitRedirect(
  to: TargetUri,
  wanted: TargetUri,
  confinements: Confinements,
): Refusal | undefined {
  if (confinements.length === 0) return undefined
  // A Location can have any spelling, and confinements compare canonical ones.
  const place = canonicalUri(to)
  if (place === undefined) return deny('archives.clients', 'It leads to no place of an archive.')
  const confinement = confinementOf(place, confinements)
  if (confinement === undefined) return undefined
  if (confinementOf(wanted, confinements)?.scope === confinement.scope) return undefined
  return deny(
    'archives.clients',
    `It leads into an archive whose files are for the clients under \`${confinement.setting}\`; ask for them there.`,
  )
}

/** Admits or refuses a target, independent of the client. */
export function admitTarget(approach: TargetApproach, policy: Policy): Admission {
  const { kind, authority } = approach
  const target = formatAuthority(authority)
  if (isOwn(authority, policy.own)) {
    return deny('loop', `${target} leads back to this proxy; ask for the archive by its own name.`)
  }
  if (kind === 'connect' && policy.preventConnect) {
    return deny(
      'https.prevent',
      `A tunnel to ${target} is refused by \`https.prevent\`; set it to false to allow CONNECT, or write the source as http://HTTPS///host/path.`,
    )
  }
  return admitHost(approach, policy)
}

/**
 * The mode of a tunnel that the policy admits, and the pattern that decides it; `rule` is undefined when no pattern does. The closest
 * pattern decides: `archive.example.org` before `.example.org`, one with a port before one without. A host whose files are never
 * stored is intercepted only when a list names it. No host is intercepted when the policy would refuse the requests in the tunnel.
 */
export function tunnelMode(
  authority: Authority,
  policy: Policy,
): { readonly mode: TunnelMode; readonly rule: string | undefined } {
  const closest = closestPattern(policy.modes, authority)
  const within = admitTarget({ kind: 'fetch', authority }, policy)
  const stored = 'allow' in within && within.allow !== 'passthrough'
  const mode = closest?.mode ?? (stored ? policy.otherMode : 'tunnel')
  const unread = mode === 'intercept' && 'deny' in within
  return { mode: unread ? 'tunnel' : mode, rule: closest?.text }
}

/**
 * Host and port of the parent proxy for an authority; undefined when it is asked directly. Several parents are joined by `or`.
 */
export function parentOf(authority: Authority, { parents }: Policy): string | undefined {
  const names = parentsOf(authority, parents)
  return names.length === 0 ? undefined : names.join(' or ')
}

/** A tunnel that may be opened, carried through unread or intercepted. */
interface AdmittedTunnel {
  readonly mode: Exclude<TunnelMode, 'refuse'>
  readonly trusted: boolean
}

/** Decides about CONNECT. Without `asking` no client is meant: then every client counts as allowed. */
export function admitTunnel(
  authority: Authority,
  policy: Policy,
  asking?: Omit<ClientApproach, 'authority'>,
): AdmittedTunnel | Refusal {
  const refusal = asking && admitClient({ ...asking, authority }, policy)
  const admission = refusal ?? admitTarget({ kind: 'connect', authority }, policy)
  if ('deny' in admission) return admission
  const { mode, rule } = tunnelMode(authority, policy)
  if (mode !== 'refuse') return { mode, trusted: admission.trusted }
  const target = formatAuthority(authority)
  return deny(
    'https.refuse_domains',
    `A tunnel to ${target} is refused by \`https.refuse_domains\`; remove ${rule} there to allow it.`,
  )
}

/** Whether a CONNECT to this authority would be admitted and intercepted. */
export function isIntercepted(authority: Authority, policy: Policy): boolean {
  const tunnel = admitTunnel(authority, policy)
  return 'mode' in tunnel && tunnel.mode === 'intercept'
}

/** Whether hosts that no list names may be at an address. */
export function isAllowedAddress(
  address: string,
  { privateNetworks }: Pick<Policy, 'privateNetworks'>,
): boolean {
  return isPublicAddress(address) || privateNetworks.has(address)
}

/** The first of the patterns that admits a port. */
function closest(
  patterns: readonly HostPattern[],
  port: number,
  open: Ports,
): HostPattern | undefined {
  return patterns.find(one => (one.port === undefined ? hasPort(open, port) : one.port === port))
}

/**
 * Admits a host. With lists, it admits only the hosts they name, and `passthrough_domains` takes precedence over `domains`. Without
 * lists, it admits every host at a public address and the hosts of `private_domains` at any address. The port must be open as well.
 */
function admitHost({ kind, authority }: TargetApproach, policy: Policy): Admission {
  const fetching = kind === 'fetch'
  const [setting, ports] = fetching
    ? (['ports', policy.ports] as const)
    : (['connect_ports', policy.connectPorts] as const)
  const { host, port } = authority
  const passthrough = patternsFor(policy.passthroughDomains, host)
  const domains = patternsFor(policy.domains, host)
  const passed = closest(passthrough, port, ports)
  const admitted = passed ?? closest(domains, port, ports)
  const stored = fetching ? 'cache' : 'tunnel'
  if (admitted !== undefined) {
    const allow = fetching && passed !== undefined ? 'passthrough' : stored
    return { allow, trusted: true, rule: admitted.text }
  }
  const target = formatAuthority(authority)
  if (policy.open) {
    const near = normaliseAddress(host) !== undefined && !isAllowedAddress(host, policy)
    const listing = `list ${target} under \`private_domains\` to allow it.`
    if (!hasPort(ports, port)) {
      // The setting replaces its default, so the sentence names all of its members.
      const setTo = `set \`${setting}: [${[...namesOf(ports), port].join(', ')}]\` to allow it.`
      const why = `${openly(ports)}; ${near ? listing : setTo}`
      return deny(setting, `${target} is refused by \`${setting}\`: ${why}`)
    }
    if (!near) return { allow: stored, trusted: false, rule: '*' }
    return deny(
      'public-address',
      `${target} is refused because it is not a public address and in no list; ${listing}`,
    )
  }
  const near = [...passthrough, ...domains]
  const list = passthrough.length > 0 ? 'passthrough_domains' : 'domains'
  if (near.some(pattern => pattern.port === undefined)) {
    const why = `${openly(ports)}; list the host as ${target} under \`${list}\` to allow it.`
    return deny(setting, `${target} is refused by \`${setting}\`: ${why}`)
  }
  if (near.length > 0) {
    const listed = `${and(near.map(({ text }) => text))} ${near.length === 1 ? 'is' : 'are'} listed`
    const sentence = `${target} is refused by \`${list}\`: only ${listed}; add ${target} to allow it.`
    return deny('domains', sentence)
  }
  const name = host.includes(':') ? `[${host}]` : host
  return deny(
    'domains',
    `${target} is refused by \`domains\`: ${name} is listed neither there nor under \`passthrough_domains\`; add ${name} to one of them to allow it.`,
  )
}

function namesOf(ports: Ports): ReadonlyArray<string | number> {
  return ports.map(each => (typeof each === 'number' ? each : `${each.first}-${each.last}`))
}

function openly(ports: Ports): string {
  const names = namesOf(ports)
  if (names.length === 0) return 'no port is open'
  return names.length === 1 ? `only ${names[0]} is open` : `only ${and(names)} are open`
}

function and(items: ReadonlyArray<string | number>): string {
  return items.length < 2 ? items.join() : `${items.slice(0, -1).join(', ')} and ${items.at(-1)}`
}

function deny(rule: DenyRule, sentence: string): Refusal {
  return { deny: rule, sentence }
}

/** The configuration and the rules made from it, which a reload replaces together. */
export interface Rules {
  readonly config: Config
  readonly policy: Policy
  readonly routes: RouteRules
  readonly confinements: Confinements
}

/** The rules of a configuration. `own` defaults to the names and addresses of the machine with the configured ports. */
export function rulesOf(
  config: Config,
  own = ownIdentity(
    config,
    config.listen.map(({ port }) => port),
  ),
): Rules {
  const policy = compilePolicy(config, own)
  return { config, policy, routes: routeRules(config), confinements: confinementsOf(config) }
}
