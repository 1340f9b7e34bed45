/**
 * Whether a post comes from a page of our own origin: what another site sends must never be kept, nor sent again, in
 * somebody's name. Pure.
 */
import type { Request } from '../../http/message/message.ts'

/** Fetch metadata says so, else Origin; a post that says neither is from nobody knows where. */
export function isOwnPost({ fields }: Pick<Request, 'fields'>, baseUrl: string): boolean {
  const site = fields.get('Sec-Fetch-Site')
  const origin = fields.get('Origin')
  if (site !== undefined && site !== 'same-origin') return false
  return origin === undefined ? site === 'same-origin' : origin === baseUrl
}
