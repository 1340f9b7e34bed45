/**
 * Reads a check of an edge: which request it asks about, by one source each for method, target, host and client. What a check says beside
 * the target is remembered with its fields, which the next checks of the same browser begin with.
 *
 * A client can send fields of any name, and edges pass them on. So a source counts only when it is there once, and in one spelling;
 * fields that are the source of another edge's contract are never looked at.
 *
 * # Facts
 * - nginx, Traefik and Caddy take Upgrade and Connection from a check; the fields of the WebSocket handshake (RFC 6455 section 4.1) stay.
 * - Servers read `X_Forwarded_Uri` and `X.Forwarded.Uri` as X-Forwarded-Uri (CGI). An edge that passes them on may be such a one.
 */
import { timingSafeEqual } from 'node:crypto'
import { type Fields, isToken, sameName } from '../../http/message/field.ts'
import type { Request } from '../../http/message/message.ts'
import { TargetReader } from '../../http/message/target.ts'
import { forwardedAddress } from '../../http/proxy/forwarded.ts'
import type { AddressSet } from '../../ip.ts'
import { instanceField } from '../access/instance-id.ts'
import { isOwnHost, type Place } from '../access/own-origin.ts'
import { tokenDigest } from '../access/passthrough.ts'
import { type Contract, checkPath, contracts, type Edge, type Source } from './contract.ts'

/** The settings that a check is read by. */
export interface CheckSettings {
  readonly edge: Edge
  /** Peers that may ask, and proxies that are not the client. */
  readonly trusted: AddressSet
  /** SHA-256 of what the edge has to show; undefined: nothing. */
  readonly secret: Buffer | undefined
  /** Hosts that may be asked about. */
  readonly hosts: readonly string[]
}

/** The request that is asked about. */
export interface AskedAbout {
  /** With the method and the fields of the client's request, as far as the edge passes them on. */
  readonly request: Request
  readonly place: Place
  /** As the edge says it; one of ours. */
  readonly host: string
  /** IP address of the client, as the edge says. */
  readonly client: string
}

/** Why a check is none. The sentence quotes nothing of it. */
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

/** Characters of each source: longer ones have no place in what edges send. */
const LONGEST = { method: 40, target: 65_536, host: 260, address: 4096, secret: 1024 } as const

/** What a check asks about, or why it is none. */
export function readCheck(check: Request, settings: CheckSettings): AskedAbout | CheckProblem {
  return askedAsBefore(check, settings) ?? readAnew(check, settings)
}

/** What a check has said beside the target, in fields that others begin with as well (http/wire/varying-line.ts). */
interface Asker {
  readonly settings: CheckSettings
  readonly peer: string
  /** That of the check itself. */
  readonly target: Request['target']
  readonly method: string
  readonly host: string
  readonly client: string
  readonly fields: Fields
}

const askers = new WeakMap<Fields, Asker>()

/** What a check asks about that says the same as an earlier one, but for the target. */
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
  if ('code' in place) return undefined
  const { method, host, client, fields } = asker
  const request = new AskedRequest(check, { method, place, client, fields })
  return { request, place, host, client }
}

/** Keeps what a check says beside the target, if its target stands behind all else. */
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
  // A socket in the file system has no address, and its directory says who may connect.
  const { address: peer } = check.client
  if (peer !== '' && !trusted.has(peer)) {
    const sentence = 'forwardAuth.trustedProxies does not have the address of this peer.'
    return { status: 403, code: 'edge_peer', sentence }
  }
  const behind = behindCheckPath(check, contract)
  if (typeof behind !== 'string') return behind
  if (secret !== undefined) {
    const shown = sourceIn(check.fields, contract.secret, LONGEST.secret)
    if ('why' in shown) return problem('edge_secret', contract.secret, shown.why)
    if (!timingSafeEqual(tokenDigest(shown.value), secret)) {
      return problem('edge_secret', contract.secret, 'is another than that of the file')
    }
  }
  const method = methodOf(check, contract)
  if (typeof method !== 'string') return method
  const place = placeIn(check, contract, { method, behind })
  if ('code' in place) return place
  const host = hostIn(check, contract, hosts)
  if (typeof host !== 'string') return host
  const client = clientIn(check, contract, trusted)
  if (typeof client !== 'string') return client
  const fields = remember(check, { settings, method, host, client }) ?? fieldsOfClient(check.fields)
  const request = new AskedRequest(check, { method, place, client, fields })
  return { request, place, host, client }
}

/** What stands behind `/check` in the line of the check, which is the target where the contract has no field for it. */
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
  const sentence = `This listener answers checks of an edge alone, at ${where}.`
  return { status: 404, code: 'edge_path', sentence }
}

function methodOf(check: Request, { method: source }: Contract): string | CheckProblem {
  if (source === undefined) return check.method
  const found = sourceIn(check.fields, source, LONGEST.method)
  if ('why' in found) return problem('edge_method', source, found.why)
  return isToken(found.value) ? found.value : problem('edge_method', source, 'is no method')
}

function placeIn(
  check: Request,
  { target: source }: Contract,
  asked: { readonly method: string; readonly behind: string },
): Place | CheckProblem {
  const found =
    source === undefined ? { value: asked.behind } : sourceIn(check.fields, source, LONGEST.target)
  const at = source ?? { field: 'path', setBy: `path_prefix: ${checkPath}` }
  return 'why' in found ? problem('edge_target', at, found.why) : placeOf(found.value, at)
}

