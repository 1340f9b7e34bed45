/**
 * Asks other nodes for files that they are fetching or have stored. A node answers such a request from its store or from a fetch under way, and
 * asks no origin for it, so nodes cannot wait for each other in a circle (RFC 9111 section 5.2.1.7, `only-if-cached`).
 *
 * # Facts
 * - A content from another node is compared with the digest that this node knows, like a content from an origin. So the address of a node in the
 *   bucket need not be trusted. A request to it has no credentials and only tells the name of a file. No request goes to this machine itself or to
 *   an address at which clouds give credentials (peer-addresses.ts).
 * - A node with an http URL is asked as a proxy. A node with an https URL is asked with a URL prefix, because our client speaks only http to a
 *   proxy.
 */
import { LRUCache } from 'lru-cache'
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import type { Lifetime } from '../../../async/lifetime.ts'
import type { BlockPool } from '../../../bytes/block-pool.ts'
import type { Source } from '../../../bytes/source.ts'
import { Failure } from '../../../errors.ts'
import { OriginClient, type OriginResponse } from '../../../http/client/client.ts'
import { resolveBySystem } from '../../../http/client/dialling/name-lookup.ts'
import { singleParent } from '../../../http/client/dialling/parents.ts'
import { OriginFailure } from '../../../http/client/errors.ts'
import { Fields } from '../../../http/message/field.ts'
import { formatAuthority, type TargetUri } from '../../../http/message/target.ts'
import { recentEntries } from '../../../recent.ts'
import { pacedSource } from '../pace.ts'
import { mayBeNode } from './peer-addresses.ts'

interface PeersParts {
  readonly clock: Clock
  readonly blocks: BlockPool
  readonly own: () => TargetUri | undefined
  /** The name of this node in Via, by which a node recognises a request from itself. */
  readonly pseudonym: string
}

interface PeerQuestion {
  readonly uri: TargetUri
  readonly first: number
  readonly lifetime: Lifetime
}

/** The longest time until a node has accepted the connection. */
const connecting: Milliseconds = 2000
/** The longest time without a response head or without a byte of content. It is long, because the origin of that node may be slow. */
const silence: Milliseconds = 10_000
const mostPeers = 64
/** A node whose content came too slowly is not asked for this time, because an origin may be faster. */
const slowTime: Milliseconds = 60_000
const perPeer = 32

/** Fields in an answer to a request with a URL prefix. They concern the address of the node and are dropped. */
const ofPrefix = ['Content-Security-Policy', 'X-Content-Type-Options']

export class Peers {
  readonly #parts: PeersParts
  /** The moment by `elapsed` until which a slow node is not asked, by the name of the node. */
  readonly #slow = recentEntries<string, Milliseconds>(mostPeers)
  readonly #clients = new LRUCache<string, OriginClient>({
    max: mostPeers,
    dispose: client => void client.close(),
  })

  constructor(parts: PeersParts) {
    this.#parts = parts
  }

  /** The answer of a node, with any status. Throws the failures of the client. */
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
          ? singleParent({ host: peer.host, port: peer.port, credentials: undefined })
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

/** A target in the form in which clients ask a proxy for it. An https origin becomes `http://HTTPS///`. */
function asked(uri: TargetUri): TargetUri {
  if (uri.scheme === 'http') return uri
  return { scheme: 'http', host: 'https', port: 80, path: `//${authority(uri)}${uri.path}` }
}

function prefixed({ scheme, host, port }: TargetUri, uri: TargetUri): TargetUri {
  const https = uri.scheme === 'https' ? '/HTTPS//' : ''
  return { scheme, host, port, path: `${https}/${authority(uri)}${uri.path}` }
}

/** Host and port. The port is always written, because a host name without a dot would else be taken as a directory. */
function authority({ host, port }: TargetUri): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`
}
