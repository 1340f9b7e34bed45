/**
 * The names of the identity fields: ours, those of other authenticating proxies, and the operator's own. From them follows
 * which fields of a client are removed. Pure.
 *
 * # Facts
 * - Grafana splits groups at commas and at spaces (`SplitString`), or reads a list in JSON; Jenkins splits at `|`.
 */
import { ForeignNames, foreignName, isIdentityField } from '../access/foreign-names.ts'

/** A field of another name than ours, and its value. */
export interface NamedField {
  readonly field: string
  /** The sources of the value: `user`, or names of attributes. The first that has a value counts. */
  readonly from: readonly string[]
  /** The text between the members of a list. In a member this text and the characters of `encoded` are percent-encoded. */
  readonly separator: string
  /** The form of the value; undefined when the attribute's claim decides (config/claims.ts). */
  readonly form: 'list' | 'json' | 'first' | undefined
  /** Characters that the reader takes for a separator, too. */
  readonly encoded?: string
}

/** The attributes that have the name of a person. */
export const personName = ['displayName', 'name', 'user']
/** The attributes that have the account name of a person. */
export const accountName = ['uid', 'sAMAccountName', 'upn', 'user']
const single = { separator: ',', form: 'first' } as const
const list = { separator: ',', form: 'list' } as const

const PRESETS = {
  /** Authelia, and applications that read REMOTE_USER from a field. */
  remote: [
    { field: 'Remote-User', from: ['user'], ...single },
    { field: 'Remote-Groups', from: ['groups'], ...list },
    { field: 'Remote-Name', from: personName, ...single },
    { field: 'Remote-Email', from: ['email'], ...single },
  ],
  /** oauth2-proxy with `--set-xauthrequest`. */
  'auth-request': [
    { field: 'X-Auth-Request-User', from: ['user'], ...single },
    { field: 'X-Auth-Request-Email', from: ['email'], ...single },
    { field: 'X-Auth-Request-Groups', from: ['groups'], ...list },
    {
      field: 'X-Auth-Request-Preferred-Username',
      from: accountName,
      ...single,
    },
  ],
  /** Grafana and Gitea. */
  webauth: [
    { field: 'X-WEBAUTH-USER', from: ['user'], ...single },
    { field: 'X-WEBAUTH-NAME', from: personName, ...single },
    { field: 'X-WEBAUTH-EMAIL', from: ['email'], ...single },
    { field: 'X-WEBAUTH-GROUPS', from: ['groups'], ...list, encoded: ' ' },
  ],
} as const satisfies Readonly<Record<string, readonly NamedField[]>>

/** The words that `identity.names` accepts. */
export const nameSets = ['authproxy', 'remote', 'auth-request', 'webauth'] as const

export type NameSet = (typeof nameSets)[number]

/** The fields that the setting chooses by words and by the operator's own names. */
export function fieldNames(chosen: ReadonlyArray<NameSet | NamedField>) {
  return {
    /** Whether X-Authproxy-User and the other fields of our prefix are sent. */
    authproxy: chosen.includes('authproxy'),
    others: chosen.flatMap((each): readonly NamedField[] => {
      if (typeof each !== 'string') return [each]
      return each === 'authproxy' ? [] : PRESETS[each]
    }),
  }
}

/**
 * The names that are removed from a client: those of the table, and those of the fields that are sent, the credential's and those of the
 * signed identity among them.
 */
export function strippedNames(
  { others }: ReturnType<typeof fieldNames>,
  more: {
    readonly credential?: string | undefined
    readonly token?: { readonly field: string; readonly relatives: readonly string[] } | undefined
  } = {},
): ForeignNames {
  const { credential, token } = more
  const signed = token === undefined ? [] : [token.field, ...token.relatives]
  return new ForeignNames([...others.map(({ field }) => field), ...signed], credential)
}

/** The problem of a field name, as the end of a sentence; undefined when there is none. */
export function fieldNameProblem(name: string): string | undefined {
  if (!/^[A-Za-z][A-Za-z0-9]*(?:-[A-Za-z0-9]+)*$/.test(name) || name.length > 64) {
    return 'a name has letters, digits and single hyphens, at most 64; servers drop or mistake others'
  }
  const plain = name.toLowerCase()
  if (isIdentityField(name))
    return 'X-Authproxy- is reserved for the fields of authproxy; choose another name'
  const family = foreignName(name)?.family
  if (family !== undefined && family !== 'identity' && family !== 'override') {
    return 'this name tells how a request came or which path it is for, and is overwritten'
  }
  if (family === 'override' || HTTP.has(plain) || HTTP_FAMILIES.test(plain)) {
    return 'this is a header of HTTP itself, which clients would lose; choose another name'
  }
  return undefined
}

/** The fields of HTTP and of browsers, and fields that frameworks and scripts rely on, in lower case. */
const HTTP: ReadonlySet<string> = new Set(
  `
  age allow authorization cache-control connection cookie cookie2 date depth destination dnt
  early-data etag expect expires forwarded from host http2-settings idempotency-key keep-alive
  last-event-id last-modified link location lock-token max-forwards mime-version origin
  overwrite pragma prefer priority purpose range referer save-data server set-cookie soapaction
  te timeout traceparent tracestate baggage trailer transfer-encoding upgrade user-agent vary
  via want-content-digest want-repr-digest warning width dpr upgrade-insecure-requests
  viewport-width www-authenticate digest want-digest if signature signature-input repr-digest
  device-memory downlink ect rtt negotiate x-requested-with x-request-id x-correlation-id
  x-csrf-token x-xsrf-token x-forwarded-proto-version
  `.match(/\S+/g),
)

const HTTP_FAMILIES = /^(?:accept|access-control|content|if|proxy|sec|alt|cf|cdn|ce|dav)-|^accept$/
