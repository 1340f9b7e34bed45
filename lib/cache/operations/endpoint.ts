/**
 * The address at which clients reach this service, as examples name it, and the state of the service that pages and commands show.
 */
import { isIPv4 } from 'node:net'
import { countOf, size } from '../../figures.ts'
import { ownName, userName } from '../../files/directory-owner.ts'
import type { Request } from '../../http/message/message.ts'
import { type Authority, formatAuthority, parseHost } from '../../http/message/target.ts'
import { isLoopback, normaliseAddress } from '../../ip.ts'
import type { Config } from '../config/config.ts'
import type { UnremovableContents } from '../store/store.ts'
import type { Listener, OperationsSources } from './sources.ts'
import { behindCautions, originCautions, parentCautions } from './state-text.ts'

/** The address that `Acquire::http::Proxy` and the examples contain. */
export interface Endpoint {
  readonly host: string
  readonly port: number
  /** `http://cache.example.org:3142`, without a slash at the end. */
  readonly url: string
  readonly from: HostOrigin
}

/** The setting, the answered request, the address of the listener, an address of the machine, or loopback when there is no other. */
type HostOrigin = 'index.hostnames' | 'request' | 'listener' | 'machine' | 'loopback'

const fallbackPort = 3142

/** The address of the main listener, with the host of the examples. */
export function endpoint(
  config: Config,
  addresses: readonly string[],
  listeners: readonly Listener[],
): Endpoint {
  const open = listeners.filter(listener => !listener.secure)
  // A listener that other machines reach comes first.
  const main = open.find(({ address = '' }) => !isLoopback(address)) ?? open[0] ?? listeners[0]
  const { host, from } = exampleHost(config, addresses, main?.address)
  const port = main?.port ?? config.listen[0]?.port ?? fallbackPort
  const scheme = main?.secure === true ? 'https' : 'http'
  const url = `${scheme}://${formatAuthority({ host, port })}`
  return { host, port, url, from }
}

/**
 * The endpoint for the client of a request. Without `index.hostnames` it has the host that the request names, if that is the name or
 * an address of this machine. A machine in two networks has an address in each, and clients of one may not reach the other.
 */
export function endpointFor(
  request: Pick<Request, 'target' | 'fields'>,
  { config, addresses, hostname, listeners }: EndpointSources,
): Endpoint {
  const usual = endpoint(config, addresses(), listeners())
  const asked = askedAuthority(request)
  if (usual.from === 'index.hostnames' || asked === undefined) return usual
  const address = normaliseAddress(asked.host)
  const host = address ?? asked.host.toLowerCase()
  const known = address === undefined ? [hostname.toLowerCase()] : addresses()
  if (!known.includes(host) || isOnlyHere(host)) return usual
  const ports = listeners().filter(listener => !listener.secure)
  const port = ports.find(listener => listener.port === asked.port)?.port ?? usual.port
  const url = `${usual.url.slice(0, usual.url.indexOf(':'))}://${formatAuthority({ host, port })}`
  return { host, port, url, from: 'request' }
}

type EndpointSources = Pick<OperationsSources, 'config' | 'addresses' | 'hostname' | 'listeners'>

/** The host that a request names in its target, else in the field Host (RFC 9112 section 3.2.2). */
export function askedAuthority({
  target,
  fields,
}: Pick<Request, 'target' | 'fields'>): Authority | undefined {
  if (target.form === 'absolute') return target.uri
  const host = parseHost(fields.get('Host'), 80)
  return host !== undefined && 'host' in host ? host : undefined
}

/** Whether a host is loopback, or a link-local IPv6 address, which needs the name of a network interface (RFC 4291 section 2.5.6). */
function isOnlyHere(host: string): boolean {
  return isLoopback(host) || host.endsWith('.localhost') || /^fe[89ab][0-9a-f]:/.test(host)
}

/** A URL at which this service answers now: that of `endpoint`, unless the main listener is bound to one address. */
export function reachableUrl(
  config: Config,
  addresses: readonly string[],
  listeners: readonly Listener[],
): string {
  return mainOf(listeners)?.address === undefined
    ? endpoint(config, addresses, listeners).url
    : localUrl(listeners)
}

/** A URL for programs on this machine. It has loopback where possible, which is in `clients` by default. */
export function localUrl(listeners: readonly Listener[]): string {
  const { address: host = '127.0.0.1', port = fallbackPort } = mainOf(listeners) ?? {}
  return `http://${formatAuthority({ host, port })}`
}

function mainOf(listeners: readonly Listener[]): Listener | undefined {
  return listeners.find(listener => !listener.secure)
}

/**
 * The first name in `index.hostnames`, else the address to which the listener is bound, else the first IPv4 address that is not
 * loopback, else 127.0.0.1. The host has no brackets. `from` names its source.
 */
