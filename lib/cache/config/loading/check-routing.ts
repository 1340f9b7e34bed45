/**
 * Checks the routing rules of a configuration for errors and doubtful rules. This file is pure.
 */
import { type Path, type Remark, type Remarks, valueRemarks } from '../../../config/reading.ts'
import { defaultPort, type TargetUri } from '../../../http/message/target.ts'
import { admitTarget, compilePolicy, type Policy } from '../../policy/policy.ts'
import { type RouteRules, route, routeRules } from '../../policy/routing.ts'
import type { Config } from '../config.ts'
import type { Place } from '../setting-kinds.ts'

/** The remarks on the rules. */
export function checkRouting(config: Config): Remarks {
  const { problems, warnings, wrong, warn } = valueRemarks()
  const rules = routeRules(config)
  const policy = compilePolicy(config, noClients)
  config.remap.forEach(({ from, to }, i) => {
    const circle = circleOf(from, to, { rules, name: `remap[${i}]` })
    if (circle?.wrong === true) wrong(['remap', i, 'to'], circle.text)
    else if (circle !== undefined) warn(['remap', i, 'to'], circle.text)
    for (const why of refused(from, policy)) {
      warn(['remap', i, 'from'], `never applies, for requests are refused: ${why}`)
    }
    warnings.push(...refusedAt(['remap', i, 'to'], to, policy))
  })
  config.archives.forEach((archive, i) => {
    const { origins, clients, credentials, redirects } = archive
    const at = (...path: Path) => ['archives', i, ...path]
    if (origins.length === 0) wrong(at('origins'), 'has no origin; write at least one')
    origins.forEach((origin, j) => {
      const other = origins.findIndex(one => isSame(sampleOf(one), sampleOf(origin)))
      if (other < j) wrong(at('origins', j), 'is listed already; remove one of the two')
      warnings.push(...refusedAt(at('origins', j), origin, policy))
      if (credentials !== undefined && isPassedThrough(origin, policy)) {
        const text = 'is under `passthrough_domains`, so `credentials` would not be used for it'
        wrong(at('origins', j), `${text}; list it under \`domains\``)
      }
    })
    if (credentials === undefined) return
    if (clients.length === 0) {
      const text =
        'also needs `clients`: the networks that may have the files behind the credentials'
      wrong(at('credentials'), text)
    }
    if ((redirects ?? config.redirects) === 'pass') {
      const text =
        'has to be `follow` beside `credentials`: a passed redirect may name what is signed for this proxy'
      wrong(at('redirects'), text)
    }
  })
  const { ubuntuServer, debianServer } = config.overrides
  const names = config.knownArchives.map(({ name }) => name)
  for (const [name, server] of [
    ['ubuntu', ubuntuServer],
    ['debian', debianServer],
  ] as const) {
    const at = ['overrides', `${name}_server`]
    warnings.push(...refusedAt(at, server, policy))
    if (server === undefined || names.includes(name)) continue
    warn(at, `has no effect: the file of \`overrides.mirrors\` has no archive ${name}`)
  }
  warnings.push(
    // An archive with `with` is left alone when the policy refuses its host, so it needs no warning.
    ...config.knownArchives
      .filter(archive => archive.with === undefined)
      .flatMap(({ to }) => refusedAt(['overrides', 'mirrors'], to, policy)),
  )
  return { problems, warnings }
}

function isPassedThrough(place: Place, policy: Policy): boolean {
  const admission = admitTarget({ kind: 'fetch', authority: sampleOf(place) }, policy)
  return 'allow' in admission && admission.allow === 'passthrough'
}

const noClients = {
  names: new Set<string>(),
  addresses: new Set<string>(),
  ports: new Set<number>(),
}

/** Checks a rule by routing the target it leads to once more. No rule should apply to that target. */
function circleOf(
  from: Place,
  to: Place,
  { rules, name }: { readonly rules: RouteRules; readonly name: string },
): { readonly wrong: boolean; readonly text: string } | undefined {
  const asked = sampleOf(from)
  const { target, rule } = route(asked, rules)
  const found = (wrong: boolean, text: string) => ({ wrong, text })
  // An earlier rule applies to all targets of this one.
  if (rule?.name !== name) {
    return found(false, `never applies: ${rule?.name ?? 'nothing'} decides before it`)
  }
  if (isSame(asked, target)) {
    return found(true, `leads to where ${from.text} is already; remove the rule`)
  }
  const next = route(target, rules)
  if (next.rule === undefined || isSame(next.target, target)) return undefined
  if (next.rule.name === name) {
    return found(true, `lies within ${from.text}, so the rule leads into itself`)
  }
  return isSame(next.target, asked)
    ? found(true, `is sent back to ${from.text} by ${next.rule.name}; keep one of the two rules`)
    : found(
        false,
        `is itself routed by ${next.rule.name}, but no rule is applied twice; write its target here, or what is stored under ${to.text} is not shared`,
      )
}

/** A target that a place covers, as an example. */
function sampleOf(place: Place): TargetUri {
  const scheme = place.scheme ?? 'http'
  return {
    scheme,
    host: place.host ?? 'archive.example.org',
    port: place.port ?? defaultPort(scheme),
    path: place.host === undefined ? place.path : `${place.path}/x`,
  }
}

function isSame(one: TargetUri, other: TargetUri): boolean {
  return (['scheme', 'host', 'port', 'path'] as const).every(part => one[part] === other[part])
}

/** A warning when the policy lets no client reach the origin to which requests are routed. */
function refusedAt(path: Path, place: Place | undefined, policy: Policy): Remark[] {
  return refused(place, policy).map(why => {
    return { path, at: 'value', text: `requests routed there are refused: ${why}` }
  })
}

function refused(place: Place | undefined, policy: Policy): string[] {
  if (place?.host === undefined) return []
  const { host, port } = sampleOf(place)
  const admission = admitTarget({ kind: 'fetch', authority: { host, port } }, policy)
  return 'deny' in admission ? [admission.sentence] : []
}
