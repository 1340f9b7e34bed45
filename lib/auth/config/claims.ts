/**
 * Maps the names identity providers give attributes to canonical names and fields.
 *
 * A claim matches the exact Name first, then FriendlyName, then, where that is allowed, the last segment of Name without regard
 * to case. In each step the first alias with a value wins. FriendlyName is for people to read and identifies nothing
 * (saml-core-2.0-os section 2.7.3.1): it gives attributes, never the subject.
 */

import type { SamlAttribute } from '../../saml/subject.ts'
import { trimXml } from '../../saml/xml/xml.ts'
import type { Config } from './config.ts'

export interface Claim {
  /** Canonical name, as it stands in the session. */
  readonly name: string
  /** The part of the field name after `X-Authproxy-`. */
  readonly field: string
  /** Whether the claim is a list. The values of a list are joined by commas, and commas within a value are encoded. */
  readonly list: boolean
  readonly aliases: readonly string[]
}

/** The URIs of the prefixes in the table. */
const PREFIXES: Readonly<Record<string, string>> = {
  oid: 'urn:oid:',
  mace: 'urn:mace:dir:attribute-def:',
  soap: 'http://schemas.xmlsoap.org/ws/2005/05/identity/claims/',
  'soap-old': 'http://schemas.xmlsoap.org/claims/',
  windows: 'http://schemas.microsoft.com/ws/2008/06/identity/claims/',
  microsoft: 'http://schemas.microsoft.com/identity/claims/',
}

/** Canonical name, field (with `*` for a list), aliases. `soap:nameidentifier` is the NameID once more and never an alias. */
const TABLE = `
email           Email           email mail emailAddress Email EmailAddress user.email User.email
                                oid:0.9.2342.19200300.100.1.3 oid:1.2.840.113549.1.9.1 mace:mail
                                soap:emailaddress soap-old:EmailAddress
sAMAccountName  Samaccountname  sAMAccountName samaccountname onpremisessamaccountname
                                oid:1.2.840.113556.1.4.221 windows:windowsaccountname
upn             Upn             upn userPrincipalName oid:1.2.840.113556.1.4.656 soap:upn soap-old:UPN
uid             Uid             uid username login user oid:0.9.2342.19200300.100.1.1 mace:uid
                                http://schemas.goauthentik.io/2021/02/saml/username
eppn            Eppn            eppn eduPersonPrincipalName oid:1.3.6.1.4.1.5923.1.1.1.6
                                mace:eduPersonPrincipalName
subjectId       Subject-Id      urn:oasis:names:tc:SAML:attribute:subject-id
                                urn:oasis:names:tc:SAML:attribute:pairwise-id oid:1.3.6.1.4.1.5923.1.1.1.13
                                oid:1.3.6.1.4.1.5923.1.1.1.10
displayName     Displayname     displayName displayname oid:2.16.840.1.113730.3.1.241 microsoft:displayname
                                mace:displayName
name            Name            cn name fullName commonName oid:2.5.4.3 soap-old:CommonName soap:name
givenName       Givenname       givenName firstName first_name FirstName User.FirstName oid:2.5.4.42
                                soap:givenname
sn              Sn              sn surname lastName last_name LastName User.LastName oid:2.5.4.4
                                soap:surname
groups          Groups*         groups group memberOf member isMemberOf oid:1.3.6.1.4.1.5923.1.5.1.1
                                oid:1.2.840.113556.1.2.102 soap-old:Group windows:groups windows:groupsid
roles           Roles*          Role role roles windows:role windows:wids eduPersonEntitlement
                                oid:1.3.6.1.4.1.5923.1.1.1.7
affiliation     Affiliation*    eduPersonAffiliation oid:1.3.6.1.4.1.5923.1.1.1.1 eduPersonScopedAffiliation
                                oid:1.3.6.1.4.1.5923.1.1.1.9 eduPersonPrimaryAffiliation
                                oid:1.3.6.1.4.1.5923.1.1.1.5
organisation    Organisation    o oid:2.5.4.10 company schacHomeOrganization oid:1.3.6.1.4.1.25178.1.2.9
department      Department      department ou oid:2.5.4.11 departmentNumber oid:2.16.840.1.113730.3.1.2
title           Title           title oid:2.5.4.12
phone           Phone           telephoneNumber oid:2.5.4.20
mobile          Mobile          mobile oid:0.9.2342.19200300.100.1.41 soap:mobilephone
employeeId      Employee-Id     employeeNumber oid:2.16.840.1.113730.3.1.3 employeeID employeeid
objectId        Object-Id       microsoft:objectidentifier oid:1.2.840.113556.1.4.2
tenantId        Tenant-Id       microsoft:tenantid
language        Language        preferredLanguage oid:2.16.840.1.113730.3.1.39 locale
`

