/**
 * Finds the destination of a request: the file it asks for, the key and the origin of that file, and whether the target may be reached.
 * `admitClient` checks the client.
 *
 * # Facts
 * - The destination depends only on the rules, the target, Host, the listener and the tunnel of the request. So the work (canonical
 *   spelling, host lists, the kind of the path) is done once for a target in use, and remembered. It was a third of the cost of a hit
 *   from memory.
 * - Requests for the same target have the same object (`TargetReader`). The destination is forgotten with the target, so the bound of
 *   the reader is the bound here. A reload discards all.
 * - With a URL prefix, a browser takes every archive and the pages of this proxy for one site, so that a page of one could read the
 *   others. So such an answer is sandboxed, without scripts and with an opaque origin, and loses the fields that concern a whole site.
 */
import { Fields } from '../../http/message/field.ts'
import type { Request, Response } from '../../http/message/message.ts'
import {
  type Authority,
  formatAuthority,
  formatUri,
  parseTarget,
  parseUri,
  type Target,
  type TargetUri,
} from '../../http/message/target.ts'
import { type ArchivePath, classify } from '../archive/path.ts'
import { type Admission, admitTarget, parentOf, type Rules } from '../policy/policy.ts'
import {
  type Confinement,
  carriesCredentials,
  confinementOf,
  type RouteRule,
  route,
} from '../policy/routing.ts'
import { canonicalUri } from '../store/key.ts'
import {
  effectiveTarget,
  type NonFileTarget,
  placeWithinOwn,
  refusals,
  type TargetParts,
  type WantedGeneration,
} from './request-target.ts'

/** The facts that all answers about one target have in common. */
export interface FileFacts {
  readonly key: string
  readonly kind: string
  readonly origin: string
  /** The parent proxy through which the origin is asked. Before the question, several are joined by `or`. */
  readonly parent?: string
}

/** The facts after a request through this parent proxy, or through none. */
export function factsByParent(about: FileFacts, parent: string | undefined): FileFacts {
  if (parent === about.parent) return about
  const { parent: _planned, ...others } = about
  return parent === undefined ? others : { ...others, parent }
}

/** A file of an archive. */
export interface FileDestination {
  readonly kind: 'file'
  /** Whether the client asked with a URL prefix, so that the answer appears under the address of this proxy. */
  readonly underOurAddress: boolean
  readonly asked: TargetUri
  /**
   * The target for which the origin is asked, in canonical spelling. So a response is never stored under the key of another spelling.
   */
  readonly uri: TargetUri
  /** The rule that routed it there; undefined when it is fetched from the requested place. */
  readonly rule: RouteRule | undefined
  readonly key: string
  readonly archive: ArchivePath
  readonly about: FileFacts
  /** The generation from which the file is wanted; undefined for the present. */
  readonly asOf: WantedGeneration | undefined
  /** The name of the build in the path; undefined when it has none. */
  readonly build: string | undefined
  /** Whether credentials for the requested target may go to `uri`. */
  readonly credentials: boolean
  /** The confined archive of the file, which only some clients may have; undefined when it is in none. */
  readonly confinement: Confinement | undefined
  /** Whether the target may be reached, independent of the client. */
  readonly admission: Admission
}

export type Destination = NonFileTarget | FileDestination

interface Remembered extends Pick<TargetParts, 'secure' | 'local'> {
  readonly host: string | undefined
  readonly tunnelEnd: Authority | undefined
  readonly destination: FileDestination
}

/** Makes the function that answers the destination of a request under the rules in force. It never throws. */
export function rememberedDestinations(): (request: TargetParts, rules: Rules) => Destination {
  let inForce: Rules | undefined
  let destinations = new WeakMap<Target, Remembered>()
  return (request, rules) => {
    if (inForce !== rules) {
      inForce = rules
      destinations = new WeakMap()
    }
    const { target, method, fields, secure, local, tunnelEnd } = request
    const host = fields.get('host')
    const known = method === 'CONNECT' ? undefined : destinations.get(target)
    if (
      known?.host === host &&
      known?.secure === secure &&
      known.tunnelEnd?.host === tunnelEnd?.host &&
      known.tunnelEnd?.port === tunnelEnd?.port &&
      known.local.port === local.port &&
      known.local.address === local.address
    ) {
      return known.destination
    }
    const destination = destinationOf(request, rules)
    if (destination.kind === 'file') {
      destinations.set(target, { host, secure, local, tunnelEnd, destination })
    }
    return destination
  }
}

function destinationOf(request: TargetParts, rules: Rules): Destination {
  const asked = effectiveTarget(request, rules.policy.own)
  if (asked.kind !== 'fetch') return asked
  const spelt = canonicalUri(asked.uri)
  if (spelt === undefined) return refusals.unkeyable
  const { target: uri, rule } = route(spelt, rules.routes)
  const key = formatUri(uri)
  const archive = classify(uri.path)
  const parent = parentOf(uri, rules.policy)
  const about = { key, kind: archive.kind, origin: formatAuthority(uri, uri.scheme) }
  return {
    kind: 'file',
    underOurAddress: asked.mode === 'prefix' || asked.mode === 'https-prefix',
    asked: asked.uri,
    uri,
    rule,
    key,
    archive,
    about: parent === undefined ? about : { ...about, parent },
    asOf: asked.asOf,
    build: asked.build,
    credentials: carriesCredentials(spelt, uri),
    confinement: confinementOf(uri, rules.confinements),
    admission: admitBoth(spelt, uri, rules),
  }
}

