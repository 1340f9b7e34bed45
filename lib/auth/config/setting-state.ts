/**
 * The settings under `state`: a store that several instances share.
 */
import { mismatch, type ReadResult, readFailure, readResult } from '../../config/reading.ts'
import { secretPlace } from '../../config/secret-place.ts'
import { absolutePath, oneOf, text } from '../../config/setting-kinds.ts'
import { group, type Kind, kind, listOf, optionalSetting, setting } from '../../config/settings.ts'
import { parseAuthority } from '../../http/message/target.ts'

/** A node of a store, or the name of one that sentinels know. */
interface StoreUrl {
  readonly tls: boolean
  readonly host: string
  readonly port: number
  readonly database: number
}

interface StoreNode {
  readonly host: string
  readonly port: number
}

const PORT = 6379
const SENTINEL_PORT = 26_379

/** `redis://HOST:PORT/NUMBER`, or with TLS `rediss://`. */
const storeUrl: Kind<StoreUrl> = kind({ name: 'URL', json: { type: 'string' } }, found => {
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
  const node = readNode(authority, PORT, what)
  if (!node.ok) return node
  return readResult({ ...node.value, tls: scheme === 'rediss', database: Number(database) })
})

const sentinel: Kind<StoreNode> = kind(
  { name: 'HOST:PORT', json: { type: 'string' } },
  (found): ReadResult<StoreNode> => {
    const what = 'a sentinel such as sentinel-1.example.org:26379'
    return typeof found === 'string' ? readNode(found, SENTINEL_PORT, what) : mismatch(found, what)
  },
)

function readNode(found: string, port: number, what: string): ReadResult<StoreNode> {
  const authority = parseAuthority(found, port)
  return 'problem' in authority
    ? mismatch(found, what, authority.problem)
    : readResult({ host: authority.host, port: authority.port })
}

export const state = group(
  'A store that several instances of one name share (Valkey or Redis, from 7.0): ends of sessions, IDs that were used up, kept forms, counts of attempts, records of failures. One instance needs none. See `docs/several-instances.md`.',
  {
    url: optionalSetting(
      storeUrl,
      'none: the instance shares nothing',
      'state:\n  url: rediss://valkey.example.org:6379/0',
    ).says(
      'The store: `redis://HOST:PORT/NUMBER`, or `rediss://` with TLS. All keys begin with `{authproxy:INSTANCE}:`, so the instances that share them have one name. With `sentinels` the host is the name by which these know the store. No request waits longer than 50 ms for the store, and no session ends because it is away.',
    ),
    user: optionalSetting(text, 'none: the default user').says('User of the store (ACL).'),
    passwordFile: optionalSetting(secretPlace, 'none').says(
      'File with the password: a path, or `credential:NAME` for a credential of systemd (`LoadCredential=`). It is read at start.',
    ),
    certificates: optionalSetting(absolutePath, 'the authorities that Node.js trusts').says(
      'PEM file with the authorities that the certificate of the store has to come from, with `rediss://`.',
    ),
    sentinels: setting(listOf(sentinel, 'sentinels'), []).says(
      'Sentinels that name the node that takes writes, as `HOST:PORT`. They are asked with TLS when the URL is of `rediss`.',
    ),
    sentinelPasswordFile: optionalSetting(secretPlace, 'none').says(
      'File with the password of the sentinels.',
    ),
    onOutage: setting(oneOf('continue', 'refuse'), 'continue').says(
      'What becomes of logins while the store is away. `continue` accepts the answer to a login that was begun here, checked against the IDs this instance has seen; a login begun at the identity provider is refused with a page that asks to try again. `refuse` refuses both. Sessions go on in any case.',
    ),
  },
)
