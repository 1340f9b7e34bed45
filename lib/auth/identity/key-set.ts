/**
 * Publishes the keys of the signed identity (RFC 7517).
 *
 * # Facts
 * - Backends keep the set they have fetched, and many fetch it again only when it has aged. So a new key is published for a
 *   while (twice the time a document may be kept) before it signs (keys/dynamic-config.ts), and an old one for longer than a token of it can live.
 */
import { createPublicKey } from 'node:crypto'
import type { Handler } from '../../http/message/message.ts'
import type { IdentityKey } from '../keys/dynamic-config.ts'
import { ownDocument } from '../pages/own-document.ts'

/** No application has anything below `/__authproxy`; the name of the file is the one libraries expect. */
export const keySetPath = '/__authproxy/jwks.json'

/** Answers the path of the key set, whatever the method; `keys` is asked at every request. */
export function keySetHandler(keys: () => readonly IdentityKey[]): Handler {
  return ownDocument(() => {
    const set = { keys: keys().map(publicHalf) }
    return { type: 'application/jwk-set+json', bytes: Buffer.from(JSON.stringify(set)) }
  })
}

function publicHalf({ kid, privateKey }: IdentityKey): object {
  const { kty, crv, x, y } = createPublicKey(privateKey).export({ format: 'jwk' })
  return { kty, crv, x, y, kid, use: 'sig', alg: 'ES256' }
}
