/**
 * The target of a login that the IdP began: IdPs allow a path, or a whole address, in its RelayState (saml-profiles-2.0-os section
 * 4.1.5). People type it into a form of the IdP, in capitals, with `http:`, with spaces, or encoded. Each form is taken that can mean
 * only one path of ours: a browser is sent to that path of our own origin, never to what stands before it.
 */
import { safeReturn } from './parts.ts'

/** The path to go to, and why the RelayState is not used; undefined when it is, or when there is none. */
export interface RelayedTarget {
  readonly path: string
  readonly ignored?: 'too-long' | 'other-host' | 'no-address' | 'own-path'
}

/** The standard allows 80 bytes (saml-bindings-2.0-os section 3.5.3); IdPs accept more. */
const LONGEST = 2000

export function relayedTarget(baseUrl: string, relayState: string): RelayedTarget {
  const ignored = (because: RelayedTarget['ignored'] & string) => ({ path: '/', ignored: because })
  if (relayState === '') return { path: '/' }
  if (relayState.length > LONGEST) return ignored('too-long')
  const text = written(relayState)
  if (text === undefined) return ignored('no-address')
  const [, scheme = '', authority, rest = ''] = ADDRESS.exec(text) ?? []
  if (authority !== undefined && !isOurs(baseUrl, scheme, authority)) return ignored('other-host')
  if (authority === undefined && !text.startsWith('/')) return ignored('no-address')
  const wanted = authority === undefined ? text : rest
  const path = wanted.startsWith('/') ? wanted : `/${wanted}`
  const safe = safeReturn(path)
  if (safe === path) return { path }
  return ignored(path.startsWith('//') || path.startsWith('/\\') ? 'other-host' : 'own-path')
}

const ADDRESS = /^(https?):\/\/([^/?#\\]*)(.*)$/i

/** Decodes an address that is encoded as a whole, and encodes what no address may have; undefined with control characters. */
function written(relayState: string): string | undefined {
  const isEncoded = /^(?:https?%3a|%2f)/i.test(relayState)
  try {
    const text = isEncoded ? decodeURIComponent(relayState) : relayState.trim()
    if (/\p{Cc}/u.test(text)) return undefined
    return text.replace(/[^\x21-\x7e]/gu, character => encodeURIComponent(character))
  } catch {
    return undefined
  }
}

/** Whether a host, with its port, is ours. Capitals and the default port do not count. */
function isOurs(baseUrl: string, scheme: string, authority: string): boolean {
  const port = scheme.toLowerCase() === 'http' ? /:80$/ : /:443$/
  const ours = baseUrl.slice('https://'.length).toLowerCase()
  return [authority, authority.replace(port, '')].some(each => each.toLowerCase() === ours)
}
