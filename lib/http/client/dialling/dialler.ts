/**
 * Opens connections for requests and tunnels: name, admission of its addresses, TCP, the parent proxy, TLS.
 *
 * Admission: a host that is not trusted may only be reached at addresses that `isPublic` admits. They are checked after DNS, and the
 * connection goes to the checked address, so a name that changes its answer in between gains nothing. A host that is written as an address
 * is checked as well. A parent proxy resolves the origin's name itself: then an untrusted name cannot be checked here, but an untrusted
 * address is. The parent itself is trusted.
 *
 * TLS: 1.2 or newer, certificates verified, `http/1.1` by ALPN, sessions resumed.
 */
import { connect as connectTcp, isIPv6, type Socket } from 'node:net'
import {
  connect as connectTls,
  createSecureContext,
  rootCertificates,
  type SecureContext,
} from 'node:tls'
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { withDeadline } from '../../../async/deadline.ts'
import { BlockPool } from '../../../bytes/block-pool.ts'
import { recentEntries } from '../../../recent.ts'
import { type Authority, formatAuthority, isIpLiteral } from '../../message/target.ts'
import type { KeyAndCertificate } from '../../server/options.ts'
import { type DialledConnection, Transport } from '../connection.ts'
import { failureOf, OriginFailure, type OriginTrouble } from '../errors.ts'
import { type Lookup, NameLookup } from './name-lookup.ts'
import {
  ConnectRefused,
  connectThrough,
  type DialDeadlines,
  hurriedDeadlines,
  type Parent,
  type ParentRules,
  Parents,
  type Way,
} from './parents.ts'
import {
  type AddressOfName,
  type FamilyOf,
  ofFamily,
  type SilentAddress,
  SilentAddresses,
} from './silent-addresses.ts'

export interface DialOptions {
  readonly clock: Clock
  readonly deadlines: DialDeadlines
  /** Whether a host that is not trusted may be at this address. IPv4-mapped IPv6 comes as DNS gave it. */
  readonly isPublic: (address: string) => boolean
  /** The resolver, for tests; undefined: that of the system. */
  readonly lookup?: Lookup
  /** The family of the addresses of a name that may be used; undefined: both. An address instead of a name has the family it has. */
  readonly familyOf?: FamilyOf
  /** Called when an address that was silent comes last from now on. */
  readonly onSilent?: (silent: SilentAddress) => void
  /** Parent proxies by which origins are asked; undefined: none. */
  readonly parents?: ParentRules | undefined
  /** Certificates (PEM) of authorities that are trusted in addition to the well-known ones. */
  readonly ca?: readonly string[]
  /** Memory that connections are read into; undefined: 64 MiB of its own. */
  readonly blocks?: BlockPool | undefined
  /** False accepts any certificate: only for a gateway whose operator demands it. */
  readonly verify?: boolean
  /** The certificate for servers that ask for one. */
  readonly identity?: KeyAndCertificate | undefined
  /** The name that TLS asks for (RFC 6066 section 3) and that certificates must be for; undefined: that of the authority. */
  readonly serverName?: string | undefined
  /** The first bytes of each connection, before TLS: the PROXY protocol. */
  readonly introduction?: Buffer | undefined
}

export interface DialRequest {
  readonly authority: Authority
  /** The use of the connection. `tunnel` is bare TCP to the far end, through the parent by CONNECT. */
  readonly use: 'http' | 'https' | 'tunnel'
  /** Whether the host may be at any address. */
  readonly trusted: boolean
  /** The Via of the request (RFC 9110 section 7.6.3), for the CONNECT to the parent. */
  readonly via?: string | undefined
  readonly signal: AbortSignal
  readonly deadlines?: Partial<DialDeadlines> | undefined
  /** Addresses that are tried only when the others fail. */
  readonly except?: ReadonlySet<string> | undefined
  /** Called with the address once TCP is connected, before TLS. */
  readonly onConnected?: ((peer: AddressOfName) => void) | undefined
}

/** The time after which the kernel asks a silent peer whether it is still there. */
const KEEP_ALIVE_DELAY: Milliseconds = 60_000
/** Bytes that may wait in a socket to be written before its writer has to stop. */
const HIGH_WATER_MARK = 65_536
const OWN_BLOCKS = 64 * 1024 * 1024
/** The most sessions remembered for resumption, one for each origin. */
const MOST_SESSIONS = 500
/** RFC 8305 section 5: "Connection Attempt Delay" */
const ATTEMPT_DELAY: Milliseconds = 250
/** The time after which addresses are tried that come last, while attempts to reach the others go on. */
const LATER_DELAY: Milliseconds = 3000

