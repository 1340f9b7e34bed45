/**
 * Routes requests: to a mirror, by `remap`, then `archives`, then `overrides`, and through parent proxies. This file also says which
 * archives are for some clients only, which hosts a list covers, and which hosts are this machine.
 *
 * # Facts
 * - A rule is applied once and to canonical targets, so no spelling of a path leaves the prefix that it matched.
 * - The policy admits both targets, the one asked for and the one routed to, before an origin is asked.
 * - config/known-archives.ts, or the file of the operator, names the hosts that have the same archive.
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
import type { HostPattern, ParentProxy, Place } from '../config/setting-kinds.ts'

/** The rules of routing, in the order in which they are tried. */
export type RouteRules = readonly RouteRule[]

/** One rule. `apply` returns a new target for the targets that the rule applies to, and undefined for all others. */
export interface RouteRule {
  /** The setting that has the rule, for logs and `explain`. */
  readonly name: string
  /** The place that the rule applies to, for people: a host or the beginning of a URL. `to` is the place it leads to. */
  readonly from: string
  readonly to: string
  /** Takes canonical targets only. */
  readonly apply: (asked: TargetUri) => TargetUri | undefined
}

/**
 * Routes a target by the first rule that applies. The result has the target that is fetched, from which the cache key is made. Without such
 * a rule the target is unchanged.
 */
export function route(
  asked: TargetUri,
  rules: RouteRules,
): { readonly target: TargetUri; readonly rule?: RouteRule } {
  for (const rule of rules) {
    const target = rule.apply(asked)
    if (target !== undefined) return { target, rule }
  }
  return { target: asked }
}

/** Whether credentials for `asked` may go to `routed`. They may go to the same server, and from its http to its https. */
export function carriesCredentials(asked: TargetUri, routed: TargetUri): boolean {
  if (asked.host !== routed.host) return false
  if (asked.scheme === routed.scheme) return asked.port === routed.port
  return routed.scheme === 'https' && asked.port === 80 && routed.port === 443
}

/** The rules of a configuration, in their order. */
export function routeRules(config: Config): RouteRules {
  return [
    ...config.remap.map(({ from, to }, i) => remapped(`remap[${i}]`, from, to)),
    // All origins of an archive share the files that are stored under the first one.
    ...config.archives.flatMap(({ origins: [first, ...others] }, i) =>
      first === undefined ? [] : others.map(other => remapped(`archives[${i}]`, other, first)),
    ),
    ...config.knownArchives.flatMap(archive => overridden(archive, config)),
  ]
}

/** The places from which a target may be fetched: first the target itself, then the other origins of its archive. */
export function placesOf(target: TargetUri, archives: Config['archives']): readonly TargetUri[] {
  const found = archiveOf(target, archives)
  if (found === undefined) return [target]
  const { archive, own, rest } = found
  const others = archive.origins.filter(place => place !== own)
  return [target, ...others.map(place => moved(target, place, rest))]
}

/** The archive of a target, the origin whose file the target is, and the path below that origin; undefined outside of all archives. */
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

/** The archives that have an origin at an authority, on any path. */
export function archivesAt(
  { host, port }: Authority,
  archives: Config['archives'],
): Config['archives'] {
  const isAt = (place: Place) =>
    place.host === host &&
    (place.port === undefined ? port === 80 || port === 443 : place.port === port)
  return archives.filter(({ origins }) => origins.some(isAt))
}

/** The most connections to an authority that the archives at it allow; undefined when none of them says so. */
export function connectionsTo(
  authority: Authority,
  archives: Config['archives'],
): number | undefined {
  if (archives.length === 0) return undefined
  const own = archivesAt(authority, archives).flatMap(({ connections = [] }) => connections)
  return own.length === 0 ? undefined : Math.min(...own)
}

function remapped(name: string, from: Place, to: Place): RouteRule {
  const apply = (asked: TargetUri): TargetUri | undefined => {
    if (!isOf(asked, from)) return undefined
    // A place without a host is one file; every other place is a prefix.
    if (from.host === undefined) return asked.path === from.path ? moved(asked, to, '') : undefined
    const rest = below(asked.path, from.path)
    return rest === undefined ? undefined : moved(asked, to, rest)
  }
  return { name, from: from.text, to: to.text, apply }
}

