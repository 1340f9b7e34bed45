/**
 * What the fields of a client say whatever it asks for: an identity that is not its own to claim, a protocol, cookies. A browser sends the same
 * ones with hundreds of requests, so what was found is remembered with them; whether its session still holds is not among it.
 */
import { Fields } from '../../http/message/field.ts'
import { ownText, recent } from '../../recent.ts'
import type { Config } from '../config/config.ts'
import { withoutOwnCookies } from '../session/cookie.ts'
import { allowedFields } from './check-answer.ts'
import { claimedIdentity } from './claimed-identity.ts'

/** Cookies that are remembered, and the most characters of them. */
const MOST = 2000
const LONGEST = 8192

export class Clients {
  /** By the fields that the checks of a client begin with. */
  readonly #known = new WeakMap<Fields, Client>()
  /** By the cookies: sessions (session/sessions.ts) are known by the fields that showed them. */
  readonly #shown = recent<string, Fields>(MOST)

  /** The client that sends these fields. */
  of(fields: Fields, config: Config): Client {
    const { begin } = fields
    const known = begin && this.#known.get(begin)
    if (known?.config === config) return known
    const client = new Client(fields, this.#cookiesOf(fields), config)
    if (begin !== undefined) this.#known.set(begin, client)
    return client
  }

  /** Fields with the cookies of these alone: for equal cookies the same ones. */
  #cookiesOf(fields: Fields): Fields {
    const [cookies, ...more] = fields.all('Cookie')
    if (cookies === undefined) return Fields.empty
    if (more.length > 0 || cookies.length > LONGEST) return fields
    const known = this.#shown.get(cookies)
    if (known !== undefined) return known
    const own = ownText(cookies)
    const alone = Fields.of(['Cookie', own])
    this.#shown.set(own, alone)
    return alone
  }
}

class Client {
  readonly config: Config
  /** The name of a field by which it could pass for another user; undefined when there is none. */
  readonly claim: string | undefined
  readonly otherProtocol: boolean
  /** What shows its session. */
  readonly shown: { readonly fields: Fields }
  #allowed: { readonly identity: Fields; readonly fields: Fields } | undefined

  constructor(fields: Fields, shown: Fields, config: Config) {
    this.config = config
    this.claim = claimedIdentity(fields, config)
    this.otherProtocol = isOtherProtocol(fields)
    this.shown = { fields: shown }
  }

  /** The fields of the answer when it may pass as this user, with its cookies less ours, for the edge to put in the place of its own. */
  allowed(identity: Fields): Fields {
    if (this.#allowed?.identity !== identity) {
      const cookies = withoutOwnCookies(this.shown.fields).all('Cookie').join('; ')
      this.#allowed = { identity, fields: allowedFields(identity, cookies) }
    }
    return this.#allowed.fields
  }
}

/**
 * Whether a protocol other than WebSockets is to begin. Edges open a tunnel for any, and by one for requests, such as h2c, a client
 * writes to the application what no check sees. HTTP2-Settings tells of h2c where an edge takes Upgrade from the check.
 */
function isOtherProtocol(fields: Fields): boolean {
  if (fields.has('HTTP2-Settings')) return true
  return fields.all('Upgrade').some(name => !/^(?:websocket)?$/i.test(name))
}
