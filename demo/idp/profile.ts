/**
 * Profiles of identity providers: what they sign and encrypt, and how they name users and attributes. Each profile answers as
 * the product of its name does with its default settings.
 */
import { createHash } from 'node:crypto'
import { nameIdFormats } from '../../lib/saml/xml/vocabulary.ts'
import type { EncryptionMethods } from './encrypt.ts'

/** A user as the file of users describes one. */
export interface DevUser {
  readonly name: string
  readonly email?: string | undefined
  readonly displayName?: string | undefined
  readonly givenName?: string | undefined
  readonly surname?: string | undefined
  readonly sAMAccountName?: string | undefined
  readonly groups?: readonly string[] | undefined
}

export interface DevAttribute {
  readonly name: string
  readonly friendlyName?: string
  readonly format?: string
  readonly values: readonly string[]
}

export interface DevProfile {
  /** Entity ID of an IdP at this base URL. */
  readonly entityId: (baseUrl: string) => string
  readonly signs: 'assertion' | 'response' | 'both'
  /** The NameID of a request that asks for no format. */
  readonly nameId: (user: DevUser) => DevNameId
  /** The answer to a request for another format of NameID. */
  readonly otherNameId: 'given' | 'ignored' | 'refused'
  readonly attributes: (user: DevUser) => readonly DevAttribute[]
  readonly encryption: EncryptionMethods
  /** The milliseconds added to NotBefore; 0 for products that allow no difference of clocks. */
  readonly notBefore: number
  readonly singleLogout: boolean
  /** Whether the metadata asks for signed requests. */
  readonly wantSigned: boolean
  /** The settings that a gateway needs for this profile. */
  readonly settings: { readonly saml?: { readonly nameIDFormat: string } }
  /** The recipe for the product, in docs/recipes. */
  readonly recipe: string
}

export interface DevNameId {
  readonly value: string
  readonly format: string
}

export type ProfileName =
  | 'entra'
  | 'adfs'
  | 'okta'
  | 'google'
  | 'keycloak'
  | 'shibboleth'
  | 'simplesamlphp'

/** A row of attributes: the Name, the value from the user, and the FriendlyName. */
type Row = readonly [
  name: string,
  of: keyof DevUser | ((user: DevUser) => string | readonly string[] | undefined),
  friendlyName?: string,
]

/** Reads attributes of one NameFormat from a user; those the user does not have are left out. */
function table(format: string | undefined, rows: readonly Row[]): DevProfile['attributes'] {
  return user =>
    rows.flatMap(([name, of, friendlyName]) => {
      const value = typeof of === 'function' ? of(user) : user[of]
      if (value === undefined || value.length === 0) return []
      const values = typeof value === 'string' ? [value] : value
      return [{ name, values, ...(friendlyName && { friendlyName }), ...(format && { format }) }]
    })
}

const email = 'urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress'
const unspecified = 'urn:oasis:names:tc:SAML:1.1:nameid-format:unspecified'
const basic = 'urn:oasis:names:tc:SAML:2.0:attrname-format:basic'
const uri = 'urn:oasis:names:tc:SAML:2.0:attrname-format:uri'
const claims = 'http://schemas.xmlsoap.org/ws/2005/05/identity/claims'
const microsoft = 'http://schemas.microsoft.com/ws/2008/06/identity/claims'

const emailOf = (user: DevUser) => user.email ?? `${user.name}@example.org`
const byEmail = (format: string) => (user: DevUser) => ({ value: emailOf(user), format })
const transient = (user: DevUser) => ({
  value: `_${Buffer.from(user.name).toString('hex')}-transient`,
  format: nameIdFormats.transient,
})
const persistent = 'urn:oasis:names:tc:SAML:2.0:nameid-format:persistent'

/**
 * The NameID of a login when this format is asked for, which may be none; undefined where the profile refuses the format. A
 * transient one is another with every login.
 */
export function nameIdOf(
  profile: DevProfile,
  user: DevUser,
  { format, login }: { readonly format: string | undefined; readonly login: string },
): DevNameId | undefined {
  const own = profile.nameId(user)
  const once = { value: `_${login}`, format: nameIdFormats.transient }
  if (format === undefined || format === unspecified || format === own.format) {
    return own.format === nameIdFormats.transient ? once : own
  }
  if (profile.otherNameId !== 'given') return profile.otherNameId === 'ignored' ? own : undefined
  switch (format) {
    case nameIdFormats.transient:
      return once
    case persistent:
      return { value: createHash('sha256').update(user.name).digest('base64url'), format }
    case email:
      return { value: emailOf(user), format }
    default:
      return undefined
  }
}

const tenant = '00000000-0000-4000-8000-000000000000'

/** The identifier of a user that never changes: the first letters of the name, in the form of a GUID. */
function objectId({ name }: DevUser): string {
  const letters = Buffer.from(name).toString('hex').padEnd(8, '0').slice(0, 8)
  return `${letters}-0000-4000-8000-000000000000`
}

/** Entra ID sends a link instead of more groups than these. */
const MOST_GROUPS = 150

const cbc = { content: 'aes256-cbc', key: 'rsa-oaep-mgf1p' } as const

