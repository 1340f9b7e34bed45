/**
 * Notices credentials that a client sends to more than one archive by a URL prefix. apt matches a line `machine http://HTTPS` of its
 * auth.conf, or one with the name of this proxy, with every archive that is asked for by a prefix, and would send the password of one
 * archive to all of them. The line should name the archive as well: `machine http://HTTPS///archive.example.org/`.
 *
 * # Facts
 * - A single request does not show the mistake. The first archive that gets the credentials counts as the right one, and the second
 *   is refused. The first may be the wrong one, so it counts only for a time.
 * - Two archives may have the same password. Hosts that the operator lists by name are not compared.
 */
import { createHmac, randomBytes } from 'node:crypto'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { Request } from '../../http/message/message.ts'
import { recentEntries } from '../../recent.ts'
import type { Refusal } from '../policy/policy.ts'
import type { FileDestination } from '../request/destination.ts'

/** The most pairs of a client and its credentials that are remembered. */
const most = 10_000
/** The time for which a host counts after it last got the credentials. */
const memory: Milliseconds = 10 * 60_000

type RequestOfClient = Pick<Request, 'fields'> & { readonly client: { readonly address: string } }

export class SentCredentials {
  readonly #clock: Pick<Clock, 'elapsed'>
  /** The host that got the credentials first, and the moment when it last did, by a digest of the client and its credentials. */
  readonly #hosts = recentEntries<string, { readonly host: string; readonly at: Milliseconds }>(
    most,
  )
  readonly #key = randomBytes(32)

  constructor(clock: Pick<Clock, 'elapsed'>) {
    this.#clock = clock
  }

  /** The refusal of a request with credentials that the client has sent to another archive before; undefined for other requests. */
  refusal(request: RequestOfClient, file: FileDestination): Refusal | undefined {
    const name = this.#nameOf(request, file)
    const first = name === undefined ? undefined : this.#hosts.get(name)
    const { host } = file.asked
    if (first === undefined || first.host === host) return undefined
    if (this.#clock.elapsed() - first.at >= memory) return undefined
    return {
      deny: 'credentials',
      sentence: `The credentials for ${host} went to ${first.host} before: a line of auth.conf such as \`machine http://HTTPS\` gives them to every archive. Write \`machine http://HTTPS///${host}/\`, which is admitted ten minutes after ${first.host} got them last, or list both hosts under \`private_domains\` if they share a password.`,
    }
  }

  /** Notes that a request is admitted. */
  note(request: RequestOfClient, file: FileDestination): void {
    const name = this.#nameOf(request, file)
    if (name !== undefined)
      this.#hosts.set(name, { host: file.asked.host, at: this.#clock.elapsed() })
  }

  /** A name for the client and its credentials; undefined for a request that has none, or that need not be compared. */
  #nameOf({ fields, client }: RequestOfClient, file: FileDestination): string | undefined {
    const { underOurAddress, asked, admission } = file
    if (!underOurAddress || ('allow' in admission && admission.trusted)) return undefined
    const credentials = fields.get('Authorization') ?? asked.userinfo
    if (credentials === undefined) return undefined
    const text = `${client.address} ${credentials}`
    return createHmac('sha256', this.#key).update(text).digest('base64')
  }
}
