/**
 * Reads a check of an edge: which request it asks about, by one source each for method, target, host and client. The facts of a
 * check other than the target are remembered with its fields, because the next checks of the same browser begin with the same
 * fields.
 *
 * A client can send fields of any name, and edges pass them on. So a source counts only when it is present once and in one
 * spelling. Fields of another edge's contract are never read.
 *
 * # Facts
 * - nginx, Traefik and Caddy take Upgrade and Connection from a check; the fields of the WebSocket handshake (RFC 6455 section 4.1) stay.
 */
import { timingSafeEqual } from 'node:crypto'
import { type Fields, isToken, sameName } from '../../http/message/field.ts'
import type { Request } from '../../http/message/message.ts'
import { TargetReader } from '../../http/message/target.ts'
import { forwardedAddress } from '../../http/proxy/forwarded.ts'
import type { AddressSet } from '../../ip.ts'
import { foreignName, isSameField } from '../access/foreign-names.ts'
import { instanceField } from '../access/instance-id.ts'
import { isOwnHost, type Place, type RequestHead } from '../access/own-origin.ts'
import { tokenDigest } from '../access/passthrough.ts'
import type { Edge } from '../config/setting-forward-auth.ts'
import { type Contract, checkPath, contracts, type Source } from './contract.ts'

export interface CheckSettings {
  readonly edge: Edge
  /** Peers that may ask, and proxies that are not the client. */
  readonly trusted: AddressSet
  /** The SHA-256 of the secret that the edge has to send; undefined when it needs none. */
  readonly secret: Buffer | undefined
  /** Hosts that may be asked about. */
  readonly hosts: readonly string[]
}

/** The request that is asked about. */
export interface AskedAbout {
  /** The client's request: its method and its fields, as far as the edge passes them on. */
  readonly request: RequestHead
  readonly place: Place
  /** The host that the edge names, which is one of ours. */
  readonly host: string
  /** IP address of the client, as the edge says. */
  readonly client: string
}

/** The problem of a check that cannot be judged. The sentence does not quote the check. */
export interface CheckProblem {
  readonly status: 400 | 403 | 404
  readonly code:
    | 'edge_peer'
    | 'edge_path'
    | 'edge_secret'
    | 'edge_method'
    | 'edge_target'
    | 'edge_host'
    | 'edge_client'
  readonly sentence: string
}

/** The most characters of each source; edges send no longer ones. */
const LONGEST = { method: 40, target: 65_536, host: 260, address: 4096, secret: 1024 } as const

/** Reads the request a check asks about, or the reason why the check cannot be judged. */
export function readCheck(check: Request, settings: CheckSettings): AskedAbout | CheckProblem {
  return askedAsBefore(check, settings) ?? readAnew(check, settings)
}

/**
 * The facts of a check other than the target. They belong to the fields that other checks begin with as well
 * (http/wire/varying-line.ts).
 */
interface Asker {
  readonly settings: CheckSettings
  readonly peer: string
  /** The target of the check itself. */
  readonly target: Request['target']
  readonly method: string
  readonly host: string
  readonly client: string
  readonly fields: Fields
}

const askers = new WeakMap<Fields, Asker>()

/** The request of a check whose facts are those of an earlier check, except for the target. */
function askedAsBefore(check: Request, settings: CheckSettings): AskedAbout | undefined {
  const { begin, own } = check.fields
  if (begin === undefined) return undefined
  const asker = askers.get(begin)
  if (asker?.settings !== settings || asker.peer !== check.client.address) return undefined
  if (asker.target !== check.target) return undefined
  const { target: source } = contracts[settings.edge]
  const [name, value = ''] = own
  if (source === undefined || name !== source.field || own.length !== 2) return undefined
  if (value.length > LONGEST.target) return undefined
  const place = placeOf(value, source)
  return 'code' in place ? undefined : askedAbout(check, asker, place)
}

