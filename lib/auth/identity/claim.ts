/**
 * What identity providers call things: the names, object identifiers and URIs under which an attribute arrives, and the
 * canonical name and field it has here. Data and look-up; nothing here decides who anybody is.
 *
 * Order: exact Name, then FriendlyName, then, where that is allowed, the last segment of Name without regard to case. Within
 * each the first alias with a value wins.
 */
import type { SamlAttribute } from '../saml/core/subject.ts'

export interface Claim {
  /** Canonical name, as it stands in the session. */
  readonly name: string
  /** What follows `X-Authproxy-` in the field for the backend. */
  readonly field: string
  /** Whether it is a list by nature: its values are joined by commas, commas within one are encoded. */
  readonly list?: boolean
  readonly aliases: readonly string[]
}

const oid = (number: string) => `urn:oid:${number}`
const mace = (name: string) => `urn:mace:dir:attribute-def:${name}`
const soap = (name: string) => `http://schemas.xmlsoap.org/ws/2005/05/identity/claims/${name}`
const oldSoap = (name: string) => `http://schemas.xmlsoap.org/claims/${name}`
const windows = (name: string) => `http://schemas.microsoft.com/ws/2008/06/identity/claims/${name}`
const microsoft = (name: string) => `http://schemas.microsoft.com/identity/claims/${name}`

/** Every claim we know, in the order of the fields. `…/nameidentifier` is the NameID once more and never an alias. */
export const claims: readonly Claim[] = [
  {
    name: 'email',
    field: 'Email',
    aliases: [
      ...['email', 'mail', 'emailAddress', 'Email', 'EmailAddress', 'user.email', 'User.email'],
      ...[oid('0.9.2342.19200300.100.1.3'), oid('1.2.840.113549.1.9.1'), mace('mail')],
      ...[soap('emailaddress'), oldSoap('EmailAddress')],
    ],
  },
  {
    name: 'sAMAccountName',
    field: 'Samaccountname',
    aliases: [
      ...['sAMAccountName', 'samaccountname', 'onpremisessamaccountname'],
      ...[oid('1.2.840.113556.1.4.221'), windows('windowsaccountname')],
    ],
  },
  {
    name: 'upn',
    field: 'Upn',
    aliases: [
      ...['upn', 'userPrincipalName', oid('1.2.840.113556.1.4.656')],
      ...[soap('upn'), oldSoap('UPN')],
    ],
  },
  {
    name: 'uid',
    field: 'Uid',
    aliases: [
      ...['uid', 'username', 'login', 'user', oid('0.9.2342.19200300.100.1.1'), mace('uid')],
      'http://schemas.goauthentik.io/2021/02/saml/username',
    ],
  },
  {
    name: 'eppn',
    field: 'Eppn',
    aliases: [
      ...['eppn', 'eduPersonPrincipalName', oid('1.3.6.1.4.1.5923.1.1.1.6')],
      mace('eduPersonPrincipalName'),
    ],
  },
  {
    name: 'subjectId',
    field: 'Subject-Id',
    aliases: [
      'urn:oasis:names:tc:SAML:attribute:subject-id',
      'urn:oasis:names:tc:SAML:attribute:pairwise-id',
      ...[oid('1.3.6.1.4.1.5923.1.1.1.13'), oid('1.3.6.1.4.1.5923.1.1.1.10')],
    ],
  },
  {
    name: 'displayName',
    field: 'Displayname',
    aliases: [
      ...['displayName', 'displayname', oid('2.16.840.1.113730.3.1.241')],
      ...[microsoft('displayname'), mace('displayName')],
    ],
  },
  {
    name: 'name',
    field: 'Name',
    aliases: [
      ...['cn', 'name', 'fullName', 'commonName', oid('2.5.4.3'), oldSoap('CommonName')],
      soap('name'),
    ],
  },
  {
    name: 'givenName',
    field: 'Givenname',
    aliases: [
      ...['givenName', 'firstName', 'first_name', 'FirstName', 'User.FirstName'],
      ...[oid('2.5.4.42'), soap('givenname')],
    ],
  },
  {
    name: 'sn',
    field: 'Sn',
    aliases: [
      ...['sn', 'surname', 'lastName', 'last_name', 'LastName', 'User.LastName'],
      ...[oid('2.5.4.4'), soap('surname')],
    ],
  },
  {
    name: 'groups',
    field: 'Groups',
    list: true,
    aliases: [
      ...['groups', 'group', 'memberOf', 'member', 'isMemberOf'],
      ...[oid('1.3.6.1.4.1.5923.1.5.1.1'), oid('1.2.840.113556.1.2.102'), oldSoap('Group')],
      ...[windows('groups'), windows('groupsid')],
    ],
  },
  {
    name: 'roles',
    field: 'Roles',
    list: true,
    aliases: [
      ...['Role', 'role', 'roles', windows('role'), windows('wids')],
      ...['eduPersonEntitlement', oid('1.3.6.1.4.1.5923.1.1.1.7')],
    ],
  },
  {
    name: 'affiliation',
    field: 'Affiliation',
    list: true,
    aliases: [
      ...['eduPersonAffiliation', oid('1.3.6.1.4.1.5923.1.1.1.1')],
      ...['eduPersonScopedAffiliation', oid('1.3.6.1.4.1.5923.1.1.1.9')],
      ...['eduPersonPrimaryAffiliation', oid('1.3.6.1.4.1.5923.1.1.1.5')],
    ],
  },
  {
    name: 'organisation',
    field: 'Organisation',
    aliases: [
      'o',
      oid('2.5.4.10'),
      'company',
      'schacHomeOrganization',
      oid('1.3.6.1.4.1.25178.1.2.9'),
    ],
  },
  {
    name: 'department',
    field: 'Department',
    aliases: [
      ...['department', 'ou', oid('2.5.4.11')],
      ...['departmentNumber', oid('2.16.840.1.113730.3.1.2')],
    ],
  },
  { name: 'title', field: 'Title', aliases: ['title', oid('2.5.4.12')] },
  { name: 'phone', field: 'Phone', aliases: ['telephoneNumber', oid('2.5.4.20')] },
  {
    name: 'mobile',
    field: 'Mobile',
    aliases: ['mobile', oid('0.9.2342.19200300.100.1.41'), soap('mobilephone')],
  },
  {
    name: 'employeeId',
    field: 'Employee-Id',
    aliases: ['employeeNumber', oid('2.16.840.1.113730.3.1.3'), 'employeeID', 'employeeid'],
  },
  {
    name: 'objectId',
    field: 'Object-Id',
    aliases: [microsoft('objectidentifier'), oid('1.2.840.113556.1.4.2')],
  },
  { name: 'tenantId', field: 'Tenant-Id', aliases: [microsoft('tenantid')] },
  {
    name: 'language',
    field: 'Language',
    aliases: ['preferredLanguage', oid('2.16.840.1.113730.3.1.39'), 'locale'],
  },
]

