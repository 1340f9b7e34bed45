/**
 * Makes the fields that name the user of a session to the backend.
 *
 * # Facts
 * - Fields cannot carry control characters, and a comma ends a member of a list, so these are percent-encoded in every field.
 *   Other characters are sent as UTF-8, which most backends expect. With `percent` they are encoded as well, so that decoding
 *   is unambiguous.
 * - Node writes fields as latin1, so the bytes of UTF-8 are put into such a string.
 */
import { Fields } from '../../http/message/field.ts'
import { type OwnName, ownField } from '../access/own-fields.ts'
import { type Claim, claimTable } from '../config/claims.ts'
import type { Config } from '../config/config.ts'
import type { NamedField } from '../config/field-names.ts'
import { isAuthorization } from '../config/setting-identity-token.ts'
import { mayBeBasicUser } from '../session/identity.ts'
import type { Session } from '../session/token.ts'

/** A signed identity and the field that has it. */
interface SignedIdentity {
  readonly field: string
  readonly token: string
}

/**
 * The fields of a session, the signed identity (identity-token.ts) among them; X-Authproxy-Omitted names those that were too long and are
 * not sent. A subject with a colon cannot be a Basic user (RFC 7617 section 2) and gets no credentials.
 */
export function identityFields(
  session: Session,
  { claims, encoding, limit, basicAuth, names }: Config['identityFields'],
  signed?: SignedIdentity,
): Fields {
  const flat: string[] = []
  const omitted: string[] = []
  const add = (name: string, value: string) => {
    if (value.length > limit) omitted.push(name)
    else if (value !== '') flat.push(name, value)
  }
  const table = [...claimTable(claims), ...DERIVED]
  if (names.authproxy) {
    add('X-Authproxy-User', encodeValue(session.subject, encoding, false))
    for (const { name, field, list } of table) {
      const values = session.attributes.get(name) ?? []
      const asList = list || values.length > 1
      const members = values.map(value => encodeValue(value, encoding, asList))
      add(`X-Authproxy-${field}`, members.join(','))
    }
  }
  for (const named of names.others) {
    const isList = table.some(({ name, list }) => list && named.from.includes(name))
    const form = named.form ?? (isList ? 'list' : 'first')
    add(named.field, namedValue({ ...named, form }, session, encoding))
  }
  if (signed !== undefined) {
    const { field, token } = signed
    add(field, isAuthorization(field) ? `Bearer ${token}` : token)
  }
  if (omitted.length > 0) flat.push(OMITTED_FIELD, omitted.join(', '))
  if (basicAuth && mayBeBasicUser(session.subject)) {
    flat.push('Authorization', `Basic ${Buffer.from(`${session.subject}:`).toString('base64')}`)
  }
  return Fields.fromFlat(flat)
}

/** Every name that `identityFields` can send with these settings, `signed` that of the signed identity among them. */
export function identityFieldNames(
  { claims, basicAuth, names }: Config['identityFields'],
  signed?: string,
): readonly string[] {
  const own = ['User', ...[...claimTable(claims), ...DERIVED].map(({ field }) => field)]
  return [
    ...(names.authproxy ? own.map(field => `X-Authproxy-${field}`) : []),
    ...names.others.map(({ field }) => field),
    ...(signed === undefined ? [] : [signed]),
    OMITTED_FIELD,
    ...(basicAuth ? ['Authorization'] : []),
  ]
}

/** The field with the names of fields that were too long. */
const OMITTED_FIELD = ownField('Omitted')

/** The values of the first of these sources that has any: of `user`, or of an attribute. */
export function firstValues(
  from: readonly string[],
  { subject, attributes }: Pick<Session, 'subject' | 'attributes'>,
): readonly string[] {
  const valuesOf = (name: string) => (name === 'user' ? [subject] : attributes.get(name)) ?? []
  return from.map(valuesOf).find(({ length }) => length > 0) ?? []
}

/** The value of a field of another name; empty when the session has none for it. */
function namedValue(
  { from, form, separator, encoded = '' }: NamedField,
  session: Session,
  encoding: 'percent' | 'utf8',
): string {
  const values = firstValues(from, session)
  if (values.length === 0) return ''
  if (form === 'json') return asciiJson(values)
  if (form === 'first') return encodeValue(values[0] ?? '', encoding, false)
  const isSeparating = (character: string) => `${separator}${encoded}`.includes(character)
  return values
    .map(value => encodeValue(value, encoding, separator === ','))
    .map(value => value.replace(/[ |;:]/g, found => (isSeparating(found) ? percent(found) : found)))
    .join(separator)
}

/** A list in JSON (RFC 8259) of visible ASCII and spaces: all else is escaped. */
function asciiJson(values: readonly string[]): string {
  return JSON.stringify(values).replace(
    /[\u007f-\uffff]/g,
    found => `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** The attributes that are derived from others (config/claims.ts). */
const DERIVED: ReadonlyArray<Pick<Claim, 'name' | 'list'> & { readonly field: OwnName }> = [
  { name: 'domain', field: 'Domain', list: false },
  { name: 'groupsOverage', field: 'Groups-Overage', list: false },
]

/** Encodes one value for a field; `inList` also encodes its commas. */
export function encodeValue(text: string, encoding: 'percent' | 'utf8', inList: boolean): string {
  const encoded = text.replace(UNSAFE[encoding][inList ? 'member' : 'single'], percent)
  return encoding === 'utf8' ? Buffer.from(encoded, 'utf8').toString('latin1') : encoded
}

/** Values have no white space at their ends (config/claims.ts). A lone surrogate has no bytes in UTF-8 and becomes U+FFFD. */
const UNSAFE = {
  utf8: { single: /\p{Cc}+/gu, member: /[\p{Cc},]+/gu },
  percent: { single: /[^\x20-\x24\x26-\x7e]+/gu, member: /[^\x20-\x24\x26-\x2b\x2d-\x7e]+/gu },
} as const

function percent(text: string): string {
  const bytes = [...Buffer.from(text, 'utf8')]
  return bytes.map(byte => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('')
}