/** The place that is asked instead of the hosts of an archive, and the setting that names it; undefined when there is none. */
function serverOf(
  { name, to }: KnownArchive,
  { ubuntuServer, debianServer }: Config['overrides'],
): { readonly setting: string; readonly to: Place } | undefined {
  if (name === 'ubuntu' && ubuntuServer !== undefined) {
    return { setting: 'overrides.ubuntu_server', to: ubuntuServer }
  }
  if (name === 'debian' && debianServer !== undefined) {
    return { setting: 'overrides.debian_server', to: debianServer }
  }
  return to && { setting: `overrides.mirrors (${name})`, to }
}

/** The rule that sends requests for the hosts of an archive to one of them. It finds hosts in a map, so that long lists stay fast. */
function overridden(archive: KnownArchive, config: Config): RouteRules {
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

/** A place for people, with a slash at the end of its path. */
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

/** Whether a host is `parent` or below it. Whole labels count: badexample.org is not below example.org. */
function isBelow(host: string, parent: string): boolean {
  return host === parent || host.endsWith(`.${parent}`)
}

/** The rest of a path after `prefix`, with its slash; undefined when the path is not below `prefix`. Whole segments count. */
function below(path: string, prefix: string): string | undefined {
  if (!path.startsWith(prefix)) return undefined
  const rest = path.slice(prefix.length)
  return rest === '' || rest.startsWith('/') ? rest : undefined
}

/** The target at another place. Its path is the path of the place followed by `rest`. */
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
  { domains, passthroughDomains, privateDomains }: Config,
  host: string | undefined,
): boolean {
  const all = [...domains, ...passthroughDomains]
  if (all.length === 0 || host === undefined) return true
  return patternsFor(hostList([...all, ...privateDomains]), host).some(
    ({ port }) => port === undefined,
  )
}

/*
 * The parent proxies of `parent_proxy` through which a host is asked. The origin client, not this file, knows which of them answer.
 */

/** A parent proxy with the lists of its hosts, ready for look-ups. */
export interface CompiledParent {
  readonly proxy: ParentProxy
  /** Undefined for all hosts. */
  readonly only: HostList | undefined
  readonly except: HostList
}

export function compileParent(proxy: ParentProxy): CompiledParent {
  const { only, except } = proxy
  return {
    proxy,
    only: only.length === 0 ? undefined : hostList(only),
    except: hostList(except),
  }
}

/** Whether a host is asked through this parent. */
export function isAskedThrough({ only, except }: CompiledParent, authority: Authority): boolean {
  if (closestPattern(except, authority) !== undefined) return false
  return only === undefined || closestPattern(only, authority) !== undefined
}

/** Host and port of each parent proxy for an authority, in their order; none when it is asked directly. */
export function parentsOf(
  authority: Authority,
  parents: readonly CompiledParent[],
): readonly string[] {
  return parents
    .filter(parent => isAskedThrough(parent, authority))
    .map(({ proxy }) => formatAuthority(proxy))
}

/*
 * Archives whose files only some clients may have (`archives[].clients`).
 */

/** An archive with `clients`. */
export interface Confinement extends Pick<Config['archives'][number], 'origins'> {
  /** The preferred origin as the configuration spells it. Unlike the index, it stays the same when archives are added before it. */
  readonly scope: string
  /** The setting that has the clients, for sentences. */
  readonly setting: string
  readonly clients: AddressSet
  /** The setting of the credentials with which its origins are asked; undefined when it has none. */
  readonly credentials: string | undefined
}

export type Confinements = readonly Confinement[]

/** The confined archives of a configuration. Throws a Failure for a client network that is no CIDR. */
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

/** The origin without its scheme, so that it is confined both by https and by http. An unusual port keeps its scheme. */
function bothSchemes(origin: Place): Place {
  const { scheme, port } = origin
  const usual = port === undefined || (scheme !== undefined && port === defaultPort(scheme))
  return usual ? { ...origin, scheme: undefined, port: undefined } : origin
}

