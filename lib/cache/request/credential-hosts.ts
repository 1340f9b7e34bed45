/**
 * Notices credentials that a client sends to more than one archive by a URL prefix. apt matches `machine http://HTTPS` in its auth.conf, or the
 * name of this proxy, with every archive that is asked for so, and would give the password of one to all of them. The line that was
 * meant names the archive as well: `machine http://HTTPS///archive.example.org/`.
 *
 * # Facts
 * - A single request does not show it: the first archive that gets the credentials is taken for the right one, the second is refused.
 *   The first may be the wrong one, so it counts only for a time: once the line names its archive, that is admitted.
 * - Two archives may have the same password. Hosts that the operator lists by name are not compared.
 */
import { createHmac, randomBytes } from 'node:crypto'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { recent } from '../../recent.ts'

/** Clients and credentials that are remembered. */
const most = 10_000
/** How long a host counts after it got them last. */
const memory: Milliseconds = 10 * 60_000

export class CredentialHosts {
  readonly #clock: Pick<Clock, 'elapsed'>
  /** The host that got them, and when it did last, by a digest of the client and its credentials. */
  readonly #hosts = recent<string, { readonly host: string; at: Milliseconds }>(most)
  readonly #key = randomBytes(32)

  constructor(clock: Pick<Clock, 'elapsed'>) {
    this.#clock = clock
  }

  /** The other host that these credentials of a client went to; undefined when this is the one. */
  otherThan(
    host: string,
    of: { readonly client: string; readonly credentials: string },
  ): string | undefined {
    const digest = createHmac('sha256', this.#key)
      .update(`${of.client} ${of.credentials}`)
      .digest('base64')
    const now = this.#clock.elapsed()
    const first = this.#hosts.get(digest)
    if (first !== undefined && first.host !== host && now - first.at < memory) return first.host
    if (first?.host === host) first.at = now
    else this.#hosts.set(digest, { host, at: now })
    return undefined
  }
}
