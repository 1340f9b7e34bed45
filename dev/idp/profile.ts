/**
 * Profiles of identity providers: what they sign and encrypt, and how they name users and attributes. Each profile answers as
 * the product of its name does with its default settings.
 */
import { nameIdFormats } from '../../lib/saml/core/vocabulary.ts'
import type { ContentMethod, KeyMethod } from './encrypt.ts'

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
  readonly nameId: (user: DevUser) => { readonly value: string; readonly format: string }
  readonly attributes: (user: DevUser) => readonly DevAttribute[]
  readonly encryption: { readonly content: ContentMethod; readonly key: KeyMethod }
  /** Milliseconds added to NotBefore: 0 for those that allow for no difference of clocks. */
  readonly notBefore: number
  readonly singleLogout: boolean
}

export type ProfileName = 'entra' | 'adfs' | 'okta' | 'google' | 'keycloak' | 'shibboleth'

/** A row of attributes: the Name, what of the user is its value, and the FriendlyName. */
type Row = readonly [
  name: string,
  of: keyof DevUser | ((user: DevUser) => string | undefined),
  friendlyName?: string,
]

/** Reads attributes of one NameFormat from a user; those the user does not have are left out. */
function table(format: string | undefined, rows: readonly Row[]): DevProfile['attributes'] {
  return user =>
    rows.flatMap(([name, of, friendlyName]) => {
      const value = typeof of === 'function' ? of(user) : user[of]
      if (value === undefined) return []
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

const cbc = { content: 'aes256-cbc', key: 'rsa-oaep-mgf1p' } as const

export const profiles: Readonly<Record<ProfileName, DevProfile>> = {
  entra: {
    entityId: baseUrl => `${baseUrl}/00000000-0000-4000-8000-000000000000/`,
    signs: 'assertion',
    nameId: byEmail(email),
    attributes: table(undefined, [
      ['http://schemas.microsoft.com/identity/claims/displayname', 'displayName'],
      [`${claims}/emailaddress`, 'email'],
      [`${claims}/givenname`, 'givenName'],
      [`${claims}/surname`, 'surname'],
      [`${claims}/name`, emailOf],
      ['onpremisessamaccountname', 'sAMAccountName'],
      [`${microsoft}/groups`, 'groups'],
    ]),
    encryption: cbc,
    notBefore: -300_000,
    singleLogout: true,
  },
  adfs: {
    entityId: baseUrl => `${baseUrl}/adfs/services/trust`,
    signs: 'assertion',
    nameId: byEmail(unspecified),
    attributes: table(undefined, [
      [`${claims}/upn`, 'email'],
      [`${claims}/emailaddress`, 'email'],
      [
        `${microsoft}/windowsaccountname`,
        ({ sAMAccountName: name }) => (name === undefined ? undefined : `EXAMPLE\\${name}`),
      ],
      ['http://schemas.xmlsoap.org/claims/Group', 'groups'],
    ]),
    encryption: cbc,
    notBefore: 0,
    singleLogout: true,
  },
  okta: {
    entityId: baseUrl => `${baseUrl}/exk0000000000000000`,
    signs: 'both',
    nameId: byEmail(email),
    attributes: table(basic, [
      ['email', 'email'],
      ['firstName', 'givenName'],
      ['lastName', 'surname'],
      ['sAMAccountName', 'sAMAccountName'],
      ['groups', 'groups'],
    ]),
    encryption: cbc,
    notBefore: -300_000,
    singleLogout: false,
  },
  google: {
    entityId: baseUrl => `${baseUrl}/o/saml2?idpid=C00000000`,
    signs: 'response',
    nameId: byEmail(email),
    attributes: table(undefined, [
      ['email', 'email'],
      ['firstName', 'givenName'],
      ['lastName', 'surname'],
      ['groups', 'groups'],
    ]),
    encryption: { content: 'aes256-gcm', key: 'rsa-oaep-mgf1p' },
    notBefore: -300_000,
    singleLogout: false,
  },
  keycloak: {
    entityId: baseUrl => `${baseUrl}/realms/example`,
    signs: 'response',
    nameId: transient,
    attributes: user => [
      ...table(uri, [
        ['urn:oid:1.2.840.113549.1.9.1', 'email', 'email'],
        ['urn:oid:2.5.4.42', 'givenName', 'givenName'],
        ['urn:oid:2.5.4.4', 'surname', 'surname'],
      ])(user),
      ...table(basic, [['sAMAccountName', 'sAMAccountName']])(user),
      // An Attribute element for every group, all of the same Name.
      ...(user.groups ?? []).map(group => ({ name: 'member', values: [group], format: basic })),
    ],
    encryption: { content: 'aes256-gcm', key: 'rsa-oaep-sha256' },
    notBefore: 0,
    singleLogout: true,
  },
  shibboleth: {
    entityId: baseUrl => `${baseUrl}/idp/shibboleth`,
    signs: 'both',
    nameId: transient,
    attributes: table(uri, [
      ['urn:oid:0.9.2342.19200300.100.1.3', 'email', 'mail'],
      ['urn:oid:0.9.2342.19200300.100.1.1', 'name', 'uid'],
      ['urn:oid:2.16.840.1.113730.3.1.241', 'displayName', 'displayName'],
      ['urn:oid:1.3.6.1.4.1.5923.1.5.1.1', 'groups', 'isMemberOf'],
    ]),
    encryption: { content: 'aes128-gcm', key: 'rsa-oaep-mgf1p' },
    notBefore: 0,
    singleLogout: true,
  },
}
