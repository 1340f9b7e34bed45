/**
 * Finds mistakes in the settings of the signed identity, in themselves and with each other. Pure.
 */
import type { Path, valueRemarks } from '../../../config/reading.ts'
import { isSameField } from '../../access/foreign-names.ts'
import { ownClaims } from '../config.ts'
import { isAuthorization, tokenFormOf } from '../setting-identity-token.ts'
import type { SettingValues } from '../settings.ts'
import { attributeNames, nearestAttribute } from './check-access.ts'

type Collected = ReturnType<typeof valueRemarks>

/** Checks the field and the claims of the signed identity; `taken` are the other fields that the backend gets. */
export function checkIdentityToken(
  { identity, domain, proxy }: SettingValues,
  taken: readonly string[],
  collected: Collected,
): void {
  const { wrong } = collected
  const form = tokenFormOf(identity, `https://${domain}`)
  if (form === undefined) return
  const { field } = form
  const place = ['identity', identity.tokenField === undefined ? 'token' : 'tokenField']
  if (taken.some(other => isSameField(other, field))) {
    wrong(place, `sends ${field}, which another setting sends as well; choose another header`)
  }
  if (isAuthorization(field) && proxy.useBasicAuth) {
    wrong(
      place,
      'sends Authorization, as proxy.useBasicAuth does; choose another tokenField, or leave one',
    )
  }
  for (const [claim, from] of identity.tokenClaims ?? []) {
    const at = ['identity', 'tokenClaims', claim]
    if (!/^[A-Za-z][A-Za-z0-9_.:/-]{0,127}$/.test(claim)) {
      wrong(at, 'a claim has letters, digits and _ . : / -, and begins with a letter')
    } else if (RESERVED.has(claim)) wrong(at, 'is a claim of the token itself; choose another name')
    checkSources(from, { at, identity }, collected)
  }
}

/** Checks what a header or a claim carries: `user`, or attributes that there are. */
export function checkSources(
  from: readonly string[],
  { at, identity }: { readonly at: Path; readonly identity: SettingValues['identity'] },
  { wrong, warn }: Collected,
): void {
  const known = ['user', ...attributeNames(ownClaims(identity))]
  if (from.length === 0) wrong(at, 'names nothing')
  for (const name of from) {
    if (!known.includes(name)) {
      wrong(at, `no attribute is called ${name}; ${nearestAttribute(name, known)}`)
    } else if (name !== 'user' && identity.only?.includes(name) === false) {
      warn(at, `${name} is in no session: identity.only leaves it out`)
    }
  }
}

const RESERVED: ReadonlySet<string> = new Set([
  ...['iss', 'aud', 'sub', 'iat', 'nbf', 'exp', 'jti', 'auth_time'],
  ...['type', 'instance', 'htm', 'htu'],
])