/** The first confined archive that has a target; undefined when none has. */
export function confinementOf(
  target: TargetUri,
  confinements: Confinements,
): Confinement | undefined {
  return archiveOf(target, confinements)?.archive
}

/*
 * Host lists, and the names, addresses and ports of this proxy. A pattern covers a host by whole labels, in upper or lower case. The
 * proxy recognises requests for its own pages, and requests that lead back to it, by its own names, addresses and ports.
 */

/** Patterns by host. The hosts of those that also cover what is below have a leading dot. */
export type HostList<Pattern extends HostPattern = HostPattern> = ReadonlyMap<
  string,
  readonly Pattern[]
>

/** Prepares patterns for look-ups. For each host, those with a port come first; otherwise the order stays. */
export function hostList<Pattern extends HostPattern>(
  patterns: readonly Pattern[],
): HostList<Pattern> {
  const found = new Map<string, readonly Pattern[]>()
  const ported = patterns.filter(({ port }) => port !== undefined)
  for (const pattern of [...ported, ...patterns.filter(({ port }) => port === undefined)]) {
    const host = normaliseAddress(pattern.host) ?? pattern.host.toLowerCase()
    const name = pattern.subdomains ? `.${host}` : host
    found.set(name, [...(found.get(name) ?? []), pattern])
  }
  return found
}

/** The patterns that cover a host at any port, with the closest first. Addresses have no subdomains. */
export function patternsFor<Pattern extends HostPattern>(
  list: HostList<Pattern>,
  host: string,
): readonly Pattern[] {
  const address = normaliseAddress(host)
  if (address !== undefined) return list.get(address) ?? []
  const found = [...(list.get(host) ?? [])]
  const dotted = `.${host}`
  for (let at = 0; at !== -1; at = dotted.indexOf('.', at + 1)) {
    found.push(...(list.get(dotted.slice(at)) ?? []))
  }
  return found
}

/** The closest pattern that covers a host at its port. A pattern with a port is closer than one without. */
export function closestPattern<Pattern extends HostPattern>(
  list: HostList<Pattern>,
  { host, port }: Authority,
): Pattern | undefined {
  return patternsFor(list, host).find(one => one.port === undefined || one.port === port)
}

export interface OwnIdentity {
  /** `index.hostnames` and the name of the machine, in lower case. `localhost` always counts too. */
  readonly names: ReadonlySet<string>
  /** Addresses of the machine as `normaliseAddress` spells them. Loopback addresses always count too. */
  readonly addresses: ReadonlySet<string>
  readonly ports: ReadonlySet<number>
}

/** The current names and addresses of this proxy. Addresses change, so callers ask again. */
export function ownIdentity(config: Config, ports: readonly number[]): OwnIdentity {
  return {
    names: new Set([...config.index.hostnames, hostname()].map(name => name.toLowerCase())),
    addresses: new Set(machineAddresses()),
    ports: new Set(ports),
  }
}

/** The IP addresses of this machine, loopback included, in the order of the system. */
export function machineAddresses(): readonly string[] {
  return Object.values(networkInterfaces())
    .flatMap(addresses => addresses ?? [])
    .map(({ address }) => normaliseAddress(address))
    .filter(address => address !== undefined)
}

/** Whether an authority leads to a listener of this proxy: its host and its port both belong to this proxy. */
export function isOwn(authority: Authority, own: OwnIdentity): boolean {
  return own.ports.has(authority.port) && isOwnHost(authority.host, own)
}

/** Whether a host is this machine. Its ports can also belong to other servers. */
export function isOwnHost(host: string, own: OwnIdentity): boolean {
  const address = normaliseAddress(host)
  if (address === undefined) {
    return host === 'localhost' || host.endsWith('.localhost') || own.names.has(host)
  }
  // A connection to the unspecified address reaches the machine itself.
  const itself = address.startsWith('127.') || ['::1', '0.0.0.0', '::'].includes(address)
  return itself || own.addresses.has(address)
}
