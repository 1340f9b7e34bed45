/**
 * The kinds of settings only the gateway has: its public name, its backend, prefixes, tokens, names of fields, the address of a store. Each reader says what it found,
 * what it expected and how to mend it.
 */
import { domainToASCII } from 'node:url'
import { mismatch, type ReadResult, readFailure, readResult } from '../../config/reading.ts'
import { oneOf, text } from '../../config/setting-kinds.ts'
import {
  groupKind,
  type Kind,
  kind,
  listOf,
  oneOrMore,
  optionalSetting,
  requiredSetting,
  setting,
} from '../../config/settings.ts'
import {
  type Authority,
  formatAuthority,
  isIpLiteral,
  parseAuthority,
  parseUri,
  type TargetUri,
} from '../../http/message/target.ts'
import { parseInstant } from '../../saml/xml/instant.ts'
import { prefixProblem, tokenDigest } from '../access/passthrough.ts'
import { fieldNameProblem, type NamedField, type NameSet, nameSets } from './field-names.ts'

const string = { type: 'string' }

/** The status with which a login begins. */
export const loginStatus: Kind<401 | 302> = kind(
  { name: 'status', range: '401, 302', json: { enum: [401, 302] } },
  found => (found === 401 || found === 302 ? readResult(found) : mismatch(found, '401 or 302')),
)

