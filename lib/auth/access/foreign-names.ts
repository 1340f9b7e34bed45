/**
 * The names of fields that a client may not say to the application: who asks, and which path, host, method or file a request is for. One
 * table; what the gateway strips, what a check refuses, what the files of packaging/edges remove and what `authproxy doctor` tries follow
 * from it or are held against it by a test. Pure.
 *
 * # Facts
 * - CGI, WSGI, Rack and PHP read `X_Real_IP` and `X-Real-IP` as one name, and some servers also read `X.Real.IP` so. So a name is compared
 *   by its letters and digits, and whatever separates them counts as one hyphen.
 * - An application that knows another authenticating proxy believes the names of that proxy from any proxy.
 * - Balancers and content networks in front of an edge set the fields of the way, the host and the address, so a check often sees them.
 *   They set none of a path, a method or a file.
 */
import { ownText } from '../../recent.ts'

/** What a field could tell the application. */
export type Family =
  | 'identity'
  | 'credential'
  | 'path'
  | 'method'
  | 'file'
  | 'host'
  | 'way'
  | 'address'
  | 'override'
  | 'framing'

/** What each front does with a field of a family when a client sends it. */
export interface Treatment {
  /** The end of the sentence "This field could …", for people. */
  readonly could: string
  readonly gateway: 'removed' | 'judged'
  /**
   * `refused`: 403, unless the edge itself sends the field in its check. `compared`: refused when it names another host than ours. `judged`:
   * the rules have to allow what it says as well. `ignored`: a proxy in front of the edge may have set it, so the edge removes it.
   */
  readonly check: 'refused' | 'compared' | 'judged' | 'ignored'
}

export const treatments: Readonly<Record<Family, Treatment>> = {
  identity: {
    could: 'be taken for the identity of a user',
    gateway: 'removed',
    check: 'refused',
  },
  credential: {
    could: 'be taken for the credential of authproxy',
    gateway: 'removed',
    check: 'refused',
  },
  path: {
    could: 'make the application serve another path than the one that was judged',
    gateway: 'removed',
    check: 'refused',
  },
  method: {
    could: 'be taken for the method that was judged',
    gateway: 'removed',
    check: 'refused',
  },
  file: {
    could: 'choose the file or the path that a server in front sends instead of the answer',
    gateway: 'removed',
    check: 'refused',
  },
  host: {
    could: 'make the application answer for another host',
    gateway: 'removed',
    check: 'compared',
  },
  way: {
    could: 'be taken for the way the request came',
    gateway: 'removed',
    check: 'ignored',
  },
  address: {
    could: 'be taken for the address of the client',
    gateway: 'removed',
    check: 'ignored',
  },
  override: {
    could: 'make the application run another method',
    gateway: 'judged',
    check: 'judged',
  },
  framing: {
    could: 'be taken for a field that says where a message ends, or whom it is for',
    gateway: 'removed',
    check: 'refused',
  },
}

export interface ForeignName {
  /** As it is usually written. */
  readonly name: string
  readonly family: Family
  /** The servers that obey it. */
  readonly obeyedBy: string
  /** The edge that sends it by itself, also in its checks. */
  readonly setBy?: 'traefik'
}

type Lines = ReadonlyArray<readonly [name: string, obeyedBy: string, setBy?: 'traefik']>