/** Every claim we know, in the order of the fields. */
export const claims: readonly Claim[] = TABLE.trim()
  .split(/\n(?! )/)
  .map(row => {
    const [name = '', field = '', ...aliases] = row.split(/\s+/)
    return {
      name,
      field: field.replace('*', ''),
      list: field.endsWith('*'),
      aliases: aliases.map(alias => {
        const [, prefix = '', rest = ''] = /^([a-z-]+):(.*)$/.exec(alias) ?? []
        const whole = PREFIXES[prefix]
        return whole === undefined ? alias : `${whole}${rest}`
      }),
    }
  })

/** Entra sends a link instead of groups when there are more than 150. */
const OVERAGE = ['http://schemas.microsoft.com/claims/groups.link', 'groups.link']

/** The claims in force. The aliases of the configuration come before the known ones. */
export function claimTable(more: readonly Claim[]): readonly Claim[] {
  const known = claims.map(claim => {
    const own = more.find(({ name }) => name === claim.name)
    return own === undefined ? claim : { ...claim, aliases: [...own.aliases, ...claim.aliases] }
  })
  return [...known, ...more.filter(({ name }) => claims.every(claim => claim.name !== name))]
}

/**
 * The attributes of an assertion by canonical name: repeated ones merged in order, values without the XML white space around
 * them, empty ones and empty attributes left out. `friendly`: whether FriendlyName counts as a name.
 */
export function mapClaims(
  attributes: readonly SamlAttribute[],
  rules: Pick<Config['identity'], 'claims' | 'looseNames' | 'stripDomains'>,
  friendly: boolean,
): ReadonlyMap<string, readonly string[]> {
  const { claims: more, looseNames, stripDomains } = rules
  const byName = collect(attributes, ({ name }) => name)
  const byFriendlyName = collect(friendly ? attributes : [], ({ friendlyName }) => friendlyName)
  const byLastSegment = collect(looseNames ? attributes : [], ({ name }) => lastSegment(name))
  const mapped = new Map<string, readonly string[]>()
  for (const { name, aliases } of claimTable(more)) {
    const values = [
      ...aliases.map(alias => byName.get(alias)),
      ...aliases.map(alias => byFriendlyName.get(alias)),
      ...aliases.map(alias => byLastSegment.get(lastSegment(alias))),
    ].find(found => found !== undefined)
    if (values !== undefined) mapped.set(name, values)
  }
  splitAccountName(mapped, stripDomains)
  if (OVERAGE.some(name => byName.has(name))) mapped.set('groupsOverage', ['true'])
  return mapped
}

/** Tells whether the claims in force read an attribute, and which claim it is like. */
export function readerOf({
  claims: more,
  looseNames,
}: Pick<Config['identity'], 'claims' | 'looseNames'>) {
  const { names, segments } = namesRead.get(more) ?? namesOf(more)
  return {
    /** Whether a claim is read from it. An attribute without a value counts as read. */
    reads: ({ name, friendlyName = '', values }: SamlAttribute): boolean =>
      names.has(name) ||
      names.has(friendlyName) ||
      (looseNames && segments.has(lastSegment(name))) ||
      values.every(value => trimXml(value) === ''),
    /** The claim that has an alias with this last segment. */
    like: (name: string): string | undefined => segments.get(lastSegment(name)),
  }
}

/** The names that are read, by the claims of the configuration: they are the same for every login. */
const namesRead = new WeakMap<readonly Claim[], ReturnType<typeof namesOf>>()

function namesOf(more: readonly Claim[]) {
  const table = claimTable(more)
  const found = {
    names: new Set([...OVERAGE, ...table.flatMap(({ aliases }) => aliases)]),
    /** The canonical name by the last segment of each alias. */
    segments: new Map(
      table.flatMap(({ name, aliases }) =>
        aliases.map(alias => [lastSegment(alias), name] as const),
      ),
    ),
  }
  namesRead.set(more, found)
  return found
}

/**
 * `DOMAIN\user` is a user of that domain (NetBIOS name). The domain is kept as an attribute. The account name stays as it was
 * sent, since `admin` of one domain is not `admin` of another; only the listed domains are taken from it.
 */
function splitAccountName(
  mapped: Map<string, readonly string[]>,
  stripDomains: readonly string[],
): void {
  const [account = ''] = mapped.get('sAMAccountName') ?? []
  const backslash = account.indexOf('\\')
  if (backslash <= 0 || backslash === account.length - 1) return
  const domain = account.slice(0, backslash)
  const strips = stripDomains.some(each => each.toLowerCase() === domain.toLowerCase())
  if (strips) mapped.set('sAMAccountName', [account.slice(backslash + 1)])
  if (!mapped.has('domain')) mapped.set('domain', [domain])
}

function collect(
  attributes: readonly SamlAttribute[],
  keyOf: (attribute: SamlAttribute) => string | undefined,
): Map<string, string[]> {
  const found = new Map<string, string[]>()
  for (const attribute of attributes) {
    const key = keyOf(attribute)
    const values = attribute.values.map(trimXml).filter(value => value !== '')
    if (key === undefined || values.length === 0) continue
    found.set(key, [...(found.get(key) ?? []), ...values])
  }
  return found
}

function lastSegment(name: string): string {
  return (name.split(/[/:]/).at(-1) ?? name).trim().toLowerCase()
}