export class Dialler {
  readonly #options: DialOptions
  readonly parents: Parents
  readonly silent: SilentAddresses
  readonly #names: NameLookup
  /**
   * The context for the well-known authorities alone is made for the first TLS connection: it takes tens of milliseconds, and many services
   * need none. Certificates of the configuration are read at once, because they may be wrong.
   */
  #secureContext: SecureContext | undefined
  #trusted: readonly string[]
  #identity: KeyAndCertificate | undefined
  readonly #blocks: BlockPool
  readonly #sessions = recentEntries<string, Buffer>(MOST_SESSIONS)

  constructor(options: DialOptions) {
    this.#options = options
    this.#blocks = options.blocks ?? new BlockPool({ limit: OWN_BLOCKS })
    const { clock, lookup, ca = [], identity, parents, onSilent } = options
    this.parents = new Parents(clock, parents)
    this.silent = new SilentAddresses(clock, onSilent)
    this.#names = new NameLookup(clock, lookup)
    this.#trusted = ca
    this.#identity = identity
    this.#secureContext = configuredContext(ca, identity)
  }

  /** From now on trusts these authorities (PEM) in addition to the well-known ones, instead of those given before. */
  trust(ca: readonly string[]): void {
    this.#trusted = ca
    this.#secureContext = configuredContext(ca, this.#identity)
  }

  /**
   * From now on shows this certificate to servers that ask for one; false when it is shown already. The sessions are forgotten, because a
   * resumed session would belong to the old certificate.
   */
  show(identity: KeyAndCertificate): boolean {
    const { cert, key } = this.#identity ?? {}
    if (cert === identity.cert && key === identity.key) return false
    this.#identity = identity
    this.#secureContext = contextOf(this.#trusted, identity)
    this.#sessions.clear()
    return true
  }