/** Remembers the facts of a check other than the target, if the field of the target comes after all others. */
function remember(
  { fields: { begin, own }, client, target }: Request,
  asker: Omit<Asker, 'peer' | 'target' | 'fields'>,
): Fields | undefined {
  const source = contracts[asker.settings.edge].target
  if (begin === undefined || own.length !== 2 || own[0] !== source?.field) return undefined
  const fields = fieldsOfClient(begin)
  askers.set(begin, { ...asker, peer: client.address, target, fields })
  return fields
}

function readAnew(check: Request, settings: CheckSettings): AskedAbout | CheckProblem {
  const { edge, trusted, secret, hosts } = settings
  const contract = contracts[edge]
  const given = { fields: check.fields, odd: oddNames(check.fields) }
  // A socket in the file system has no address, and its directory says who may connect.
  const { address: peer } = check.client
  if (peer !== '' && !trusted.has(peer)) {
    const sentence = 'forwardAuth.trustedProxies does not have the address of this peer.'
    return { status: 403, code: 'edge_peer', sentence }
  }
  const behind = behindCheckPath(check, contract)
  if (typeof behind !== 'string') return behind
  if (secret !== undefined) {
    const shown = sourceIn(given, contract.secret, 'secret')
    if (typeof shown !== 'string') return shown
    if (!timingSafeEqual(tokenDigest(shown), secret)) {
      return problem('edge_secret', contract.secret, 'is another than that of the file')
    }
  }
  const method = contract.method ? methodIn(given, contract.method) : check.method
  if (typeof method !== 'string') return method
  const place = placeIn(given, contract, behind)
  if ('code' in place) return place
  const host = hostIn(given, contract, hosts)
  if (typeof host !== 'string') return host
  const client = clientIn(given, contract, trusted)
  if (typeof client !== 'string') return client
  const fields = remember(check, { settings, method, host, client }) ?? fieldsOfClient(check.fields)
  return askedAbout(check, { method, host, client, fields }, place)
}

/** The text after `/check` in the request line, which is the target where the contract has no field for it. */
function behindCheckPath({ target }: Request, { target: source }: Contract): string | CheckProblem {
  const [path, query] = target.form === 'origin' ? [target.path, target.query] : ['', undefined]
  const rest = path.startsWith(checkPath) ? path.slice(checkPath.length) : undefined
  const whole = query === undefined ? rest : `${rest}?${query}`
  // Caddy asks at `/check?` about a request whose target ends with `?`.
  const fits = source === undefined ? rest?.startsWith('/') : rest === '' && !query
  if (fits && whole !== undefined) return whole
  const where =
    source === undefined
      ? `path_prefix: ${checkPath} and the path of the request behind it`
      : checkPath
  const sentence = `This listener answers only checks of an edge, at ${where}.`
  return { status: 404, code: 'edge_path', sentence }
}

function methodIn(given: GivenFields, source: Source): string | CheckProblem {
  const found = sourceIn(given, source, 'method')
  if (typeof found !== 'string' || isToken(found)) return found
  return problem('edge_method', source, 'is not a method')
}

function placeIn(
  given: GivenFields,
  { target: source }: Contract,
  behind: string,
): Place | CheckProblem {
  const at = source ?? { field: 'path', setBy: `path_prefix: ${checkPath}` }
  const found = source === undefined ? behind : sourceIn(given, source, 'target')
  return typeof found === 'string' ? placeOf(found, at) : found
}

function placeOf(value: string, at: Source): Place | CheckProblem {
  // The target has to follow the grammar of request lines for GET, whatever the method is. A target of another form does not
  // name a path of the application.
  const target = targets.read('GET', value)
  return 'problem' in target || target.form !== 'origin'
    ? problem('edge_target', at, 'is not a path with its query')
    : target
}

const targets = new TargetReader()

