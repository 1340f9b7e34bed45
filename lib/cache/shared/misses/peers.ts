/**
 * Asks other nodes for what they are fetching, or have stored. A node answers such a request from its store or from a fetch under way, and
 * asks no origin for it, so nodes cannot wait for each other in a circle (RFC 9111 section 5.2.1.7, `only-if-cached`).
 *
 * # Facts
 * - What another node sends is held to the digest that this node knows, exactly as what an origin sends is. So the address of a node, which
 *   stands in the bucket, need not be trusted. A request to it has no credentials and tells no more than the name of a file. No request goes
 *   to this machine itself or to an address at which clouds give credentials, see peer-addresses.ts.
 * - A node is asked as a proxy. By https it is asked with a URL prefix, because a parent proxy is spoken to by http.
 */
import { LRUCache } from 'lru-cache'
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import type { Lifetime } from '../../../async/lifetime.ts'
import type { BlockPool } from '../../../bytes/block-pool.ts'
import type { Source } from '../../../bytes/source.ts'
import { Failure } from '../../../errors.ts'
import { OriginClient, type OriginResponse } from '../../../http/client/client.ts'
import { resolveBySystem } from '../../../http/client/dialling/name-lookup.ts'
import { onlyBy } from '../../../http/client/dialling/parents.ts'
import { OriginFailure } from '../../../http/client/errors.ts'
import { Fields } from '../../../http/message/field.ts'
import { formatAuthority, type TargetUri } from '../../../http/message/target.ts'
import { recentEntries } from '../../../recent.ts'
import { pacedSource } from '../pace.ts'
import { mayBeNode } from './peer-addresses.ts'

interface PeersParts {
  readonly clock: Clock
  readonly blocks: BlockPool
  /** The `peer_url` of this node. */
  readonly own: () => TargetUri | undefined
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
/** How long a node is not asked whose content came too slowly: an origin may be faster. */
const slowTime: Milliseconds = 60_000
const perPeer = 32

/** Fields of an answer that was asked for with a URL prefix, which concern our own address. */
const ofPrefix = ['Content-Security-Policy', 'X-Content-Type-Options']

export class Peers {
  readonly #parts: PeersParts
  /** Until when nodes that were too slow are not asked, by `elapsed`. */
  readonly #slow = recentEntries<string, Milliseconds>(mostPeers)
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
    const { clock, pseudonym } = this.#parts
    const name = nameOf(peer)
    if ((this.#slow.get(name) ?? 0) > clock.elapsed()) {
      throw new Failure('the node was too slow just now', { code: 'slow-node' })
    }
    const response = await this.#clientOf(peer).request({
      method: 'GET',
      uri: peer.scheme === 'https' ? prefixed(peer, uri) : asked(uri),
      fields: Fields.of(
        ['Cache-Control', 'only-if-cached'],
        ['Range', first === 0 ? undefined : `bytes=${first}-`],
        ['Via', `1.1 ${pseudonym}`],
      ),
      within: lifetime,
      trusted: true,
    })
    const content = pacedSource(response.content, clock, formatAuthority(peer))
    const noted: Source = {
      next: take =>
        content.next((error, piece) => {
          if (error instanceof OriginFailure && error.timedOut) {
            this.#slow.set(name, clock.elapsed() + slowTime)
          }
          take(error, piece)
        }),
      close: () => content.close(),
    }
    const fields = response.fields.without(...ofPrefix)
    return { ...response, parent: undefined, fields, content: noted }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#clients.values()].map(client => client.close()))
  }

  #clientOf(peer: TargetUri): OriginClient {
    const { clock, blocks, own } = this.#parts
    const name = nameOf(peer)
    const known = this.#clients.get(name)
    if (known !== undefined) return known
    const client = new OriginClient({
      clock,
      blocks,
      isPublic: () => true,
      lookup: async host => {
        const found = await resolveBySystem(host)
        const admitted = found.filter(address => mayBeNode(address, own()?.host))
        if (admitted.length === 0) throw new Error('no node can be at its addresses')
        return admitted
      },
      parents:
        peer.scheme === 'http'
          ? onlyBy({ host: peer.host, port: peer.port, credentials: undefined })
          : undefined,
      deadlines: {
        lookup: connecting,
        connect: connecting,
        parent: connecting,
        tls: connecting,
        fields: silence,
        content: silence,
      },
      limits: { perOrigin: perPeer },
    })
    this.#clients.set(name, client)
    return client
  }
}

function nameOf(peer: TargetUri): string {
  return `${peer.scheme}://${formatAuthority(peer)}`
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