  /** The last known addresses of a name if none of them may be reached by a host that is not trusted; else none. It asks no resolver. */
  refusedAddresses({ host }: Authority): readonly string[] {
    const known = this.#names.remembered(host)
    return known.some(address => this.#options.isPublic(address)) ? [] : known
  }

  /** A new connection by the first way that works. Throws an OriginFailure of the phase that failed, and then leaves no connection open. */
  async dial(request: DialRequest): Promise<DialledConnection> {
    const { parents } = this
    const ways = parents.waysTo(request.authority)
    for (const way of ways.slice(0, -1)) {
      const begun = this.#options.clock.elapsed()
      const deadlines = hurriedDeadlines({ ...this.#options.deadlines, ...request.deadlines })
      try {
        return await this.dialBy(way, { ...request, deadlines })
      } catch (error) {
        if (!(error instanceof OriginFailure) || !parents.failed(way, error, begun)) throw error
      }
    }
    const last = ways.at(-1)
    const begun = this.#options.clock.elapsed()
    return this.dialBy(last, request).catch(error => {
      if (error instanceof OriginFailure) parents.failed(last, error, begun)
      throw error
    })
  }

  async dialBy(parent: Way, request: DialRequest): Promise<DialledConnection> {
    const { authority, use } = request
    if (parent === undefined) {
      const connected = await this.#connect(authority, request, request.trusted)
      return use === 'https' ? this.#secure(connected, request) : connected
    }
    if (!request.trusted && isIpLiteral(authority.host)) this.#admit(authority, [authority.host])
    const connected = await this.#reachParent(parent, request)
    if (use === 'http') return connected
    const work = (stop: AbortSignal) =>
      connectThrough(connected.transport, parent, { to: authority, via: request.via, stop })
    await this.#phase('parent-proxy', request, work, { parent: formatAuthority(parent) }).catch(
      error => {
        connected.transport.destroy()
        throw error
      },
    )
    this.parents.answered(parent)
    return use === 'https' ? this.#secure(connected, request) : connected
  }

  async #reachParent(parent: Parent, request: DialRequest): Promise<DialledConnection> {
    try {
      return await this.#connect(parent, request, true)
    } catch (cause) {
      if (cause instanceof OriginFailure && cause.code === 'ORIGIN_ABORTED') throw cause
      throw failureOf('parent-proxy', formatAuthority(request.authority), {
        parent: formatAuthority(parent),
        cause,
      })
    }
  }

  async #connect(
    to: Authority,
    request: DialRequest,
    trusted: boolean,
  ): Promise<DialledConnection> {
    const found = isIpLiteral(to.host) ? [to.host] : await this.#addressesOf(to, request)
    const addresses = trusted ? found : this.#admit(to, found)
    const { clock, introduction } = this.#options
    const { port } = to
    const connect = (host: string) => this.#begin(request.use, host, port)
    const { first, later } = this.silent.inTurn(addresses, { port, except: request.except })
    const { transport, address } = await this.#phase('connect', request, stop =>
      connectFirst(first, { connect, clock, stop, later }),
    )
    if (introduction !== undefined) transport.socket.write(introduction)
    const connected = { transport, address, port, others: addresses.length - 1 }
    request.onConnected?.(connected)
    return connected
  }

  /** The addresses of a name that may be used. */
  async #addressesOf(to: Authority, request: DialRequest): Promise<readonly string[]> {
    const all = await this.#phase('dns', request, () => this.#names.addresses(to.host))
    const family = this.#options.familyOf?.(to) ?? 'any'
    const addresses = ofFamily(all, family)
    if (addresses.length > 0) return addresses
    throw new OriginFailure('ORIGIN_ADDRESS_FAMILY', formatAuthority(request.authority), { family })
  }

  #begin(use: DialRequest['use'], host: string, port: number): Transport {
    const socket = {
      host,
      port,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: KEEP_ALIVE_DELAY,
      highWaterMark: HIGH_WATER_MARK,
    }
    // TLS reads below the stream, where `onread` has no effect.
    return use === 'https'
      ? Transport.over(connectTcp(socket), this.#blocks)
      : Transport.connect(socket, this.#blocks)
  }

  /** The addresses that may be reached. Throws when there is none. */
  #admit(to: Authority, addresses: readonly string[]): readonly string[] {
    const admitted = addresses.filter(address => this.#options.isPublic(address))
    if (admitted.length === 0) {
      const address = addresses.join(', ')
      throw new OriginFailure('ORIGIN_ADDRESS_REFUSED', formatAuthority(to), { address })
    }
    return admitted
  }

  async #secure(connected: DialledConnection, request: DialRequest): Promise<DialledConnection> {
    const { transport, address } = connected
    const work = (stop: AbortSignal) => this.#handshake(transport.detach(), request.authority, stop)
    try {
      return { ...connected, transport: await this.#phase('tls', request, work, { address }) }
    } catch (error) {
      const { origin, timedOut } = error instanceof OriginFailure ? error : {}
      if (timedOut && origin !== undefined) this.silent.note(connected, origin)
      throw error
    }
  }

  #handshake(socket: Socket, to: Authority, stop: AbortSignal): Promise<Transport> {
    const key = formatAuthority(to)
    this.#secureContext ??= contextOf(this.#trusted, this.#identity)
    const context = this.#secureContext
    const { serverName = to.host } = this.#options
    const session = this.#sessions.get(key)
    return new Promise((resolve, reject) => {
      const secure = connectTls({
        socket,
        host: to.host,
        // RFC 6066 section 3: the name is left out for addresses.
        ...(isIpLiteral(serverName) ? {} : { servername: serverName }),
        ...(session === undefined ? {} : { session }),
        ALPNProtocols: ['http/1.1'],
        secureContext: context,
        rejectUnauthorized: this.#options.verify ?? true,
      })
      const fail = (error: Error) => {
        this.#sessions.delete(key)
        secure.destroy()
        socket.destroy()
        reject(error)
      }
      const onStop = () => fail(stop.reason)
      stop.addEventListener('abort', onStop)
      secure.on('error', fail)
      secure.on('session', (fresh: Buffer) => {
        if (context !== this.#secureContext) return
        if (secure.authorized || this.#options.verify === false) this.#sessions.set(key, fresh)
      })
      secure.once('secureConnect', () => {
        stop.removeEventListener('abort', onStop)
        // From here on the transport listens for errors: the bytes after the handshake may not be TLS.
        const transport = Transport.over(secure, this.#blocks)
        secure.off('error', fail)
        resolve(transport)
      })
    })
  }

  /** Runs one phase under its deadline and the request's signal. An error becomes an OriginFailure of this phase. */
  async #phase<T>(
    phase: keyof typeof DEADLINE_OF,
    request: DialRequest,
    work: (stop: AbortSignal) => Promise<T>,
    known: Pick<OriginTrouble, 'address' | 'parent'> = {},
  ): Promise<T> {
    const origin = formatAuthority(request.authority)
    const deadlines = { ...this.#options.deadlines, ...request.deadlines }
    const after = deadlines[DEADLINE_OF[phase]]
    const failure = (trouble: OriginTrouble) => failureOf(phase, origin, { ...trouble, ...known })
    const limit = {
      clock: this.#options.clock,
      after,
      signal: request.signal,
      late: () => failure({ after }),
      aborted: () => new OriginFailure('ORIGIN_ABORTED', origin, { phase }),
    }
    return withDeadline(limit, stop =>
      work(stop).catch(cause => {
        const status = cause instanceof ConnectRefused ? { status: cause.status } : {}
        throw failure({ cause, ...status })
      }),
    )
  }
}

/** The context of the configuration; undefined when that adds nothing to Node's default. */
function configuredContext(
  ca: readonly string[],
  identity: KeyAndCertificate | undefined,
): SecureContext | undefined {
  return ca.length === 0 && identity === undefined ? undefined : contextOf(ca, identity)
}

function contextOf(ca: readonly string[], identity: KeyAndCertificate | undefined): SecureContext {
  if (ca.length > 0 && identity === undefined) return contextTrusting(ca)
  // A list replaces the well-known authorities, so it has to contain them.
  const trusted = ca.length === 0 ? {} : { ca: [...rootCertificates, ...ca] }
  return createSecureContext({ minVersion: 'TLSv1.2', ...trusted, ...identity })
}

const DEADLINE_OF = {
  dns: 'lookup',
  connect: 'connect',
  'parent-proxy': 'parent',
  tls: 'tls',
} as const

/**
 * Connects to one of several addresses, RFC 8305 section 5: the families take turns, an attempt starts when the previous one has failed or
 * taken 250 ms, no attempt is given up while others are tried, and the first to connect wins. The addresses of `later` are tried when
 * those before have failed or taken `LATER_DELAY`. `stop` ends all attempts. Rejects with the error of the only attempt, or an
 * AggregateError of all.
 *
 * Node's own `autoSelectFamily` is not used: it drops an attempt when it starts the next, so a distant address is lost to an unreachable
 * one.
 */
export function connectFirst(
  addresses: readonly string[],
  {
    connect,
    clock,
    stop,
    later = [],
  }: {
    readonly connect: (address: string) => Transport
    readonly clock: Clock
    readonly stop: AbortSignal
    /** Addresses that are tried when the others have failed. */
    readonly later?: readonly string[]
  },
): Promise<Pick<DialledConnection, 'transport' | 'address'>> {
  const order = [...interleaved(addresses), ...interleaved(later)]
  const attempts = new Set<Transport>()
  const errors: Error[] = []
  let next = 0
  let cancelTimer = () => {}
  return new Promise((resolve, reject) => {
    const finish = (winner?: Transport) => {
      cancelTimer()
      stop.removeEventListener('abort', onStop)
      next = order.length
      for (const transport of attempts) if (transport !== winner) transport.destroy()
      attempts.clear()
    }
    const onStop = () => {
      finish()
      reject(stop.reason)
    }
    const attempt = () => {
      cancelTimer()
      const address = order[next]
      if (address === undefined) return
      next += 1
      const transport = connect(address)
      attempts.add(transport)
      const broke = (error: Error) => {
        if (!attempts.delete(transport)) return
        errors.push(error)
        if (next < addresses.length || (next < order.length && attempts.size === 0)) {
          return attempt()
        }
        if (attempts.size > 0) return
        finish()
        reject(errors.length === 1 ? error : new AggregateError(errors))
      }
      transport.socket.on('error', broke)
      transport.socket.once('connect', () => {
        if (!attempts.has(transport)) return
        // With the listener the connection would keep the memory of all attempts while it lasts.
        transport.socket.off('error', broke)
        finish(transport)
        resolve({ transport, address })
      })
      const delay = next === addresses.length ? LATER_DELAY : ATTEMPT_DELAY
      if (next < order.length) cancelTimer = clock.after(delay, attempt)
    }
    stop.addEventListener('abort', onStop)
    if (stop.aborted) onStop()
    else attempt()
  })
}

/** RFC 8305 section 4: the families alternate, beginning with that of the first address. The order within each family stays. */
function interleaved(addresses: readonly string[]): readonly string[] {
  const first = isIPv6(addresses[0] ?? '')
  const own = addresses.filter(address => isIPv6(address) === first)
  const other = addresses.filter(address => isIPv6(address) !== first)
  const order: string[] = []
  for (let i = 0; i < Math.max(own.length, other.length); i += 1) {
    for (const address of [own[i], other[i]]) if (address !== undefined) order.push(address)
  }
  return order
}

/*
 * The trust of TLS connections to origins: the authorities that Node brings, and others. OpenSSL reads some 150 certificates for it, which
 * takes 40 ms, so the last context is kept for callers with the same authorities.
 */

let last: { readonly ca: readonly string[]; readonly context: SecureContext } | undefined

/** A context that trusts these certificates (PEM) in addition to the well-known ones, and shows none. */
export function contextTrusting(ca: readonly string[]): SecureContext {
  const same = last?.ca.length === ca.length && ca.every((pem, i) => pem === last?.ca[i])
  if (last === undefined || !same) {
    const trusted = [...rootCertificates, ...ca]
    last = { ca: [...ca], context: createSecureContext({ minVersion: 'TLSv1.2', ca: trusted }) }
  }
  return last.context
}
