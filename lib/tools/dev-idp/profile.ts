/**
 * How the identity providers of this world differ: what they sign, how they name people and their attributes, how they
 * encrypt. Each profile answers as the product of its name does with the settings it comes with.
 */
import { nameIdFormats } from '../../auth/saml/core/vocabulary.ts'
import type { ContentMethod, KeyMethod } from './encrypt.ts'

/** A person of the user file. */
export interface DevUser {
  readonly name: string
  readonly email?: string
  readonly displayName?: string
  readonly givenName?: string
  readonly surname?: string
  readonly sAMAccountName?: string
  readonly groups?: readonly string[]
}

export interface DevAttribute {
  readonly name: string
  readonly friendlyName?: string
  readonly format?: string
  readonly values: readonly string[]
}

export interface DevProfile {
  readonly name: ProfileName
  /** Entity ID of an IdP at this base URL. */
  readonly entityId: (baseUrl: string) => string
  readonly signs: 'assertion' | 'response' | 'both'
  readonly nameId: (user: DevUser) => { readonly value: string; readonly format: string }
  readonly attributes: (user: DevUser) => readonly DevAttribute[]
  readonly encryption: { readonly content: ContentMethod; readonly key: KeyMethod }
  /** Milliseconds added to NotBefore: 0 for those that leave no margin. */
  readonly notBefore: number
  readonly singleLogout: boolean
}

export type ProfileName = 'entra' | 'adfs' | 'okta' | 'google' | 'keycloak' | 'shibboleth'

const email = 'urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress'
const unspecified = 'urn:oasis:names:tc:SAML:1.1:nameid-format:unspecified'
const basic = 'urn:oasis:names:tc:SAML:2.0:attrname-format:basic'
const uri = 'urn:oasis:names:tc:SAML:2.0:attrname-format:uri'
const claims = 'http://schemas.xmlsoap.org/ws/2005/05/identity/claims'
const microsoft = 'http://schemas.microsoft.com/ws/2008/06/identity/claims'

function emailOf(user: DevUser): string {
  return user.email ?? `${user.name}@example.org`
}

/** Leaves out what the person does not have. */
function present(...attributes: ReadonlyArray<DevAttribute | undefined>): readonly DevAttribute[] {
  return attributes.filter(attribute => attribute !== undefined)
}

function one(name: string, value: string | undefined, more: Partial<DevAttribute> = {}) {
  return value === undefined ? undefined : { name, values: [value], ...more }
}

const transient = (user: DevUser) => ({
  value: `_${Buffer.from(user.name).toString('hex')}-transient`,
  format: nameIdFormats.transient,
})

export const profiles: Readonly<Record<ProfileName, DevProfile>> = {
  entra: {
    name: 'entra',
    entityId: baseUrl => `${baseUrl}/00000000-0000-4000-8000-000000000000/`,
    signs: 'assertion',
    nameId: user => ({ value: emailOf(user), format: email }),
    attributes: user =>
      present(
        one('http://schemas.microsoft.com/identity/claims/displayname', user.displayName),
        one(`${claims}/emailaddress`, user.email),
        one(`${claims}/givenname`, user.givenName),
        one(`${claims}/surname`, user.surname),
        one(`${claims}/name`, emailOf(user)),
        one('onpremisessamaccountname', user.sAMAccountName),
        user.groups && { name: `${microsoft}/groups`, values: user.groups },
      ),
    encryption: { content: 'aes256-cbc', key: 'rsa-oaep-mgf1p' },
    notBefore: -300_000,
    singleLogout: true,
  },
  adfs: {
    name: 'adfs',
    entityId: baseUrl => `${baseUrl}/adfs/services/trust`,
    signs: 'assertion',
    nameId: user => ({ value: emailOf(user), format: unspecified }),
    attributes: user =>
      present(
        one(`${claims}/upn`, user.email),
        one(`${claims}/emailaddress`, user.email),
        one(
          `${microsoft}/windowsaccountname`,
          user.sAMAccountName && `EXAMPLE\\${user.sAMAccountName}`,
        ),
        user.groups && { name: 'http://schemas.xmlsoap.org/claims/Group', values: user.groups },
      ),
    encryption: { content: 'aes256-cbc', key: 'rsa-oaep-mgf1p' },
    notBefore: 0,
    singleLogout: true,
  },
  okta: {
    name: 'okta',
    entityId: baseUrl => `${baseUrl}/exk0000000000000000`,
    signs: 'both',
    nameId: user => ({ value: emailOf(user), format: email }),
    attributes: user =>
      present(
        one('email', user.email, { format: basic }),
        one('firstName', user.givenName, { format: basic }),
        one('lastName', user.surname, { format: basic }),
        one('sAMAccountName', user.sAMAccountName, { format: basic }),
        user.groups && { name: 'groups', values: user.groups, format: basic },
      ),
    encryption: { content: 'aes256-cbc', key: 'rsa-oaep-mgf1p' },
    notBefore: -300_000,
    singleLogout: false,
  },
  google: {
    name: 'google',
    entityId: baseUrl => `${baseUrl}/o/saml2?idpid=C00000000`,
    signs: 'response',
    nameId: user => ({ value: emailOf(user), format: email }),
    attributes: user =>
      present(
        one('email', user.email),
        one('firstName', user.givenName),
        one('lastName', user.surname),
        user.groups && { name: 'groups', values: user.groups },
      ),
    encryption: { content: 'aes256-gcm', key: 'rsa-oaep-mgf1p' },
    notBefore: -300_000,
    singleLogout: false,
  },
  keycloak: {
    name: 'keycloak',
    entityId: baseUrl => `${baseUrl}/realms/example`,
    signs: 'response',
    nameId: transient,
    // One Attribute element for every value, all of the same Name.
    attributes: user => [
      ...present(
        one('urn:oid:1.2.840.113549.1.9.1', user.email, { friendlyName: 'email', format: uri }),
        one('urn:oid:2.5.4.42', user.givenName, { friendlyName: 'givenName', format: uri }),
        one('urn:oid:2.5.4.4', user.surname, { friendlyName: 'surname', format: uri }),
        one('sAMAccountName', user.sAMAccountName, { format: basic }),
      ),
      ...(user.groups ?? []).map(group => ({ name: 'member', format: basic, values: [group] })),
    ],
    encryption: { content: 'aes256-gcm', key: 'rsa-oaep-sha256' },
    notBefore: 0,
    singleLogout: true,
  },
  shibboleth: {
    name: 'shibboleth',
    entityId: baseUrl => `${baseUrl}/idp/shibboleth`,
    signs: 'both',
    nameId: transient,
    attributes: user =>
      present(
        one('urn:oid:0.9.2342.19200300.100.1.3', user.email, { friendlyName: 'mail', format: uri }),
        one('urn:oid:0.9.2342.19200300.100.1.1', user.name, { friendlyName: 'uid', format: uri }),
        one('urn:oid:2.16.840.1.113730.3.1.241', user.displayName, {
          friendlyName: 'displayName',
          format: uri,
        }),
        user.groups && {
          name: 'urn:oid:1.3.6.1.4.1.5923.1.5.1.1',
          friendlyName: 'isMemberOf',
          format: uri,
          values: user.groups,
        },
      ),
    encryption: { content: 'aes128-gcm', key: 'rsa-oaep-mgf1p' },
    notBefore: 0,
    singleLogout: true,
  },
}