/** Entra sends a link in place of groups when there are more than 150. */
const OVERAGE = ['http://schemas.microsoft.com/claims/groups.link', 'groups.link']

export interface ClaimOptions {
  /** Claims of the operator's own; one of a known name is asked before the known aliases. */
  readonly more: readonly Claim[]
  /** Whether the last segment of a Name counts, without regard to case. */
  readonly loose: boolean
}

/** The claims in force, the operator's first. */
export function claimTable(more: readonly Claim[]): readonly Claim[] {
  const known = claims.map(claim => {
    const own = more.find(({ name }) => name === claim.name)
    return own === undefined ? claim : { ...claim, aliases: [...own.aliases, ...claim.aliases] }
  })
  return [...known, ...more.filter(({ name }) => claims.every(claim => claim.name !== name))]
}

/**
 * The attributes of an assertion by canonical name: repeated ones merged in order, values without the white space around
 * them, empty ones and empty attributes left out.
 */
export function mapClaims(
  attributes: readonly SamlAttribute[],
  options: ClaimOptions,
): ReadonlyMap<string, readonly string[]> {
  const byName = collect(attributes, ({ name }) => name)
  const byFriendlyName = collect(attributes, ({ friendlyName }) => friendlyName)
  const byLastSegment = options.loose
    ? collect(attributes, ({ name }) => lastSegment(name))
    : new Map<string, string[]>()
  const mapped = new Map<string, readonly string[]>()
  for (const { name, aliases } of claimTable(options.more)) {
    const values =
      firstOf(aliases, alias => byName.get(alias)) ??
      firstOf(aliases, alias => byFriendlyName.get(alias)) ??
      firstOf(aliases, alias => byLastSegment.get(lastSegment(alias)))
    if (values !== undefined) mapped.set(name, values)
  }
  splitAccountName(mapped)
  if (OVERAGE.some(name => byName.has(name))) mapped.set('groupsOverage', ['true'])
  return mapped
}

/** `DOMAIN\user` is a user of that domain (NetBIOS name): the account name goes without, the domain is kept beside it. */
function splitAccountName(mapped: Map<string, readonly string[]>): void {
  const [account = ''] = mapped.get('sAMAccountName') ?? []
  const backslash = account.indexOf('\\')
  if (backslash <= 0 || backslash === account.length - 1) return
  mapped.set('sAMAccountName', [account.slice(backslash + 1)])
  if (!mapped.has('domain')) mapped.set('domain', [account.slice(0, backslash)])
}

function collect(
  attributes: readonly SamlAttribute[],
  keyOf: (attribute: SamlAttribute) => string | undefined,
): Map<string, string[]> {
  const found = new Map<string, string[]>()
  for (const attribute of attributes) {
    const key = keyOf(attribute)
    if (key === undefined) continue
    const values = attribute.values.map(value => value.trim()).filter(value => value !== '')
    if (values.length === 0) continue
    const before = found.get(key)
    if (before === undefined) found.set(key, values)
    else before.push(...values)
  }
  return found
}

function firstOf<T>(
  aliases: readonly string[],
  find: (alias: string) => T | undefined,
): T | undefined {
  for (const alias of aliases) {
    const found = find(alias)
    if (found !== undefined) return found
  }
  return undefined
}

function lastSegment(name: string): string {
  return (name.split(/[/:]/).at(-1) ?? name).toLowerCase()
}
