/**
 * Hosts, and the ways to them: routes a target to a mirror by `remap`, `archives`, then `overrides`, whose file is fetched and
 * stored in its place; says which parent proxies a host is asked by way of, which archives some clients alone may have, and which
 * hosts a list covers. Pure.
 *
 * # Facts
 * - A rule is applied once and to canonical targets, so no spelling of a path climbs out of the prefix it matched.
 * - The policy admits both targets, the one asked for and the one routed to, before an origin is asked.
 * - Which hosts have one archive together stands in config/known-archives.ts, or in the file of the operator.
 */

import { hostname, networkInterfaces } from 'node:os'
import {
  type Authority,
  defaultPort,
  formatAuthority,
  type TargetUri,
} from '../../http/message/target.ts'
import { AddressSet, normaliseAddress } from '../../ip.ts'
import type { Config } from '../config/config.ts'
import type { KnownArchive } from '../config/known-archives.ts'
import type { HostPattern, ParentProxies, ParentProxy, Place } from '../config/setting-kinds.ts'

/** The rules of routing, in the order they are tried. */
export type RouteRules = readonly RouteRule[]

/** One rule: a new place for the targets it applies to, undefined for all others. */
export interface RouteRule {
  /** The setting it comes from, for logs and `explain`. */
  readonly name: string
  /** What it applies to, and where those requests go: a host or the beginning of a URL, in words for people. */
  readonly from: string
  readonly to: string
  /** Takes canonical targets only. */
  readonly apply: (asked: TargetUri) => TargetUri | undefined
}

interface Route {
  /** The target that is fetched, and that the cache key is made of. */
  readonly target: TargetUri
  /** The rule that applied; undefined when the target stays where it is. */
  readonly rule?: RouteRule
}

/** The first rule that applies decides; without one a target stays where it is. */
export function route(asked: TargetUri, rules: RouteRules): Route {
  for (const rule of rules) {
    const target = rule.apply(asked)
    if (target !== undefined) return { target, rule }
  }
  return { target: asked }
}

/** Whether credentials sent for `asked` may go to `routed`: to the same server, or to its https from its http. */
export function carriesCredentials(asked: TargetUri, routed: TargetUri): boolean {
  if (asked.host !== routed.host) return false
  if (asked.scheme === routed.scheme) return asked.port === routed.port
  return routed.scheme === 'https' && asked.port === 80 && routed.port === 443
}

/** The part of a configuration routing depends on. */
type RoutingSettings = Pick<
  Config,
  | 'remap'
  | 'archives'
  | 'overrides'
  | 'knownArchives'
  | 'domains'
  | 'passthroughDomains'
  | 'privateDomains'
>

/** The configured rules in their order. */
export function routeRules(config: RoutingSettings): RouteRules {
  return [
    ...config.remap.map(({ from, to }, i) => remapped(`remap[${i}]`, from, to)),
    // All origins of an archive share what is stored under the first one.
    ...config.archives.flatMap(({ origins: [first, ...others] }, i) =>
      first === undefined ? [] : others.map(other => remapped(`archives[${i}]`, other, first)),
    ),
    ...config.knownArchives.flatMap(archive => overridden(archive, config)),
  ]
}

/** Where a target may be fetched from, itself first, then the other origins of the archive it lies in. */
export function placesOf(
  target: TargetUri,
  archives: RoutingSettings['archives'],
): readonly TargetUri[] {
  const found = archiveOf(target, archives)
  if (found === undefined) return [target]
  const { archive, own, rest } = found
  const others = archive.origins.filter(place => place !== own)
  return [target, ...others.map(place => moved(target, place, rest))]
}

/** The archive a target belongs to, the origin of it whose file it is, and the path below that. */
export function archiveOf<Archive extends { readonly origins: readonly Place[] }>(
  target: TargetUri,
  archives: readonly Archive[],
): { readonly archive: Archive; readonly own: Place; readonly rest: string } | undefined {
  for (const archive of archives) {
    for (const own of archive.origins) {
      const rest = isOf(target, own) ? below(target.path, own.path) : undefined
      if (rest !== undefined) return { archive, own, rest }
    }
  }
  return undefined
}

function remapped(name: string, from: Place, to: Place): RouteRule {
  const apply = (asked: TargetUri): TargetUri | undefined => {
    if (!isOf(asked, from)) return undefined
    // A place without a host is that one file; every other place is a beginning.
    if (from.host === undefined) return asked.path === from.path ? moved(asked, to, '') : undefined
    const rest = below(asked.path, from.path)
    return rest === undefined ? undefined : moved(asked, to, rest)
  }
  return { name, from: from.text, to: to.text, apply }
}

