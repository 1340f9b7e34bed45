/**
 * The names of an origin: in errors, and the key of its connections in the pool.
 */
import { formatAuthority } from '../message/target.ts'
import type { Way } from './dialling/parents.ts'
import type { OriginRequest } from './request.ts'

/** The names of an origin in errors and in the pool. They are made once for consecutive requests to the same origin. */
export class OriginNames {
  #last = {
    scheme: '',
    host: '',
    port: 0,
    trusted: false,
    line: '',
    origin: '',
    key: '',
    way: undefined as Way,
  }

  of(
    { uri, trusted, line = 'shared' }: OriginRequest,
    way: Way,
  ): Readonly<{ origin: string; key: string }> {
    const { scheme, host, port } = uri
    const last = this.#last
    const sameOrigin = host === last.host && port === last.port && scheme === last.scheme
    if (sameOrigin && trusted === last.trusted && line === last.line && way === last.way)
      return last
    const origin = formatAuthority(uri)
    // A request that may go to any address never shares a connection with one that may not. A request with the credentials of one parent
    // never goes over a connection to another.
    const by = way === undefined ? '' : ` by ${formatAuthority(way)}`
    const key = `${scheme}://${origin} ${trusted ? 'trusted' : 'public'} ${line}${by}`
    this.#last = { scheme, host, port, trusted, line, origin, key, way }
    return this.#last
  }
}
