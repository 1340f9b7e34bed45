/**
 * Remembers the facts about a client's fields that do not depend on the target: a field that is refused, another protocol, the
 * cookies. A browser sends the same fields with hundreds of requests, so the facts are found once. Whether the session is still
 * valid is checked each time.
 */
import { Fields, sameName } from '../../http/message/field.ts'
import { ownText, recentEntries } from '../../recent.ts'
import { type ForeignName, isSameField, treatments } from '../access/foreign-names.ts'
import { isOfBrowser } from '../access/navigation.ts'
import { withoutOwnCookies } from '../access/own-cookies.ts'
import { unnamedFields } from '../access/own-fields.ts'
import { isOwnHost } from '../access/own-origin.ts'
import type { Config } from '../config/config.ts'
import type { Admission } from '../gate/admission.ts'
import type { SessionIdentity } from '../identity/session-identity.ts'
import { allowedFields } from './check-answer.ts'
import { isSource } from './contract.ts'

/** The number of cookie sets that are remembered, and the most characters of one. */
const MOST = 2000
const LONGEST = 8192

/** The rules in force, as far as they say what a client may send. */
interface ClientRules {
  readonly config: Config
  readonly identity: Pick<SessionIdentity, 'none'>
}

export class Clients {
  /** The clients by the fields that their checks begin with. */
  readonly #known = new WeakMap<Fields, Client>()
  /**
   * The fields that hold nothing but cookies, and the mark of a browser, by both. Sessions are remembered by these fields
   * (session/sessions.ts).
   */
  readonly #shown = recentEntries<string, Fields>(MOST)

  /** The client that sends these fields. */
  of(fields: Fields, rules: ClientRules): Client {
    const { begin } = fields
    const known = begin && this.#known.get(begin)
    if (known?.config === rules.config) return known
    const client = new Client(fields, this.#cookiesOf(fields), rules)
    if (begin !== undefined) this.#known.set(begin, client)
    return client
  }

  /** The fields reduced to what a session is read from. Equal cookies of browsers, or of programs, give the same object. */
  #cookiesOf(fields: Fields): Fields {
    const [cookies, ...more] = fields.all('Cookie')
    if (cookies === undefined) return Fields.empty
    if (more.length > 0 || cookies.length > LONGEST) return fields
    const isBrowser = isOfBrowser(fields)
    const key = `${isBrowser ? 'browser' : 'program'} ${cookies}`
    const known = this.#shown.get(key)
    if (known !== undefined) return known
    const alone = Fields.of(
      ['Cookie', ownText(cookies)],
      ['Sec-Fetch-Site', isBrowser ? 'none' : undefined],
    )
    this.#shown.set(ownText(key), alone)
    return alone
  }
}

class Client {
  readonly config: Config
  /** A field for which its requests are refused; undefined when there is none. */
  readonly refused: RefusedField | undefined
  readonly otherProtocol: boolean
  readonly sessionFields: { readonly fields: Fields }
  #allowed: { readonly identity: Fields; readonly fields: Fields } | undefined

  constructor(fields: Fields, shown: Fields, rules: ClientRules) {
    this.config = rules.config
    this.refused = refusedField(fields, rules)
    this.otherProtocol = isOtherProtocol(fields)
    this.sessionFields = { fields: shown }
  }

  /**
   * The fields of the answer when the client may pass as this user. They have its cookies without ours, or none, and the edge sends them
   * instead of its own.
   */
  fieldsFor(identity: Fields, which: Admission['cookies']): Fields {
    if (which === 'none') return allowedFields(identity, '')
    if (this.#allowed?.identity !== identity) {
      const cookies = withoutOwnCookies(this.sessionFields.fields).all('Cookie').join('; ')
      this.#allowed = { identity, fields: allowedFields(identity, cookies) }
    }
    return this.#allowed.fields
  }
}

/**
 * Whether the client wants a protocol other than WebSocket. Edges open a tunnel for any protocol, and through a tunnel for h2c
 * a client sends requests to the application that no check sees. HTTP2-Settings shows h2c also where an edge removes Upgrade
 * from the check.
 */
function isOtherProtocol(fields: Fields): boolean {
  if (fields.has('HTTP2-Settings')) return true
  return fields.all('Upgrade').some(name => !/^(?:websocket)?$/i.test(name))
}

/** A field of a client that the edge could pass on, and what the application could read in it. */
export interface RefusedField {
  /** As the client has spelt it. */
  readonly name: string
  readonly row: ForeignName
}

/**
 * The first field for which a check is refused (access/foreign-names.ts); undefined when there is none. The gateway removes every such
 * field (identity/backend-fields.ts). An edge overwrites those that the answer to its check has, by their exact names, and may pass others
 * on. The sources of its contract are its own.
 */
function refusedField(
  client: Fields,
  { config, identity: { none: noIdentity } }: ClientRules,
): RefusedField | undefined {
  const { stripped } = config.identityFields
  const { edge = 'nginx', hosts = [] } = config.forwardAuth ?? {}
  const { backendCredential: named } = config
  const answered = named === undefined ? unnamedFields : [...unnamedFields, named.field]
  const { flat } = client
  for (let i = 0; i + 1 < flat.length; i += 2) {
    const name = flat[i] ?? ''
    const row = stripped.of(name)
    if (row === undefined || isSource(edge, name)) continue
    const { check } = treatments[row.family]
    if (check !== 'refused' && check !== 'compared') continue
    if (check === 'compared' && namesOnly(hosts, { name, value: flat[i + 1] ?? '' })) continue
    const isHarmless =
      row.setBy === edge || answered.some(known => sameName(known, name)) || noIdentity.has(name)
    if (!isHarmless) return { name, row }
  }
  return undefined
}

/** Whether a field that names hosts (X-Forwarded-Host, or `host=` in Forwarded) names none but these. */
function namesOnly(
  hosts: readonly string[],
  { name, value }: { readonly name: string; readonly value: string },
): boolean {
  const named = isSameField(name, 'Forwarded') ? forwardedHosts(value) : value.split(',')
  return (named ?? ['malformed']).every(host => {
    const plain = host.trim()
    return plain === '' || hosts.some(own => isOwnHost(plain, own))
  })
}

/**
 * The hosts of Forwarded (RFC 7239 section 4); undefined when a part has no "=". Some readers know no quotes, so a separator counts
 * within them as well: a host that any reader could find has to be ours.
 */
function forwardedHosts(value: string): readonly string[] | undefined {
  const hosts: string[] = []
  for (const part of value.split(/[,;]/)) {
    const equals = part.indexOf('=')
    if (equals === -1 && part.trim() !== '') return undefined
    const isHost = part.slice(0, equals).trim().toLowerCase() === 'host'
    if (equals !== -1 && isHost)
      hosts.push(
        part
          .slice(equals + 1)
          .trim()
          .replace(/^"(.*)"$/, '$1'),
      )
  }
  return hosts
}
