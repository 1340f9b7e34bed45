/**
 * Notices credentials that a client sends to more than one archive by a URL prefix. apt matches `machine http://HTTPS` in its auth.conf, or the
 * name of this proxy, with every archive that is asked for so, and would give the password of one to all of them. The line that was
 * meant names the archive as well: `machine http://HTTPS///archive.example.org/`.
 *
 * # Facts
 * - A single request does not show it: the first archive that gets the credentials is taken for the right one, the second is refused.
 * - Two archives may have the same password. Hosts that the operator lists by name are not compared.
 */
import { createHmac, randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'

/** Clients and credentials that are remembered. */
const most = 10_000

export class CredentialHosts {
  /** The host that got them, by a digest of the client and its credentials. */
  readonly #hosts = new LRUCache<string, string>({ max: most })
  readonly #key = randomBytes(32)

  /** The other host that these credentials of a client went to; undefined when this is the one. */
  otherThan(
    host: string,
    of: { readonly client: string; readonly credentials: string },
  ): string | undefined {
    const digest = createHmac('sha256', this.#key)
      .update(`${of.client} ${of.credentials}`)
      .digest('base64')
    const first = this.#hosts.get(digest)
    if (first === undefined) this.#hosts.set(digest, host)
    return first === host ? undefined : first
  }
}