const TABLE: Readonly<Record<Family, Lines>> = {
  identity: [
    ['Remote-User', 'made for Authelia, or for REMOTE_USER'],
    ['Remote-Groups', 'made for Authelia'],
    ['Remote-Name', 'made for Authelia'],
    ['Remote-Email', 'made for Authelia'],
    ['X-Auth-Request-User', 'made for oauth2-proxy'],
    ['X-Auth-Request-Email', 'made for oauth2-proxy'],
    ['X-Auth-Request-Groups', 'made for oauth2-proxy'],
    ['X-Auth-Request-Preferred-Username', 'made for oauth2-proxy'],
    ['X-Forwarded-User', 'made for oauth2-proxy'],
    ['X-Forwarded-Email', 'made for oauth2-proxy'],
    ['X-Forwarded-Groups', 'made for oauth2-proxy'],
    ['X-Forwarded-Preferred-Username', 'made for oauth2-proxy'],
    ['X-WEBAUTH-USER', 'Grafana, Gitea'],
    ['X-WEBAUTH-NAME', 'Grafana, Gitea'],
    ['X-WEBAUTH-EMAIL', 'Grafana, Gitea'],
    ['X-WEBAUTH-GROUPS', 'Grafana, Gitea'],
  ],
  // The operator alone names such a field (`backendCredential.field`).
  credential: [],
  path: [
    ['Daphne-Root-Path', 'Daphne: cuts the value off the path, in Django too'],
    ['Script-Name', 'gunicorn (`SCRIPT_NAME`): cuts the value off the path'],
    ['Path-Info', 'CGI middleware (`PATH_INFO`)'],
    ['X-Script-Name', 'middleware for WSGI'],
    ['X-Forwarded-Script-Name', 'middleware for WSGI'],
    ['X-Forwarded-Prefix', 'Spring, ASP.NET, Werkzeug', 'traefik'],
    ['X-Forwarded-Path', 'frameworks with a base path'],
    ['X-Forwarded-Uri', 'made for Traefik or Caddy'],
    ['X-Forwarded-URL', 'frameworks with a base path'],
    ['X-Forwarded-Context', 'Apache Knox, web interfaces of Hadoop'],
    ['X-ProxyContextPath', 'Apache NiFi'],
    ['X-Ingress-Path', 'add-ons of Home Assistant'],
    ['X-Original-URL', 'IIS, Symfony, Zend'],
    ['X-Original-URI', 'made for the checks of nginx'],
    ['X-Original-Path', 'some frameworks'],
    ['X-Rewrite-URL', 'IIS, Symfony, Zend'],
    ['X-Override-URL', 'some frameworks'],
    ['X-Envoy-Original-Path', 'made for Envoy'],
  ],
  method: [
    ['X-Forwarded-Method', 'made for Traefik or Caddy'],
    ['X-Original-Method', 'made for the checks of nginx'],
  ],
  file: [
    ['X-Accel-Mapping', 'Rack, Rails: maps a file to a path that nginx serves'],
    ['X-Sendfile-Type', 'older Rack: chooses the field that a server in front obeys'],
    ['X-Accel-Redirect', 'nginx, where an application repeats it in its answer'],
    ['X-Sendfile', 'Apache, lighttpd, where an application repeats it'],
    ['X-Reproxy-URL', 'Perlbal and similar, where an application repeats it'],
  ],
  host: [
    ['X-Forwarded-Host', 'Rack, Rails, Express, Spring, ASP.NET'],
    ['X-Host', 'some frameworks'],
    ['X-Original-Host', 'ASP.NET, made for the checks of nginx'],
    ['X-ProxyHost', 'Apache NiFi'],
    ['Forwarded', 'Rack, Spring, Node frameworks (RFC 7239)'],
  ],
  way: [
    ['X-Forwarded', 'some frameworks'],
    ['X-Forwarded-Proto', 'most frameworks'],
    ['X-Forwarded-Protocol', 'some frameworks'],
    ['X-Forwarded-Scheme', 'Rack'],
    ['X-Forwarded-Ssl', 'Rack, gunicorn'],
    ['X-Forwarded-Port', 'Rack, Spring'],
    ['X-Forwarded-By', 'Tomcat'],
    ['X-Forwarded-Server', 'Apache httpd'],
    ['X-Scheme', 'middleware for WSGI'],
    ['X-Url-Scheme', 'middleware for WSGI'],
    ['Front-End-Https', 'Exchange, IIS'],
    ['Proxy', 'CGI programs send their own requests there (httpoxy)'],
  ],
  address: [
    ['X-Forwarded-For', 'most servers'],
    ['X-Original-Forwarded-For', 'made for ingress-nginx'],
    ['X-Real-IP', 'most frameworks'],
    ['X-Client-IP', 'some frameworks'],
    ['Client-IP', 'Rails, PHP applications'],
    ['X-Cluster-Client-IP', 'some frameworks'],
    ['True-Client-IP', 'made for Akamai or Cloudflare'],
    ['CF-Connecting-IP', 'made for Cloudflare'],
    ['Fastly-Client-IP', 'made for Fastly'],
  ],
  override: ['', 'X-', 'HTTP-', 'X-HTTP-'].flatMap(before =>
    ['Method', 'Method-Override', 'MethodOverride'].map(
      name => [`${before}${name}`, 'Rack, Rails, Laravel, Symfony, Express, OData'] as const,
    ),
  ),
  framing: ['Content-Length', 'Transfer-Encoding', 'Host', 'Connection', 'Upgrade'].map(
    name => [name, 'CGI, WSGI and Rack, in another spelling than this'] as const,
  ),
}