function hostIn(
  given: GivenFields,
  { host: source }: Contract,
  hosts: readonly string[],
): string | CheckProblem {
  const found = sourceIn(given, source, 'host')
  if (typeof found !== 'string' || hosts.some(host => isOwnHost(found, host))) return found
  return problem('edge_host', source, 'is not among forwardAuth.hosts')
}

/**
 * The client's address: the last address that is not a trusted proxy. The client itself may have written those before it. Where
 * all are trusted proxies, the first of them is the client.
 */
function clientIn(
  given: GivenFields,
  { address: source }: Contract,
  trusted: AddressSet,
): string | CheckProblem {
  // Edges may add a line of their own, which means the same as a longer list (RFC 9110 section 5.3).
  const found = spelling(given, source.field)
  if (found.odd) return problem('edge_client', source, 'came in another spelling as well')
  const list = found.values.join(',')
  if (found.values.length === 0) return problem('edge_client', source, 'is missing')
  if (list.length > LONGEST.address) return problem('edge_client', source, 'is too long')
  let client: string | undefined
  for (const entry of list.split(',').reverse()) {
    const address = forwardedAddress(entry)
    // The text is not an address, so the entries before it cannot be trusted.
    if (address === undefined) break
    client = address
    if (!trusted.has(address)) break
  }
  return client ?? problem('edge_client', source, 'does not end with an IP address')
}

/** The value of a source that is present once, and in no other spelling. */
function sourceIn(
  given: GivenFields,
  source: Source,
  name: 'method' | 'target' | 'host' | 'secret',
): string | CheckProblem {
  const wrong = (why: string) => problem(`edge_${name}`, source, why)
  const { values, odd } = spelling(given, source.field)
  const [value, ...more] = values
  if (odd) return wrong('came in another spelling as well')
  if (value === undefined || value === '') return wrong('is missing')
  if (more.length > 0) return wrong('came more than once')
  return value.length > LONGEST[name] ? wrong('is too long') : value
}

/** The lines of a name, and whether there are others that CGI, WSGI and similar interfaces read as the same. */
function spelling({ fields, odd }: GivenFields, field: string) {
  return { values: fields.all(field), odd: odd.some(name => isSameField(name, field)) }
}

/** The names in another spelling than with single hyphens. A source is a row of the table, or of our prefix. */
function oddNames({ flat }: Fields): readonly string[] {
  return flat.filter((name, index) => {
    return index % 2 === 0 && ODD.test(name) && foreignName(name) !== undefined
  })
}

const ODD = /[^A-Za-z0-9-]|^-|--|-$/

interface GivenFields {
  readonly fields: Fields
  readonly odd: readonly string[]
}

/** What a check asks about: a request of the client, with the ID of the check. */
function askedAbout(
  { id }: Request,
  { method, host, client, fields }: Pick<Asker, 'method' | 'host' | 'client' | 'fields'>,
  place: Place,
): AskedAbout {
  const { path, query } = place
  const request = {
    id,
    method,
    target: { form: 'origin', path, query },
    // The version of the check does not show the client's version.
    version: '1.1',
    fields,
    client: { address: client, port: 0 },
  } as const
  return { request, place, host, client }
}

/** The fields of the client, as far as the edge passes them on. */
function fieldsOfClient(fields: Fields): Fields {
  const plain = fields.where(isOfClient)
  return HANDSHAKE.some(name => plain.has(name))
    ? plain.with('Upgrade', 'websocket').with('Connection', 'Upgrade')
    : plain
}

/**
 * The edge asks before it forwards, so only the client can have written the name of this instance, by which the gate would see
 * a loop.
 */
function isOfClient(name: string): boolean {
  return !sameName(name, instanceField)
}

/** Fields by which a client opens a WebSocket, and which an edge does not remove. */
const HANDSHAKE = ['Sec-WebSocket-Key', 'Sec-WebSocket-Version']

function problem(code: CheckProblem['code'], { field, setBy }: Source, why: string): CheckProblem {
  return { status: 400, code, sentence: `${field} of this check ${why}. At the edge: ${setBy}` }
}
