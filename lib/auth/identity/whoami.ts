/**
 * Answers who is signed in: with a page for a person, and in JSON for a script of the application. The file also makes the page
 * at which a login in a separate window ends (templates/auth/login.js).
 *
 * # Facts
 * - Pages of other sites must learn nothing here. No answer has a field of CORS, so their scripts cannot read one; no other site
 *   can frame the page. Requests that browsers say come from another site are refused besides.
 * - The question does not renew a session, or the session of a page that asks regularly would never end.
 */
import { moment } from '../../figures.ts'
import { Fields } from '../../http/message/field.ts'
import type { Request, Response } from '../../http/message/message.ts'
import { readOnlyResponse } from '../../http/server/router.ts'
import { isNavigation } from '../access/navigation.ts'
import type { FailurePage } from '../pages/failure-page.ts'
import { json, type PageMaker, timeText } from '../pages/page.ts'
import type { ReadSession } from '../session/token.ts'

/** The path that answers who is signed in. */
export const whoamiPath = '/__authproxy/whoami'

/** The path at which a login in a separate window ends. Its page notifies the pages that wait for it, and closes its window. */
export const signedInPath = '/__authproxy/signed-in'

/** The facts for an answer to a signed-in person. */
export interface OwnPage {
  readonly path: typeof whoamiPath | typeof signedInPath
  readonly session: ReadSession
  /** The identity fields that the backend gets. */
  readonly sentFields: Fields
  /** The field of the signed identity: it proves who asks for two minutes, so no page shows it. */
  readonly signedField: string | undefined
  /** Address of a login as another user. */
  readonly other: string
  readonly baseUrl: string
}

/** Answers a signed-in person, for any method. */
export function answerOwnPage(
  request: Request,
  own: OwnPage,
  { page, failurePage }: { readonly page: PageMaker; readonly failurePage: FailurePage },
): Response {
  return readOnlyResponse(request, () => {
    if (own.path === signedInPath) return signedIn(request, page)
    if (isOfOtherSite(request, own.baseUrl)) {
      return failurePage({ request, code: 'whoami_foreign', words: { own: whoamiPath } })
    }
    return isNavigation(request)
      ? whoamiPage(request, own, page)
      : json(whoIs(own.session), { status: 200, fields: OWN_ORIGIN })
  })
}

/** No page of another origin gets the bytes, not even as those of an image or a script (Fetch, section 3.7). */
const OWN_ORIGIN = Fields.of(['Cross-Origin-Resource-Policy', 'same-origin'])

/**
 * Whether a page of another origin asks, one of a neighbouring host of the same site included. Browsers say so. A request
 * without these fields comes from a program, or from an old browser, where scripts of other origins cannot read the answer.
 */
function isOfOtherSite({ fields }: Pick<Request, 'fields'>, baseUrl: string): boolean {
  const site = fields.get('Sec-Fetch-Site') ?? 'none'
  const origin = fields.get('Origin') ?? baseUrl
  return (site !== 'none' && site !== 'same-origin') || origin !== baseUrl
}

/** What a script gets from `/__authproxy/whoami`. */
export type WhoIs = ReturnType<typeof whoIs>

/** The members of the JSON for a script. It has no key, token or NameID. */
function whoIs({ subject, attributes, created, expires, lapses }: ReadSession) {
  const groups = attributes.get('groups')
  return {
    subject,
    name: nameOf(attributes) ?? null,
    // With too many groups Entra ID sends none. The groups are then unknown, which is not an empty list.
    groups: groups ?? (attributes.has('groupsOverage') ? null : []),
    sessionMade: timeText(created),
    sessionEnds: timeText(expires),
    sessionEndsUnused: timeText(lapses),
  }
}

export function nameOf(attributes: ReadonlyMap<string, readonly string[]>): string | undefined {
  const first = (name: string) => attributes.get(name)?.[0]
  const parts = [first('givenName'), first('sn')].filter(part => part !== undefined)
  return first('displayName') ?? first('name') ?? (parts.length > 0 ? parts.join(' ') : undefined)
}

function whoamiPage(request: Request, own: OwnPage, page: PageMaker): Response {
  const { session, sentFields, signedField, other } = own
  return page({
    request,
    template: 'whoami',
    fields: OWN_ORIGIN,
    view: say => ({
      title: say('Who you are here'),
      signedIn: say('You are signed in as {user}.', { user: session.subject }),
      session: [
        { name: say('Signed in since'), value: moment(session.created) },
        { name: say('Signed in until'), value: moment(session.expires) },
        { name: say('If you do nothing, until'), value: moment(session.lapses) },
      ],
      toldLabel: say('What the application learns about you'),
      told: [...sentFields].map(([name, value]) => ({
        name,
        value: name === signedField ? say('signed proof, not shown') : shown(value),
      })),
      out: say('Sign out'),
      other,
      otherLabel: say('Sign in as someone else'),
    }),
  })
}

/** The value of a field as text: its bytes are UTF-8. */
function shown(value: string): string {
  return Buffer.from(value, 'latin1').toString('utf8')
}

function signedIn(request: Request, page: PageMaker): Response {
  return page({
    request,
    template: 'signed-in',
    script: true,
    view: say => ({
      title: say('You are signed in'),
      text: say('You can close this window and go on where you were.'),
      label: say('Go to the application'),
    }),
  })
}
