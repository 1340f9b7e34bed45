/**
 * May this client reach this target, and how? Pure; asked again for every redirect and every routed host.
 *
 * # Facts
 * - A host list compares whole labels: `.example.org` is example.org and what lies below it, never badexample.org.
 * - A pattern with a port admits that port alone, for fetches and tunnels; one without admits the ports that are open to all.
 * - A name tells nothing about where it leads. Whoever lists a host trusts it wherever it is; any other host is reached at
 *   public addresses only, which the origin client checks after DNS. Addresses written out are judged here.
 */
import { type Authority, formatAuthority, type Scheme } from '../../http/message/target.ts'
import { AddressSet, isPublicAddress, normaliseAddress } from '../../ip.ts'
import type { Config } from '../config/config.ts'
import type { HostPattern } from '../config/setting-kinds.ts'
import { isOwn, type Own } from '../request/own-authority.ts'
import { type HostList, hostList, matching } from './host-list.ts'

/** What is to be reached. */
export interface TargetApproach {
  readonly kind: 'fetch' | 'connect'
  readonly scheme: Scheme
  readonly authority: Authority
}

/** What a client wants to reach. */
export interface Approach extends TargetApproach {
  /** The client's IP address. */
  readonly client: string
  /** Whether the request's Via names us: it has been here before (RFC 9110 section 7.6.3). */
  readonly passedBefore: boolean
}

/** The setting a refusal comes from; `public-address` and `loop` are no settings but hold always. */
export type DenyRule =
  | 'clients'
  | 'loop'
  | 'https.prevent'
  | 'https.refuse_domains'
  | 'domains'
  | 'ports'
  | 'connect_ports'
  | 'public-address'

export type Admission = Admitted | Denied

export interface Admitted {
  readonly allow: 'cache' | 'passthrough' | 'tunnel'
  /** Whether the host may be at a private address. When not, only public addresses may be connected to. */
  readonly trusted: boolean
  /** The host pattern that admits it, as written; `*` when there are no lists. */
  readonly rule: string
}

export interface Denied {
  readonly deny: DenyRule
  /** For the client: the setting, the value met and what to change. */
  readonly sentence: string
}

/** The settings of the policy, ready for look-ups. */
export interface Policy {
  readonly own: Own
  readonly clients: AddressSet
  readonly preventConnect: boolean
  /** Whether no host is listed at all: every host is welcome, none is trusted. */
  readonly open: boolean
  readonly domains: HostList
  readonly passthroughDomains: HostList
  readonly ports: readonly number[]
  readonly connectPorts: readonly number[]
}

export type PolicySettings = Pick<
  Config,
  'domains' | 'passthroughDomains' | 'clients' | 'ports' | 'connectPorts'
> & { readonly https: Pick<Config['https'], 'prevent'> }

/** Made once for each configuration. Throws a Failure for a client network that is no CIDR. */
export function compilePolicy(settings: PolicySettings, own: Own): Policy {
  return {
    own,
    clients: AddressSet.fromCidrs(settings.clients),
    preventConnect: settings.https.prevent,
    open: settings.domains.length === 0 && settings.passthroughDomains.length === 0,
    domains: hostList(settings.domains),
    passthroughDomains: hostList(settings.passthroughDomains),
    ports: settings.ports,
    connectPorts: settings.connectPorts,
  }
}

/** Admits or refuses, with the reason. The order tells a stranger as little as possible: who asks comes first. */
export function admit(approach: Approach, policy: Policy): Admission {
  return admitClient(approach, policy) ?? admitTarget(approach, policy)
}

/** The part of the question that is about who asks: the refusal, undefined when this client may ask. */
export function admitClient(
  { client, authority, passedBefore }: Approach,
  policy: Policy,
): Denied | undefined {
  if (!policy.clients.has(client)) return deny('clients', sentences.clients(client))
  if (passedBefore) return deny('loop', sentences.loop(formatAuthority(authority)))
  return undefined
}

/** The part of the question that is about the target alone: for redirects, which we follow on our own behalf. */
export function admitTarget(approach: TargetApproach, policy: Policy): Admission {
  const { kind, authority } = approach
  if (isOwn(authority, policy.own)) return deny('loop', sentences.loop(formatAuthority(authority)))
  if (kind === 'connect' && policy.preventConnect) {
    return deny('https.prevent', sentences.prevent(formatAuthority(authority)))
  }
  return policy.open ? admitAnyHost(approach, policy) : admitListedHost(approach, policy)
}