/** What is asked in place of the hosts of an archive, and the setting that says so; undefined while they are asked themselves. */
function serverOf(
  { name, to }: KnownArchive,
  { ubuntuServer, debianServer }: RoutingSettings['overrides'],
): { readonly setting: string; readonly to: Place } | undefined {
  if (name === 'ubuntu' && ubuntuServer !== undefined) {
    return { setting: 'overrides.ubuntu_server', to: ubuntuServer }
  }
  if (name === 'debian' && debianServer !== undefined) {
    return { setting: 'overrides.debian_server', to: debianServer }
  }
  return to && { setting: `overrides.mirrors (${name})`, to }
}

/** The rule that sends requests for the hosts of an archive to one. Where each host is found once, long lists cost no more. */
function overridden(archive: KnownArchive, config: RoutingSettings): RouteRules {
  const { knownArchives, overrides } = config
  const server = serverOf(archive, overrides)
  const other = knownArchives.find(({ name }) => name === archive.with)
  const leader = other && serverOf(other, overrides)
  if (server === undefined) return []
  if (archive.with !== undefined) {
    if (leader === undefined || !admits(config, server.to.host)) return []
  }
  const { places, except, path } = archive
  const [first] = places
  const more = places.length > 1 ? ` and ${places.length - 1} more` : ''
  const byHost = new Map<string, Place[]>()
  for (const place of places) {
    byHost.set(place.host ?? '', [...(byHost.get(place.host ?? '') ?? []), place])
  }
  return [
    {
      name: leader?.setting ?? server.setting,
      from: `${placeText(first)}${more}`,
      to: server.to.text,
      apply(asked) {
        const labels = asked.host.split('.')
        if (except.some(label => labels.includes(label))) return undefined
        for (let at = 0; at < labels.length; at += 1) {
          for (const place of byHost.get(labels.slice(at).join('.')) ?? []) {
            if (!isOf(asked, place)) continue
            if (place.path === '') return moved(asked, server.to, asked.path)
            const rest = below(asked.path, place.path)
            if (rest) return moved(asked, server.to, `${path}${rest}`)
          }
        }
        return undefined
      },
    },
  ]
}

/** A place in words: with a slash at the end of its path. */
function placeText(place: Place | undefined): string {
  const text = place?.text.replace(/\/$/, '') ?? ''
  return place?.path === '' ? text : `${text}/`
}

function isOf(asked: TargetUri, place: Place): boolean {
  if (place.scheme !== undefined && place.scheme !== asked.scheme) return false
  if (place.host === undefined) return true
  if (asked.port !== (place.port ?? defaultPort(asked.scheme))) return false
  return place.subdomains ? isBelow(asked.host, place.host) : asked.host === place.host
}

/** Whole labels: badexample.org is not below example.org. */
function isBelow(host: string, parent: string): boolean {
  return host === parent || host.endsWith(`.${parent}`)
}

/** What follows `prefix` in a path, with its slash; undefined when the path lies elsewhere. Whole segments. */
function below(path: string, prefix: string): string | undefined {
  if (!path.startsWith(prefix)) return undefined
  const rest = path.slice(prefix.length)
  return rest === '' || rest.startsWith('/') ? rest : undefined
}

/** The same file at another place: its path is that of the place and `rest`. */
function moved(asked: TargetUri, to: Place, rest: string): TargetUri {
  const scheme = to.scheme ?? asked.scheme
  const { userinfo, ...plain } = asked
  const authority =
    to.host === undefined
      ? { host: asked.host, port: asked.port }
      : { host: to.host, port: to.port ?? defaultPort(scheme) }
  const bare: TargetUri = { ...plain, ...authority, scheme, path: `${to.path}${rest}` || '/' }
  return userinfo !== undefined && carriesCredentials(asked, bare) ? { ...bare, userinfo } : bare
}

/** Whether the host lists let a host be reached at its usual port. */
function admits(
  { domains, passthroughDomains, privateDomains }: RoutingSettings,
  host: string | undefined,
): boolean {
  const all = [...domains, ...passthroughDomains]
  if (all.length === 0 || host === undefined) return true
  return patternsFor(hostList([...all, ...privateDomains]), host).some(
    ({ port }) => port === undefined,
  )
}

/*
 * Which parent proxies of `parent_proxy` a host is asked by way of. Pure: which of them answer now is known to the origin client.
 */

/** A parent with its hosts, ready for look-ups. */
export interface CompiledParent {
  readonly proxy: ParentProxy
  /** Undefined for all hosts. */
  readonly only: HostList | undefined
  readonly except: HostList
}

/** `parent_proxy`, ready for look-ups. */
export interface CompiledParents {
  readonly parents: readonly CompiledParent[]
  readonly direct: boolean
}

