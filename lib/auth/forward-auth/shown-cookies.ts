/**
 * Remembers the cookies of checks. A browser shows the same ones with hundreds of requests, while the fields of its checks differ, since
 * they name the request: sessions (session/sessions.ts) are known by the field block that showed them.
 */
import { Fields } from '../../http/message/field.ts'
import { recent } from '../../recent.ts'
import { withoutOwnCookies } from '../session/cookie.ts'

/** Browsers that are remembered, and the most characters of their cookies. */
const MOST = 2000
const LONGEST = 8192

export class ShownCookies {
  readonly #known = recent<string, Fields>(MOST)
  /** What of them is the application's. */
  readonly #others = new WeakMap<Fields, string>()

  /** Fields with the cookies of these alone: for equal cookies the same ones. */
  of(fields: Fields): Fields {
    const [cookies, ...more] = fields.all('Cookie')
    if (cookies === undefined) return Fields.empty
    if (more.length > 0 || cookies.length > LONGEST) return fields
    const known = this.#known.get(cookies)
    if (known !== undefined) return known
    const alone = Fields.of(['Cookie', cookies])
    this.#known.set(cookies, alone)
    return alone
  }

  /** The cookies of these fields without ours, for the application; empty when there are none. */
  othersIn(fields: Fields): string {
    const shown = this.of(fields)
    const known = this.#others.get(shown)
    if (known !== undefined) return known
    const others = withoutOwnCookies(shown).all('Cookie').join('; ')
    this.#others.set(shown, others)
    return others
  }
}