/** No lists: every host at a public address, through the open ports. */
function admitAnyHost({ kind, authority }: TargetApproach, policy: Policy): Admission {
  const { setting, ports } = openPorts(kind, policy)
  const target = formatAuthority(authority)
  if (!ports.includes(authority.port)) {
    const facts = { setting, ports, port: authority.port, list: 'domains' } as const
    return deny(setting, sentences.openPort(target, facts))
  }
  if (normaliseAddress(authority.host) !== undefined && !isPublicAddress(authority.host)) {
    return deny('public-address', sentences.address(target))
  }
  return { allow: kind === 'connect' ? 'tunnel' : 'cache', trusted: false, rule: '*' }
}

/** With lists, only what they name. `passthrough_domains` wins: it stores nothing, so it errs on the safe side. */
function admitListedHost({ kind, authority }: TargetApproach, policy: Policy): Admission {
  const { setting, ports } = openPorts(kind, policy)
  const { host, port } = authority
  const admits = (pattern: HostPattern) =>
    pattern.port === undefined ? ports.includes(port) : pattern.port === port

  const passthrough = matching(policy.passthroughDomains, host)
  const passed = passthrough.find(admits)
  if (passed !== undefined) {
    const allow = kind === 'connect' ? 'tunnel' : 'passthrough'
    return { allow, trusted: true, rule: passed.text }
  }
  const domains = matching(policy.domains, host)
  const cached = domains.find(admits)
  if (cached !== undefined) {
    return { allow: kind === 'connect' ? 'tunnel' : 'cache', trusted: true, rule: cached.text }
  }

  const target = formatAuthority(authority)
  const near = [...passthrough, ...domains]
  const list = passthrough.length > 0 ? 'passthrough_domains' : 'domains'
  if (near.some(pattern => pattern.port === undefined)) {
    return deny(setting, sentences.port(target, { setting, ports, port, list }))
  }
  if (near.length > 0) return deny('domains', sentences.otherPort(target, list, near))
  return deny('domains', sentences.domains(target, host.includes(':') ? `[${host}]` : host))
}

function openPorts(
  kind: TargetApproach['kind'],
  policy: Policy,
): Pick<PortFacts, 'setting' | 'ports'> {
  return kind === 'connect'
    ? { setting: 'connect_ports', ports: policy.connectPorts }
    : { setting: 'ports', ports: policy.ports }
}

function deny(rule: DenyRule, sentence: string): Denied {
  return { deny: rule, sentence }
}

const sentences = {
  clients: (client: string) =>
    `${client} is in no network under \`clients\`; add its network there to let it use this proxy.`,
  loop: (target: string) =>
    `${target} leads back to this proxy; ask for the archive by its own name.`,
  prevent: (target: string) =>
    `A tunnel to ${target} is refused by \`https.prevent\`; set it to false to allow CONNECT, or write the source as http://HTTPS///host/path.`,
  address: (target: string) =>
    `${target} is refused because it is no public address and \`domains\` is empty; list ${target} there, together with every other host in use, to allow it.`,
  openPort: (target: string, { setting, ports, port }: PortFacts) =>
    `${target} is refused by \`${setting}\`: ${openly(ports)}; add ${port} there to allow it.`,
  port: (target: string, { setting, ports, list }: PortFacts) =>
    `${target} is refused by \`${setting}\`: ${openly(ports)}; list the host as ${target} under \`${list}\` to allow it.`,
  otherPort: (target: string, list: string, near: readonly HostPattern[]) =>
    `${target} is refused by \`${list}\`: only ${and(near.map(pattern => pattern.text))} ${near.length === 1 ? 'is' : 'are'} listed; add ${target} to allow it.`,
  domains: (target: string, host: string) =>
    `${target} is refused by \`domains\`: ${host} is listed neither there nor under \`passthrough_domains\`; add ${host} to one of them to allow it.`,
}

interface PortFacts {
  readonly setting: 'ports' | 'connect_ports'
  readonly ports: readonly number[]
  readonly port: number
  /** The list that names the host. */
  readonly list: 'domains' | 'passthrough_domains'
}

function openly(ports: readonly number[]): string {
  if (ports.length === 0) return 'no port is open'
  return ports.length === 1 ? `only ${ports[0]} is open` : `only ${and(ports)} are open`
}

function and(items: ReadonlyArray<string | number>): string {
  return items.length < 2 ? items.join() : `${items.slice(0, -1).join(', ')} and ${items.at(-1)}`
}