export function compileParents({ parents, direct }: ParentProxies): CompiledParents {
  const compiled = parents.map(proxy => {
    const { only, except } = proxy
    return {
      proxy,
      only: only.length === 0 ? undefined : hostList(only),
      except: hostList(except),
    }
  })
  return { parents: compiled, direct }
}

/** Whether a host is asked by way of this parent. */
export function asks({ only, except }: CompiledParent, authority: Authority): boolean {
  if (closestPattern(except, authority) !== undefined) return false
  return only === undefined || closestPattern(only, authority) !== undefined
}

/** Host and port of each parent proxy by which an authority is asked, in their order; none when it is asked directly. */
export function parentsOf(
  authority: Authority,
  compiled: CompiledParents | undefined,
): readonly string[] {
  return (compiled?.parents ?? [])
    .filter(parent => asks(parent, authority))
    .map(({ proxy }) => formatAuthority(proxy))
}

/*
 * Archives whose files some clients alone may have (`archives[].clients`). Pure.
 */

/** An archive with `clients`. */
export interface Confinement extends Pick<Config['archives'][number], 'origins'> {
  /** Its preferred origin as it stands in the configuration: it stays the same when others are added before it. */
  readonly scope: string
  /** The setting, for sentences. */
  readonly setting: string
  readonly clients: AddressSet
  /** The setting of the credentials by which its origins are asked; undefined without such. */
  readonly credentials: string | undefined
}

export type Confinements = readonly Confinement[]

/** Throws a Failure for a client network that is no CIDR. */
export function confinementsOf({ archives }: Pick<Config, 'archives'>): Confinements {
  return archives.flatMap(({ origins, clients, credentials }, i) => {
    const [first] = origins
    if (clients.length === 0 || first === undefined) return []
    return [
      {
        origins: origins.map(bothSchemes),
        scope: first.text,
        setting: `archives[${i}].clients`,
        clients: AddressSet.fromCidrs(clients),
        credentials: credentials === undefined ? undefined : `archives[${i}].credentials`,
      },
    ]
  })
}

/** A host is confined by https and by http, where both have their usual ports. */
function bothSchemes(origin: Place): Place {
  const { scheme, port } = origin
  const usual = port === undefined || (scheme !== undefined && port === defaultPort(scheme))
  return usual ? { ...origin, scheme: undefined, port: undefined } : origin
}

/** The first that a target lies in. */
export function confinementOf(
  target: TargetUri,
  confinements: Confinements,
): Confinement | undefined {
  return archiveOf(target, confinements)?.archive
}

/*
 * Host lists, and the hosts that are this proxy itself. A pattern covers a host by whole labels, in any case. By its own names,
 * addresses and ports the proxy knows its own pages, and requests that lead back to it.
 */

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

/** Groups patterns by host. Within a host those with a port come first, the others follow in their own order. */
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
export function patternsFor<Pattern extends HostPattern>(
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
  return patternsFor(list, host).find(one => one.port === undefined || one.port === port)
}

export interface Own {
  /** `index.hostnames` and the machine's own name, lower case; `localhost` is always meant as well. */
  readonly names: ReadonlySet<string>
  /** Addresses of the machine as `normaliseAddress` spells them; loopback is always meant as well. */
  readonly addresses: ReadonlySet<string>
  readonly ports: ReadonlySet<number>
}

/** What the configuration and the machine say at this moment. Addresses come and go, so it has to be asked again. */
export function ownIdentity(config: Config, ports: readonly number[]): Own {
  return {
    names: new Set([...config.index.hostnames, hostname()].map(name => name.toLowerCase())),
    addresses: new Set(machineAddresses()),
    ports: new Set(ports),
  }
}

/** IP addresses of this machine, loopback included, in the system's order. */
export function machineAddresses(): readonly string[] {
  return Object.values(networkInterfaces())
    .flatMap(addresses => addresses ?? [])
    .map(({ address }) => normaliseAddress(address))
    .filter(address => address !== undefined)
}

/** Whether an authority leads to one of our listeners: a host of ours with a port of ours. */
export function isOwn(authority: Authority, own: Own): boolean {
  return own.ports.has(authority.port) && isOwnHost(authority.host, own)
}

/** Whether a host is this machine, at any port: other servers may run here, too. */
export function isOwnHost(host: string, own: Own): boolean {
  const address = normaliseAddress(host)
  if (address === undefined) {
    return host === 'localhost' || host.endsWith('.localhost') || own.names.has(host)
  }
  // A connection to the unspecified address reaches the machine itself.
  const itself = address.startsWith('127.') || ['::1', '0.0.0.0', '::'].includes(address)
  return itself || own.addresses.has(address)
}