/** The whole table, one family after the other. */
export const foreignNames: readonly ForeignName[] = Object.entries(TABLE).flatMap(
  ([family, lines]) =>
    lines.map(([name, obeyedBy, setBy]) => {
      // The families are the names of the members.
      const row = { name, family: family as Family, obeyedBy }
      return setBy === undefined ? row : { ...row, setBy }
    }),
)

const BY_NAME: ReadonlyMap<string, ForeignName> = new Map(
  foreignNames.map(row => [row.name.toLowerCase(), row]),
)

/** Fields of our prefix, whatever follows it. */
const OURS: ForeignName = { name: 'X-Authproxy-…', family: 'identity', obeyedBy: 'applications' }

/** The bit by which a capital letter differs from a small one. */
const CASE = 0x20
/** Names that are remembered, and the most characters of one. */
const MOST = 1000
const LONGEST = 80

/** The names that are foreign to an instance: those of the table, those in which it tells who asks besides, and that of its credential. */
export class ForeignNames {
  /** Names that the operator has chosen, folded. */
  readonly #own: ReadonlyMap<string, ForeignName>
  readonly #known = new Map<string, ForeignName | undefined>()

  constructor(own: readonly string[] = [], credential?: string) {
    const row = (name: string, family: Family) => {
      return [foldedName(name), { name, family, obeyedBy: 'this application' }] as const
    }
    this.#own = new Map([
      ...own.map(name => row(name, 'identity')),
      ...(credential === undefined ? [] : [row(credential, 'credential')]),
    ])
  }

  /** The row of a field, whatever its spelling; undefined when a client may send it. */
  of(name: string): ForeignName | undefined {
    const row = this.#known.get(name)
    if (row !== undefined || this.#known.has(name)) return row
    const found = this.#find(name)
    if (name.length <= LONGEST) {
      if (this.#known.size >= MOST) this.#known.clear()
      this.#known.set(ownText(name), found)
    }
    return found
  }

  #find(name: string): ForeignName | undefined {
    if (isIdentityField(name)) return OURS
    const plain = foldedName(name)
    const row = this.#own.get(plain) ?? BY_NAME.get(plain)
    // Such a field means what it says in its own spelling.
    return row?.family === 'framing' && name.toLowerCase() === plain ? undefined : row
  }
}

const ofTable = new ForeignNames()

/** The row of a field in the table, whatever its spelling. */
export function foreignName(name: string): ForeignName | undefined {
  return ofTable.of(name)
}

/** Whether an application could take a field of this name for one of ours. */
export function isIdentityField(name: string): boolean {
  return IDENTITY.test(name)
}

const IDENTITY = /(?<![a-z0-9])x[^a-z0-9]+authproxy(?![a-z0-9])/i

/**
 * A name in the spelling in which names are compared: its letters and digits in lower case, and one hyphen for whatever separates them. Of a
 * name that is longer than any in the table this is a beginning alone: a name of a megabyte takes no time.
 */
export function foldedName(name: string): string {
  let plain = ''
  let apart = false
  for (let i = 0; i < name.length && plain.length <= LONGEST; i += 1) {
    if (!isLetterOrDigit(name.charCodeAt(i))) {
      apart = plain !== ''
      continue
    }
    plain += apart ? `-${name[i]}` : name[i]
    apart = false
  }
  return plain.toLowerCase()
}

function isLetterOrDigit(code: number): boolean {
  const small = code | CASE
  return (small >= 0x61 && small <= 0x7a) || (code >= 0x30 && code <= 0x39)
}

/** Whether two names are read as one. */
export function isSameField(a: string, b: string): boolean {
  return foldedName(a) === foldedName(b)
}

const OVERRIDES = foreignNames.filter(({ family }) => family === 'override')
const BEGINNINGS = new Set(OVERRIDES.map(({ name }) => name.charCodeAt(0) | CASE))
const ENDS = new Set(OVERRIDES.map(({ name }) => name.charCodeAt(name.length - 1) | CASE))
const LONGEST_OVERRIDE = Math.max(...OVERRIDES.map(({ name }) => name.length))

/** Whether frameworks take the method from a field of this name. Its first and last letter tell almost all others, for less. */
export function isOverride(name: string): boolean {
  const { length } = name
  if (length > LONGEST_OVERRIDE || !BEGINNINGS.has(name.charCodeAt(0) | CASE)) return false
  return ENDS.has(name.charCodeAt(length - 1) | CASE) && foreignName(name)?.family === 'override'
}