/** The public host name, with its port when that is not 443. */
export const domain: Kind<string> = kind({ name: 'host name', json: string }, found => {
  const what = 'the public host name alone, such as app.example.org'
  if (typeof found !== 'string' || found === '') return mismatch(found, what)
  const [, scheme = '', host = '', rest = ''] =
    /^([a-z][a-z0-9+.-]*:\/\/)?([^/?#]*)(.*)$/is.exec(found) ?? []
  if (scheme !== '' || rest !== '') {
    const extra = scheme === '' ? 'no path' : 'no scheme and no path'
    return mismatch(found, what, `${extra}; write ${host}`)
  }
  const [, name = '', port = ''] = /^([^:]*)(:.*)?$/s.exec(found) ?? []
  const ascii = /[^\0-\x7f]/.test(name) ? domainToASCII(name) : ''
  if (ascii !== '')
    return mismatch(found, what, `browsers send it as ${ascii}; write ${ascii}${port}`)
  if (name.endsWith('.')) {
    const bare = `${name.replace(/\.+$/, '')}${port}`
    return mismatch(found, what, `browsers send it without the dot at its end; write ${bare}`)
  }
  const authority = parseAuthority(found, 443)
  if ('problem' in authority) return mismatch(found, what, authority.problem)
  return readResult(formatAuthority(authority, 'https'))
})

/** An origin: scheme, host and port. */
export const origin: Kind<TargetUri> = kind({ name: 'origin', json: string }, found => {
  const what = 'the origin of the backend, such as http://127.0.0.1:8080'
  if (typeof found !== 'string' || found === '') return mismatch(found, what)
  const uri = parseUri(found)
  if ('problem' in uri) return mismatch(found, what, uri.problem)
  if (uri.userinfo !== undefined) {
    return readFailure(
      `found a user name in the URL, expected ${what}; remove everything before the @`,
    )
  }
  if (uri.path !== '/' || uri.query !== undefined) {
    return mismatch(found, what, 'a path cannot be added to what clients ask for; leave it out')
  }
  return readResult(uri)
})

/** An absolute http or https URL. */
export const url: Kind<string> = kind({ name: 'URL', json: string }, found => {
  const what = 'a URL such as https://idp.example.org/metadata'
  if (typeof found !== 'string' || found === '') return mismatch(found, what)
  const uri = parseUri(found)
  return 'problem' in uri ? mismatch(found, what, uri.problem) : readResult(found)
})

/** A kind of text, in which `problemOf` finds what is wrong. */
export function textKind(
  name: string,
  what: string,
  problemOf: (text: string) => string | undefined,
): Kind<string> {
  return kind({ name, json: string }, found => {
    if (typeof found !== 'string') return mismatch(found, what)
    const problem = problemOf(found)
    return problem === undefined ? readResult(found) : mismatch(found, what, problem)
  })
}

export const pathPrefix = textKind('path prefix', 'a path prefix such as /public/', prefixProblem)

/** An origin as browsers write it in Origin fields. */
export const webOrigin: Kind<string> = kind({ name: 'web origin', json: string }, found => {
  const what = 'an origin such as https://app.example.org'
  if (typeof found !== 'string') return mismatch(found, what)
  const ok = /^https?:\/\/[a-z0-9.\-_[\]:]+$/.test(found)
  return ok ? readResult(found) : mismatch(found, what, 'in lower case, without a slash at the end')
})

/** A token in the clear. No message quotes it. */
export const token: Kind<string> = kind({ name: 'text', json: string }, readToken)

export function readToken(found: unknown): ReadResult<string> {
  if (typeof found !== 'string')
    return readFailure('found no text, expected a token; put it between quotes')
  if (!/^[\x21-\x7e]+$/.test(found)) {
    return readFailure('found other characters, expected a token of visible ASCII without spaces')
  }
  return found.length >= 16
    ? readResult(found)
    : readFailure(
        'found fewer than 16 characters, expected a token that cannot be guessed; try openssl rand -hex 32',
      )
}

/** The SHA-256 of a token in hexadecimal. */
export const sha256: Kind<Buffer> = kind({ name: 'SHA-256', json: string }, readSha256)

export function readSha256(found: unknown): ReadResult<Buffer> {
  if (typeof found !== 'string' || !/^[0-9a-f]{64}$/i.test(found)) {
    return readFailure(
      typeof found === 'number'
        ? 'found a number, expected 64 hexadecimal digits; put them between quotes'
        : 'found something else, expected 64 hexadecimal digits; printf %s TOKEN | sha256sum',
    )
  }
  const digest = Buffer.from(found, 'hex')
  return GUESSED_FIRST.some(word => tokenDigest(word).equals(digest))
    ? readFailure(
        'found the digest of a word that is guessed first; take a token of openssl rand -hex 32',
      )
    : readResult(digest)
}

/**
 * The digests of texts that are guessed first: the empty text, which a command without its token digests, and words of
 * examples.
 */
const GUESSED_FIRST = [
  ...['', '\n', 'test', 'password', 'secret', 'token', 'admin', 'root', 'changeme', 'example'],
  ...['TOKEN', 'PASSTHROUGH_TOKEN', 'hello', 'monitoring', 'authproxy', 'letmein', 'qwerty'],
  ...['0', '1', '123', '1234', '12345', '123456', '12345678', 'abc', 'abc123', 'foo', 'bar', 'x'],
]

/** A day or a moment with its zone (ISO 8601). The day counts to its end, in UTC. */
export const moment: Kind<number> = kind({ name: 'date', json: string }, found => {
  const what = 'a date such as 2030-12-31 or 2030-12-31T12:00:00Z'
  if (typeof found !== 'string') return mismatch(found, what)
  const day = /^\d{4}-\d{2}-\d{2}$/.test(found)
  const at = parseInstant(day ? `${found}T23:59:59.999Z` : found)
  const zoned = day || /(?:Z|[+-]\d\d:\d\d)$/.test(found)
  return at === undefined || !zoned ? mismatch(found, what) : readResult(at)
})

/** The canonical name of an attribute of the operator's own. */
export const attributeName: Kind<string> = kind({ name: 'attribute name', json: string }, found =>
  typeof found === 'string' && /^[A-Za-z][A-Za-z0-9-]{0,63}$/.test(found)
    ? readResult(found)
    : mismatch(found, 'a name of letters, digits and hyphens, such as costCentre'),
)

/** When requests are signed. A boolean is accepted too, because many people write one. */
export const requestSigning: Kind<'auto' | 'always' | 'never'> = kind(
  {
    name: 'word',
    range: 'auto, always, never, true, false',
    json: { enum: ['auto', 'always', 'never', true, false] },
  },
  found => {
    // Values of the environment are text.
    const text = String(found)
    if (text === 'true' || text === 'always') return readResult('always')
    if (text === 'false' || text === 'never') return readResult('never')
    return text === 'auto'
      ? readResult('auto')
      : mismatch(found, 'one of auto, always, never, true, false')
  },
)

/** The host name for TLS (server name indication). */
export const serverName: Kind<string> = kind({ name: 'host name', json: string }, found => {
  const what = 'a host name such as app.internal.example.org'
  if (typeof found !== 'string') return mismatch(found, what)
  const authority = parseAuthority(found, 443)
  if ('problem' in authority) return mismatch(found, what, authority.problem)
  if (isIpLiteral(authority.host)) return mismatch(found, what, 'TLS asks for no address')
  const { host } = authority
  return host === found.toLowerCase() ? readResult(host) : mismatch(found, what, 'without a port')
})

/** The name of a field that the operator chooses. */
export const fieldName = textKind(
  'header name',
  'the name of a header, such as X-Remote-User',
  fieldNameProblem,
)

const ownName = groupKind('header', {
  field: requiredSetting(fieldName, 'name the header, such as field: X-Remote-User').says(),
  from: requiredSetting(
    oneOrMore(text, 'names'),
    'say what it carries: user, or the name of an attribute such as groups',
  ).says(),
  form: optionalSetting(oneOf('list', 'json', 'first')).says(),
  separator: setting(oneOf(',', ';', '|', ':', ' '), ',').says(),
})

const word = oneOf(...nameSets)

const member: Kind<NameSet | NamedField> = {
  name: 'word or header',
  range: nameSets.join(', '),
  json: { anyOf: [word.json, ownName.json] },
  read: (found, ...at) =>
    typeof found === 'object' && found !== null && !Array.isArray(found)
      ? ownName.read(found, ...at)
      : word.read(found, ...at),
}

const many = listOf(member, 'names', 100)

/** Names of sets, fields of the operator's own, or both. A single member needs no brackets. */
export const chosenNames: Kind<ReadonlyArray<NameSet | NamedField>> = {
  ...many,
  json: { anyOf: [member.json, many.json] },
  read: (found, ...at) => many.read(Array.isArray(found) ? found : [found], ...at),
}

/** A node of a store, or the name of one that sentinels know. */
interface StoreUrl extends Authority {
  readonly tls: boolean
  readonly database: number
}

const STORE_PORT = 6379
const SENTINEL_PORT = 26_379

/** `redis://HOST:PORT/NUMBER`, or with TLS `rediss://`. */
export const storeUrl: Kind<StoreUrl> = kind({ name: 'URL', json: string }, found => {
  const what = 'a URL such as rediss://valkey.example.org:6379/0'
  if (typeof found !== 'string') return mismatch(found, what)
  const [, scheme = '', authority = '', database = '0'] =
    /^(rediss?):\/\/([^/?#]+)(?:\/(\d{0,5}))?$/.exec(found) ?? []
  // The text before the @ may be a password, so the message does not quote it.
  if (authority.includes('@') || /^rediss?:\/\/[^/]*@/.test(String(found))) {
    return readFailure(
      `found a user or a password in the URL, expected ${what}; they belong in state.user and state.passwordFile`,
    )
  }
  if (scheme === '') return mismatch(found, what)
  const node = readNode(authority, STORE_PORT, what)
  if (!node.ok) return node
  return readResult({ ...node.value, tls: scheme === 'rediss', database: Number(database) })
})

export const sentinel: Kind<Authority> = kind({ name: 'HOST:PORT', json: string }, found => {
  const what = 'a sentinel such as sentinel-1.example.org:26379'
  return typeof found === 'string' ? readNode(found, SENTINEL_PORT, what) : mismatch(found, what)
})

function readNode(found: string, port: number, what: string): ReadResult<Authority> {
  const node = parseAuthority(found, port)
  return 'problem' in node ? mismatch(found, what, node.problem) : readResult(node)
}