export const profiles: Readonly<Record<ProfileName, DevProfile>> = {
  entra: {
    entityId: baseUrl => `${baseUrl}/${tenant}/`,
    signs: 'assertion',
    nameId: byEmail(email),
    otherNameId: 'given',
    attributes: table(undefined, [
      ['http://schemas.microsoft.com/identity/claims/tenantid', () => tenant],
      ['http://schemas.microsoft.com/identity/claims/objectidentifier', objectId],
      ['http://schemas.microsoft.com/identity/claims/displayname', 'displayName'],
      [`${claims}/emailaddress`, 'email'],
      [`${claims}/givenname`, 'givenName'],
      [`${claims}/surname`, 'surname'],
      [`${claims}/name`, emailOf],
      ['onpremisessamaccountname', 'sAMAccountName'],
      [
        `${microsoft}/groups`,
        ({ groups = [] }) => (groups.length > MOST_GROUPS ? undefined : groups),
      ],
      [
        'http://schemas.microsoft.com/claims/groups.link',
        ({ groups = [], name }) =>
          groups.length > MOST_GROUPS
            ? `https://graph.example.org/users/${name}/getMemberObjects`
            : undefined,
      ],
    ]),
    encryption: cbc,
    notBefore: -300_000,
    singleLogout: true,
    wantSigned: false,
    settings: { saml: { nameIDFormat: 'none' } },
    recipe: 'entra-id',
  },
  adfs: {
    entityId: baseUrl => `${baseUrl}/adfs/services/trust`,
    signs: 'assertion',
    nameId: byEmail(email),
    otherNameId: 'refused',
    attributes: table(undefined, [
      [`${claims}/upn`, 'email'],
      [`${claims}/emailaddress`, 'email'],
      [`${claims}/name`, 'displayName'],
      [
        `${microsoft}/windowsaccountname`,
        ({ sAMAccountName: name }) => (name === undefined ? undefined : `EXAMPLE\\${name}`),
      ],
      ['http://schemas.xmlsoap.org/claims/Group', 'groups'],
    ]),
    encryption: cbc,
    notBefore: 0,
    singleLogout: true,
    wantSigned: false,
    settings: { saml: { nameIDFormat: email } },
    recipe: 'ad-fs',
  },
  okta: {
    entityId: baseUrl => `${baseUrl}/exk0000000000000000`,
    signs: 'both',
    nameId: byEmail(email),
    otherNameId: 'refused',
    attributes: table(basic, [
      ['email', 'email'],
      ['firstName', 'givenName'],
      ['lastName', 'surname'],
      ['displayName', 'displayName'],
      ['sAMAccountName', 'sAMAccountName'],
      ['groups', 'groups'],
    ]),
    encryption: cbc,
    notBefore: -300_000,
    singleLogout: false,
    wantSigned: false,
    settings: { saml: { nameIDFormat: email } },
    recipe: 'okta',
  },
  google: {
    entityId: baseUrl => `${baseUrl}/o/saml2?idpid=C00000000`,
    signs: 'response',
    nameId: byEmail(email),
    otherNameId: 'ignored',
    attributes: table(undefined, [
      ['email', 'email'],
      ['firstName', 'givenName'],
      ['lastName', 'surname'],
      ['groups', 'groups'],
    ]),
    encryption: { content: 'aes256-gcm', key: 'rsa-oaep-mgf1p' },
    notBefore: -300_000,
    singleLogout: false,
    wantSigned: false,
    settings: {},
    recipe: 'google-workspace',
  },
  keycloak: {
    entityId: baseUrl => `${baseUrl}/realms/example`,
    signs: 'response',
    nameId: transient,
    otherNameId: 'given',
    attributes: user => [
      ...table(uri, [
        ['urn:oid:1.2.840.113549.1.9.1', 'email', 'email'],
        ['urn:oid:2.5.4.42', 'givenName', 'givenName'],
        ['urn:oid:2.5.4.4', 'surname', 'surname'],
      ])(user),
      ...table(basic, [['sAMAccountName', 'sAMAccountName']])(user),
      // An Attribute element for every group and role, all of the same Name.
      ...(user.groups ?? []).map(group => ({ name: 'member', values: [group], format: basic })),
      ...['default-roles-example', 'offline_access', 'uma_authorization'].map(role => ({
        name: 'Role',
        values: [role],
        format: basic,
      })),
    ],
    encryption: { content: 'aes256-gcm', key: 'rsa-oaep-sha256' },
    notBefore: 0,
    singleLogout: true,
    wantSigned: true,
    settings: {},
    recipe: 'keycloak',
  },
  shibboleth: {
    entityId: baseUrl => `${baseUrl}/idp/shibboleth`,
    signs: 'both',
    nameId: transient,
    otherNameId: 'refused',
    attributes: table(uri, [
      ['urn:oid:0.9.2342.19200300.100.1.3', 'email', 'mail'],
      ['urn:oid:0.9.2342.19200300.100.1.1', 'name', 'uid'],
      ['urn:oid:2.16.840.1.113730.3.1.241', 'displayName', 'displayName'],
      ['urn:oid:1.3.6.1.4.1.5923.1.5.1.1', 'groups', 'isMemberOf'],
    ]),
    encryption: { content: 'aes128-gcm', key: 'rsa-oaep-mgf1p' },
    notBefore: 0,
    singleLogout: true,
    wantSigned: false,
    settings: {},
    recipe: 'shibboleth-idp',
  },
  simplesamlphp: {
    entityId: baseUrl => `${baseUrl}/simplesaml-idp`,
    signs: 'both',
    nameId: transient,
    otherNameId: 'ignored',
    attributes: table(basic, [
      ['uid', 'name'],
      ['mail', 'email'],
      ['displayName', 'displayName'],
      ['memberOf', 'groups'],
    ]),
    encryption: { content: 'aes128-gcm', key: 'rsa-oaep-mgf1p' },
    notBefore: -30_000,
    singleLogout: true,
    wantSigned: false,
    settings: {},
    recipe: 'simplesamlphp',
  },
}
