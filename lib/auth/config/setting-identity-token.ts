/**
 * The settings of the signed identity, and the form that follows from them: which field has the token, which claims, who issues it for
 * whom, which algorithm signs it, and where its keys are. Pure.
 *
 * # Facts
 * - Applications that verify a token of a gateway know its field, and often the names of its claims and the path of its keys. A preset has
 *   what one gateway is known for, but its issuer is ours and its keys are ours: an application has to be configured for them.
 * - Cloudflare Access signs with RS256, and programs for it often accept nothing else. The others here sign with ES256.
 * - A token of an Application Load Balancer has no `aud`. Its header names who signed (`signer`) and for whom (`client`), and programs for it
 *   refuse a claim `aud` that they do not expect.
 */
import { mismatch, readResult } from '../../config/reading.ts'
import { oneOf, text } from '../../config/setting-kinds.ts'
import {
  type Kind,
  kind,
  mapOf,
  oneOrMore,
  optionalSetting,
  setting,
  type ValuesOf,
} from '../../config/settings.ts'
import { sameName } from '../../http/message/field.ts'
import { ownField } from '../access/own-fields.ts'
import { accountName, fieldNameProblem, personName } from './field-names.ts'
import { textKind } from './setting-kinds.ts'

/** The presets of other gateways. */
export const tokenPresets = ['bearer', 'iap', 'cloudflare', 'alb'] as const

type TokenPreset = 'own' | (typeof tokenPresets)[number]

/** What a claim is made of: `user`, or names of attributes. The first that has a value counts. */
type Sources = ReadonlyMap<string, readonly string[]>

interface Preset {
  readonly field: string
  /** ES256 unless this says otherwise. */
  readonly algorithm?: 'RS256'
  /** Undefined: `groups`, and the other attributes in a claim of their own. */
  readonly claims?: Sources
  /** Other fields of that gateway, which an application for it may believe. */
  readonly relatives: readonly string[]
  /** Where that gateway has its keys. */
  readonly keysAt?: string
}

const person: Sources = new Map(
  Object.entries({ email: ['email'], name: personName, groups: ['groups'] }),
)
const personWithAccount: Sources = new Map([...person, ['preferred_username', accountName]])

/** The path below which each key has a document of its own, in PEM. */
export const pemKeysPath = '/__authproxy/keys/'

const PRESETS: Readonly<Record<TokenPreset, Preset>> = {
  own: { field: ownField('Identity'), relatives: [] },
  bearer: { field: 'Authorization', claims: personWithAccount, relatives: [] },
  iap: {
    field: 'X-Goog-IAP-JWT-Assertion',
    claims: person,
    relatives: ['X-Goog-Authenticated-User-Email', 'X-Goog-Authenticated-User-ID'],
  },
  cloudflare: {
    field: 'Cf-Access-Jwt-Assertion',
    algorithm: 'RS256',
    claims: person,
    relatives: ['Cf-Access-Authenticated-User-Email'],
    keysAt: '/cdn-cgi/access/certs',
  },
  alb: {
    field: 'X-Amzn-Oidc-Data',
    claims: personWithAccount,
    relatives: ['X-Amzn-Oidc-Identity', 'X-Amzn-Oidc-Accesstoken'],
    keysAt: pemKeysPath,
  },
}

const CHOICE = `true, false, ${tokenPresets.join(', ')}`

/** `true` and `false`, which the environment has as text, or the name of a preset. */
const tokenPreset: Kind<TokenPreset | false> = kind<TokenPreset | false>(
  { name: 'boolean or word', range: CHOICE, json: { enum: [true, false, ...tokenPresets] } },
  found => {
    const word = typeof found === 'boolean' ? String(found) : found
    if (['true', '1', 'yes', 'on'].some(each => each === word)) return readResult('own')
    if (['false', '0', 'no', 'off'].some(each => each === word)) return readResult(false)
    const preset = tokenPresets.find(each => each === word)
    return preset ? readResult(preset) : mismatch(found, `${CHOICE}; see also tokenField`)
  },
)

/** The fields of the presets can be chosen by name as well. */
const tokenField = textKind(
  'header name',
  'the name of a header, such as X-JWT-Assertion',
  name => {
    const isKnown = Object.values(PRESETS).some(({ field }) => sameName(field, name))
    return isKnown ? undefined : fieldNameProblem(name)
  },
)