/** The admission of a request. Both the requested and the routed target must be admitted; the stricter admission counts. */
function admitBoth(asked: TargetUri, routed: TargetUri, { policy }: Rules): Admission {
  const first = admitTarget({ kind: 'fetch', authority: asked }, policy)
  if (asked === routed || 'deny' in first) return first
  const second = admitTarget({ kind: 'fetch', authority: routed }, policy)
  return 'allow' in second && first.allow === 'passthrough' ? first : second
}

/** The destination of a request for a URL through the proxy, or a sentence when it asks for no file of an archive. */
export function destinationOfUrl(
  url: string,
  rules: Rules,
  { method, fields }: Pick<Request, 'method' | 'fields'> = { method: 'GET', fields: Fields.empty },
): FileDestination | string {
  const target = parseTarget('GET', url.includes('://') ? url : `http://${url}`)
  if ('problem' in target) return target.problem
  if (target.form !== 'absolute') return 'not an http or https URL'
  const local = { address: '127.0.0.1', port: 0 }
  const request = { method, target, fields, secure: false, local }
  const destination = destinationOf(request, rules)
  if (destination.kind === 'file') return destination
  if (destination.kind === 'refuse') return destination.sentence
  return destination.kind === 'operations' ? 'a page of this proxy' : 'a tunnel'
}

/** The destination with another key on the same host, for a file that is kept under another name. */
export function destinationUnderKey(destination: FileDestination, key: string): FileDestination {
  const uri = parseUri(key)
  if (key === destination.key || 'problem' in uri) return destination
  const archive = classify(uri.path)
  return { ...destination, uri, key, archive, about: { ...destination.about, key } }
}

/** A response from `uri` as it may appear under the address of this proxy. Its redirects stay under this address. */
export function sandboxedResponse(response: Response, target: Target, uri: TargetUri): Response {
  const location = response.fields.get('Location')
  const fields = response.fields
    .without(...aboutASite, ...(location === undefined ? [] : ['Location']))
    // CSP 3 section 6.3.2: the sandbox allows neither scripts nor forms, and has an opaque origin.
    .plus('Content-Security-Policy', 'sandbox')
    .plus('X-Content-Type-Options', 'nosniff')
  if (location === undefined) return { ...response, fields }
  return { ...response, fields: fields.plus('Location', prefixed(location, target, uri)) }
}

/** The target of a redirect from `from`, with the prefix with which the client asked. */
function prefixed(location: string, target: Target, from: TargetUri): string {
  const base = formatUri(from)
  if (!URL.canParse(location, base)) return location
  const url = new URL(location, base)
  const { hash } = url
  url.hash = ''
  const uri = parseUri(url.href)
  if ('problem' in uri) return location
  const byProxy = target.form === 'absolute' && target.uri.host === 'https'
  const { path = '' } = target.form === 'absolute' ? target.uri : { path: '', ...target }
  const within = placeWithinOwn(path)
  const place = formatUri(uri)
    .replace(/^http:\/\//, `${within}/`)
    .replace(/^https:\/\//, byProxy ? 'http://HTTPS///' : `${within}/HTTPS///`)
  return place + hash
}

/** The fields that concern the whole site of a server. */
const aboutASite = [
  'Set-Cookie',
  'Set-Cookie2',
  'Strict-Transport-Security',
  'Public-Key-Pins',
  'Clear-Site-Data',
  'Alt-Svc',
  'Service-Worker-Allowed',
  'Origin-Agent-Cluster',
  'Access-Control-Allow-Origin',
  'Access-Control-Allow-Credentials',
  'Report-To',
  'Reporting-Endpoints',
  'NEL',
  'Content-Security-Policy',
  'X-Content-Type-Options',
]

/** The user in a proxy's URL that names a build. The password is then the name of the build. */
const buildUser = 'build'

/** The build that a request names: in its URL, by the user of the proxy's URL, or in the CONNECT of its tunnel. */
export function buildOf(
  { fields, tunnelEnd }: Pick<Request, 'fields' | 'tunnelEnd'>,
  inUrl: string | undefined,
): string | undefined {
  return inUrl ?? tunnelEnd?.label ?? buildNamedByProxyUser(fields)
}

/**
 * The build that the user of the proxy's URL names: `Proxy-Authorization: Basic` with `build:NAME` (RFC 7617). Undefined for every
 * other user. The name can be invalid.
 */
export function buildNamedByProxyUser(fields: Fields): string | undefined {
  const value = fields.get('Proxy-Authorization')
  if (value === undefined) return undefined
  const [, encoded] = /^Basic +([A-Za-z0-9+/=]{1,400})$/i.exec(value) ?? []
  if (encoded === undefined) return undefined
  const [user, ...name] = Buffer.from(encoded, 'base64').toString('latin1').split(':')
  return user === buildUser ? name.join(':') : undefined
}
