/**
 * The rules of routing a configuration asks for: `remap` in its order, then `overrides`. Pure.
 *
 * # Facts
 * - A rule is applied once and to canonical targets, so no spelling of a path climbs out of the prefix it matched.
 * - Ubuntu's archive is archive.ubuntu.com and the hosts below it; ports and security updates have hosts of their own.
 * - Debian's archive is whatever host below debian.org has a `/debian/`. Two of them have another one: archive.debian.org
 *   holds the releases of the past, and the snapshot host every moment of it.
 * - Security updates come from one archive that mirrors may not lag behind: `/debian-security/`, at security.debian.org.
 */
import { defaultPort, type TargetUri } from '../../http/message/target.ts'
import type { Config } from '../config/config.ts'
import type { HostPattern, Place } from '../config/setting-kinds.ts'
import type { Route, RouteRule, RouteRules } from './route.ts'

/** The configured rules, the first that fits first. */
export function routeRules(config: RoutingSettings): RouteRules {
  const { ubuntuServer, debianServer } = config.overrides
  return [
    ...config.remap.map(({ from, to }, i) => ({
      name: `remap[${i}]`,
      shown: { from: from.text, to: to.text },
      route: remapped(from, to),
    })),
    ...(ubuntuServer === undefined ? [] : [ubuntu(ubuntuServer)]),
    ...(debianServer === undefined ? [] : debian(debianServer, config)),
  ]
}

/** The rules in words, in their order. */
export function shownRules(rules: RouteRules): ReadonlyArray<{ from: string; to: [string] }> {
  return rules.map(({ name, shown }) => ({ from: shown?.from ?? name, to: [shown?.to ?? name] }))
}

/** The part of a configuration routing depends on. */
export type RoutingSettings = Pick<Config, 'remap' | 'overrides' | 'domains' | 'passthroughDomains'>

/** Whether credentials sent for `asked` may go to `routed`: to the same host, and not out of an encrypted connection. */
export function carriesCredentials(asked: TargetUri, routed: TargetUri): boolean {
  return asked.host === routed.host && (asked.scheme === routed.scheme || routed.scheme === 'https')
}

function remapped(from: Place, to: Place): RouteRule['route'] {
  return asked => {
    if (!isOf(asked, from)) return undefined
    // A path alone is that one file; everything else is a beginning.
    const rest = from.host === undefined ? '' : below(asked.path, from.path)
    if (rest === undefined || (from.host === undefined && asked.path !== from.path))
      return undefined
    return moved(asked, to, rest)
  }
}

function ubuntu(to: Place): RouteRule {
  return {
    name: 'overrides.ubuntu_server',
    shown: { from: '.archive.ubuntu.com', to: to.text },
    route: asked =>
      isUsual(asked) && isBelow(asked.host, 'archive.ubuntu.com')
        ? moved(asked, to, asked.path)
        : undefined,
  }
}

function debian(to: Place, config: RoutingSettings): readonly RouteRule[] {
  const name = 'overrides.debian_server'
  const archive: RouteRule = {
    name,
    shown: { from: '.debian.org/debian/', to: to.text },
    route: asked =>
      isDebianMirror(asked) && asked.path.startsWith('/debian/')
        ? moved(asked, to, asked.path)
        : undefined,
  }
  if (!lists(config, security)) return [archive]
  const updates: RouteRule = {
    name,
    shown: { from: '.debian.org/debian-security/', to: security },
    route: asked =>
      isDebianMirror(asked) && asked.path.startsWith('/debian-security/')
        ? moved(asked, { scheme: undefined, host: security, port: undefined, path: '' }, asked.path)
        : undefined,
  }
  return [archive, updates]
}

const security = 'security.debian.org'

function isDebianMirror(asked: TargetUri): boolean {
  if (!isUsual(asked) || !isBelow(asked.host, 'debian.org')) return false
  return !asked.host.split('.').some(label => ['archive', 'snapshot', 'security'].includes(label))
}

/** A distribution's hosts are meant at their usual port only. */
function isUsual(asked: TargetUri): boolean {
  return asked.port === defaultPort(asked.scheme)
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
function moved(
  asked: TargetUri,
  to: Pick<Place, 'scheme' | 'host' | 'port' | 'path'>,
  rest: string,
): Omit<Route, 'rule'> {
  const scheme = to.scheme ?? asked.scheme
  const { userinfo, ...plain } = asked
  const authority =
    to.host === undefined
      ? { host: asked.host, port: asked.port }
      : { host: to.host, port: to.port ?? defaultPort(scheme) }
  const bare: TargetUri = { ...plain, ...authority, scheme, path: `${to.path}${rest}` || '/' }
  const keeps = userinfo !== undefined && carriesCredentials(asked, bare)
  const target = keeps ? { ...bare, userinfo } : bare
  return { target, origins: [target] }
}

/** Whether the host lists let a host be reached. */
function lists({ domains, passthroughDomains }: RoutingSettings, host: string): boolean {
  const all = [...domains, ...passthroughDomains]
  const covers = (pattern: HostPattern) =>
    pattern.port === undefined &&
    (pattern.subdomains ? isBelow(host, pattern.host) : host === pattern.host)
  return all.length === 0 || all.some(covers)
}