const claimText = textKind('text', 'a name such as https://app.example.org', found =>
  /^[^\p{Cc}]{1,256}$/u.test(found) ? undefined : 'of 1 to 256 characters, without line breaks',
)

/** The settings under `identity` that say how the identity is signed. */
export const identityToken = {
  token: setting(tokenPreset, false).says(
    'Signed JWT with the identity of the user, so that the backend can verify that a request came through this service (`docs/identity-token.md`). It is valid for two minutes at most and for this backend only; one longer than `identity.fieldSize` is not sent, and requests without a login carry none. `true`: in `X-Authproxy-Identity`, with ES256. For applications that know other gateways: `bearer` (`Authorization: Bearer`), `iap` (`X-Goog-IAP-JWT-Assertion`), `cloudflare` (`Cf-Access-Jwt-Assertion`, RS256), `alb` (`X-Amzn-Oidc-Data`).',
    'Keys to check it with are at `/__authproxy/jwks.json`, on the public listener and on `admin.listenAddress`; the backend no longer gets requests for that path. `cloudflare` has them at `/cdn-cgi/access/certs` too, `alb` each in PEM at `/__authproxy/keys/` and its ID.',
  ),
  tokenField: optionalSetting(
    tokenField,
    'that of `identity.token`',
    'identity:\n  token: bearer\n  tokenField: X-JWT-Assertion',
  )
    .noEffectWithout('identity.token')
    .says(
      'Header with the JWT. What clients send in it is removed everywhere. So with `Authorization`, which has `Bearer` before the JWT, no client can log in to the application itself, not even on `passthroughPaths` or with a passthrough token; `proxy.useBasicAuth` is refused beside it.',
    ),
  tokenIssuer: optionalSetting(claimText, '`https://` and `domain`')
    .noEffectWithout('identity.token')
    .says('Issuer (`iss`) of the JWT; with `alb` also the `signer` in its header.'),
  tokenAudience: optionalSetting(text, '`https://` and `domain`')
    .noEffectWithout('identity.token')
    .says(
      'Audience (`aud`) of the JWT: the name that the backend has for itself. With `alb` it is `client` in the header.',
    ),
  tokenAlgorithm: optionalSetting(
    oneOf('ES256', 'RS256'),
    '`RS256` with `cloudflare`, else `ES256`',
  )
    .noEffectWithout('identity.token')
    .says(
      'Algorithm of the signature. RS256, for applications that accept nothing else, uses the SAML keys of this instance.',
    ),
  tokenClaims: optionalSetting(
    mapOf(oneOrMore(text, 'names'), 'claims with what they carry, such as roles: groups'),
    'those of `identity.token`',
    'identity:\n  token: bearer\n  tokenClaims: { email: [email, user], roles: groups }',
  )
    .noEffectWithout('identity.token')
    .says(
      'Claims about the user beside `sub`, instead of those of `identity.token`: a name, and what it carries, `user` or names of attributes. The first that has a value counts. Attributes such as `groups` are lists, of the others the first value is sent.',
    ),
}

type Settings = typeof identityToken
type TokenValues = { readonly [K in keyof Settings]: ValuesOf<Settings[K]> }

export type TokenForm = NonNullable<ReturnType<typeof tokenFormOf>>

/** The form of the signed identity; undefined when none is sent. */
export function tokenFormOf({ token, ...chosen }: TokenValues, baseUrl: string) {
  if (token === false) return undefined
  const { field, relatives, keysAt, claims, algorithm = 'ES256' } = PRESETS[token]
  return {
    preset: token,
    field: chosen.tokenField ?? field,
    issuer: chosen.tokenIssuer ?? baseUrl,
    audience: chosen.tokenAudience ?? baseUrl,
    algorithm: chosen.tokenAlgorithm ?? algorithm,
    claims: chosen.tokenClaims ?? claims,
    /** The fields besides that clients may not send. */
    relatives,
    keysAt,
  }
}

/** Whether a field is that of HTTP, in which a scheme stands before a token. */
export function isAuthorization(field: string): boolean {
  return sameName(field, 'Authorization')
}