function placeOf(value: string, at: Source): Place | CheckProblem {
  // Judged by the grammar of request lines, whatever the method: a target of another form names no path of the application.
  const target = targets.read('GET', value)
  return 'problem' in target || target.form !== 'origin'
    ? problem('edge_target', at, 'is no path with its query')
    : target
}

const targets = new TargetReader()

function hostIn(
  check: Request,
  { host: source }: Contract,
  hosts: readonly string[],
): string | CheckProblem {
  const found = sourceIn(check.fields, source, LONGEST.host)
  if ('why' in found) return problem('edge_host', source, found.why)
  return hosts.some(host => isOwnHost(found.value, host))
    ? found.value
    : problem('edge_host', source, 'is none of forwardAuth.hosts')
}

/**
 * The client's address: the last one that is not of a proxy of ours. Those before it may be the client's own words. Where all are
 * proxies, the first of them asks for itself.
 */
function clientIn(
  { fields }: Request,
  { address: source }: Contract,
  trusted: AddressSet,
): string | CheckProblem {
  // Edges may add a line of their own, which means the same as a longer list (RFC 9110 section 5.3).
  const found = spelling(fields, source.field)
  if (found.odd) return problem('edge_client', source, 'came in another spelling as well')
  const list = found.values.join(',')
  if (found.values.length === 0) return problem('edge_client', source, 'is missing')
  if (list.length > LONGEST.address) return problem('edge_client', source, 'is too long')
  let client: string | undefined
  for (const entry of list.split(',').reverse()) {
    const address = forwardedAddress(entry)
    // Beyond what is no address no one knows who wrote it.
    if (address === undefined) break
    client = address
    if (!trusted.has(address)) break
  }
  return client ?? problem('edge_client', source, 'ends with no IP address')
}

/** The value of a source that is there once, and not in another spelling besides. */
function sourceIn(
  fields: Fields,
  { field }: { readonly field: string },
  longest: number,
): { readonly value: string } | { readonly why: string } {
  const { values, odd } = spelling(fields, field)
  const [value, ...more] = values
  if (odd) return { why: 'came in another spelling as well' }
  if (value === undefined || value === '') return { why: 'is missing' }
  if (more.length > 0) return { why: 'came more than once' }
  return value.length > longest ? { why: 'is too long' } : { value }
}

/** The lines of a name, and whether there are others that CGI, WSGI and their like read as the same. */
function spelling(fields: Fields, field: string) {
  const values: string[] = []
  let odd = false
  const { flat } = fields
  for (let i = 0; i + 1 < flat.length; i += 2) {
    const name = flat[i] ?? ''
    if (name.length !== field.length) continue
    if (sameName(name, field)) values.push(flat[i + 1] ?? '')
    else if (sameName(name.replace(NOT_PLAIN, '-'), field)) odd = true
  }
  return { values, odd }
}

const NOT_PLAIN = /[^A-Za-z0-9]/g

/** The client's request, as the gate looks at it: its connection, its time and its content are those of the check. */
class AskedRequest implements Request {
  readonly #check: Request
  readonly method: string
  readonly target: Request['target']
  readonly fields: Fields
  readonly client: Request['client']
  // That of the check says nothing about the client's.
  readonly version = '1.1'

  constructor(
    check: Request,
    asked: {
      readonly method: string
      readonly place: Place
      readonly client: string
      readonly fields: Fields
    },
  ) {
    this.#check = check
    this.method = asked.method
    this.target = { form: 'origin', path: asked.place.path, query: asked.place.query }
    this.fields = asked.fields
    this.client = { address: asked.client, port: 0 }
  }

  get id(): string {
    return this.#check.id
  }

  get content() {
    return this.#check.content
  }

  get local() {
    return this.#check.local
  }

  get secure(): boolean {
    return this.#check.secure
  }

  get received(): number {
    return this.#check.received
  }

  /** Making one costs more than all the rest of a check. */
  get signal(): AbortSignal {
    return this.#check.signal
  }
}

/** What the client has sent, as far as the edge passes it on. */
function fieldsOfClient(fields: Fields): Fields {
  const plain = fields.where(isOfClient)
  return isHandshake(plain) ? asHandshake(plain) : plain
}

/** An edge asks on the way to the application, so a name of this instance, which tells a loop, is the client's word. */
function isOfClient(name: string): boolean {
  return !sameName(name, instanceField)
}

/** Whether a WebSocket is to be opened, by what an edge leaves of the handshake. */
function isHandshake(fields: Fields): boolean {
  return HANDSHAKE.some(name => fields.has(name))
}

const HANDSHAKE = ['Sec-WebSocket-Key', 'Sec-WebSocket-Version']

function asHandshake(fields: Fields): Fields {
  return fields.with('Upgrade', 'websocket').with('Connection', 'Upgrade')
}

function problem(
  code: CheckProblem['code'],
  { field, setBy }: { readonly field: string; readonly setBy: string },
  why: string,
): CheckProblem {
  return { status: 400, code, sentence: `${field} of this check ${why}. At the edge: ${setBy}` }
}
