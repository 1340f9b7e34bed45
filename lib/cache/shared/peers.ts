/**
 * Asks other nodes for what they are fetching, or have stored. A node answers such a request from its store or from a fetch under way, and
 * asks no origin for it, so nodes cannot wait for each other in a circle (RFC 9111 section 5.2.1.7, `only-if-cached`).
 *
 * # Facts
 * - What another node sends is held to the digest that this node knows, exactly as what an origin sends is. So the address of a node, which
 *   stands in the bucket, need not be trusted. A request to it has no credentials and tells no more than the name of a file.
 * - A node is asked as a proxy. By https it is asked with a URL prefix, because a parent proxy is spoken to by http.
 */
import { LRUCache } from 'lru-cache'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { Lifetime } from '../../async/lifetime.ts'
import type { BlockPool } from '../../bytes/block-pool.ts'
import { OriginClient, type OriginResponse } from '../../http/client/client.ts'
import { onlyBy } from '../../http/client/dialling/parents.ts'
import { Fields } from '../../http/message/field.ts'
import { formatAuthority, type TargetUri } from '../../http/message/target.ts'

interface PeersParts {
  readonly clock: Clock
  readonly blocks: BlockPool
  /** Our name in Via, by which a node that is asked finds that the request comes from itself. */
  readonly pseudonym: string
}

export interface PeerQuestion {
  readonly uri: TargetUri
  /** The first byte that is wanted. */
  readonly first: number
  readonly lifetime: Lifetime
}

/** Time until a node has taken the connection. */
const connecting: Milliseconds = 2000
/** Time without a head, or without a byte of content: the origin of that node may be slow. */
const silence: Milliseconds = 10_000
const mostPeers = 64
const perPeer = 32

/** Fields of an answer that was asked for with a URL prefix, which concern our own address. */
const ofPrefix = ['Content-Security-Policy', 'X-Content-Type-Options']

export class Peers {
  readonly #parts: PeersParts
  readonly #clients = new LRUCache<string, OriginClient>({
    max: mostPeers,
    dispose: client => void client.close(),
  })

  constructor(parts: PeersParts) {
    this.#parts = parts
  }

  /** The answer of a node, with a status of any kind. Throws the client's failures. */
  async ask(peer: TargetUri, question: PeerQuestion): Promise<OriginResponse> {
    const { uri, first, lifetime } = question
    const response = await this.#clientOf(peer).request({
      method: 'GET',
      uri: peer.scheme === 'https' ? prefixed(peer, uri) : asked(uri),
      fields: Fields.of(
        ['Cache-Control', 'only-if-cached'],
        ['Range', first === 0 ? undefined : `bytes=${first}-`],
        ['Via', `1.1 ${this.#parts.pseudonym}`],
      ),
      within: lifetime,
      trusted: true,
    })
    return { ...response, parent: undefined, fields: response.fields.without(...ofPrefix) }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#clients.values()].map(client => client.close()))
  }

  #clientOf(peer: TargetUri): OriginClient {
    const { clock, blocks } = this.#parts
    const name = `${peer.scheme}://${formatAuthority(peer)}`
    const known = this.#clients.get(name)
    if (known !== undefined) return known
    const client = new OriginClient({
      clock,
      blocks,
      isPublic: () => true,
      parents:
        peer.scheme === 'http'
          ? onlyBy({ host: peer.host, port: peer.port, credentials: undefined })
          : undefined,
      deadlines: {
        ...{ lookup: connecting, connect: connecting, parent: connecting, tls: connecting },
        ...{ fields: silence, content: silence },
      },
      limits: { perOrigin: perPeer },
    })
    this.#clients.set(name, client)
    return client
  }
}

/** A target as clients ask a proxy for it: an https origin by `http://HTTPS///`. */
function asked(uri: TargetUri): TargetUri {
  if (uri.scheme === 'http') return uri
  return { scheme: 'http', host: 'https', port: 80, path: `//${authority(uri)}${uri.path}` }
}

function prefixed({ scheme, host, port }: TargetUri, uri: TargetUri): TargetUri {
  const https = uri.scheme === 'https' ? '/HTTPS//' : ''
  return { scheme, host, port, path: `${https}/${authority(uri)}${uri.path}` }
}

/** Host and port: with the port a name without a dot is no directory. */
function authority({ host, port }: TargetUri): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`
}