export function exampleHost(
  config: Config,
  addresses: readonly string[],
  bound?: string | undefined,
): Pick<Endpoint, 'host' | 'from'> {
  const name = config.index.hostnames.map(text => text.trim()).find(text => text !== '')
  const address = addresses.find(text => isIPv4(text) && !text.startsWith('127.'))
  if (name !== undefined) {
    return { host: name.replace(/^\[(.*)\]$/, '$1'), from: 'index.hostnames' }
  }
  if (bound !== undefined) return { host: bound, from: 'listener' }
  if (address !== undefined) return { host: address, from: 'machine' }
  return { host: '127.0.0.1', from: 'loopback' }
}

/**
 * A caution when `clients` has none of this machine's own addresses in its networks: then its neighbours may not use the proxy.
 * Undefined when one is there, or when only this machine reaches the listeners.
 */
export function neighbourCaution(
  admits: (client: string) => boolean,
  addresses: readonly string[],
  listeners: readonly Listener[],
): string | undefined {
  const near = addresses.filter(address => isIPv4(address) && !isLoopback(address))
  const local = listeners.every(({ address = '' }) => isLoopback(address))
  if (local || near.length === 0 || near.some(admits)) return undefined
  const which = near.length === 1 ? `${near[0]} is` : `${near.join(', ')} are`
  return `machines of this network may not use the proxy: ${which} not under \`clients\`. List the networks that may, including 127.0.0.0/8 for this machine`
}

export interface ServiceState {
  /** Ready, ready with cautions, or unable to do its work. */
  readonly is: 'ready' | 'doubtful' | 'broken'
  readonly because: string
  /** Whether the store takes nothing because its file system or its quota has no room. */
  readonly full: boolean
  readonly cautions: readonly string[]
}

/** The cautions about storing and about single suites, which do not stop the service. */
export function upkeepCautions(sources: UpkeepSources): readonly string[] {
  const because = sources.nothingStored()
  const full = because === undefined ? [] : [`nothing new is stored: ${because}`]
  const left = sources.unremovable()
  const stays = left.contents === 0 ? [] : [unremovableText(left, sources.config.cacheDirectory)]
  const suites = sources.suites()
  const origins = originCautions(sources.unconfirmed())
  const ofFeatures = featureCautions(sources, true)
  return [...full, ...stays, ...origins, ...behindCautions(suites), ...ofFeatures]
}

/** The cautions of the features: those about upkeep, or the others. */
function featureCautions(
  { features }: Pick<OperationsSources, 'features'>,
  upkeep: boolean,
): readonly string[] {
  const all = features.flatMap(({ cautions }) => cautions?.() ?? [])
  return all.filter(caution => caution.upkeep === upkeep).map(({ text }) => text)
}

type UpkeepSources = Pick<
  OperationsSources,
  'suites' | 'unconfirmed' | 'nothingStored' | 'unremovable' | 'config' | 'features'
>

/** A text about contents that could not be removed, with the reason and the command that helps. */
export function unremovableText(left: UnremovableContents, directory: string): string {
  const { contents, bytes, why: { because, owner } = { because: 'permission denied' } } = left
  const [they, are] = contents === 1 ? ['It', 'is'] : ['They', 'are']
  const what = `${countOf(contents, 'removed file')}, ${size(bytes)}, could not be taken from the disk: ${because}`
  const whose = owner === undefined ? '' : `, for the directory belongs to ${userName(owner)}`
  const again = `${they} ${are} no longer served, and ${are} tried again every minute`
  return `${what}${whose}. ${again}${owner === undefined ? '' : `. To mend it: ${mendOwner(owner, directory)}`}`
}

/** The command that lets the user of this process change a directory which belongs to another user or is write-protected. */
function mendOwner(owner: number, directory: string): string {
  const me = process.geteuid?.()
  if (owner === me) return `sudo chmod -R u+rwX ${directory}`
  return `sudo chown -R ${ownName() ?? me}: ${directory}`
}

export async function serviceState(sources: OperationsSources): Promise<ServiceState> {
  const { config, admits, warnings, https, health, addresses, listeners } = sources
  const found = await health()
  const neighbours = neighbourCaution(admits, addresses(), listeners())
  const cautions = [
    ...(config.offline ? ['offline: nothing is fetched from origins'] : []),
    ...warnings(),
    ...(neighbours === undefined ? [] : [neighbours]),
    ...(https()?.expiresSoon === true ? ['the CA certificate expires soon'] : []),
    // Not on /_cachesvc/healthz: the reason names the origin that one client asked for, and every client may read that page.
    ...parentCautions(sources.parents()),
    ...upkeepCautions(sources),
    ...featureCautions(sources, false),
  ]
  if (!found.writable) {
    const { because, full = false } = found
    return { is: 'broken', because, full, cautions }
  }
  return { is: cautions.length === 0 ? 'ready' : 'doubtful', because: '', full: false, cautions }
}
