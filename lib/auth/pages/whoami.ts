/**
 * Answers who is signed in, to a person with a page and to a script of the application in JSON; and the page at which a login in a
 * window of its own ends (templates/auth/login.js).
 *
 * # Facts
 * - Pages of other sites must learn nothing here. No answer has a field of CORS, so their scripts cannot read one; no other site
 *   can frame the page. Requests that browsers say come from another site are refused besides.
 * - The question keeps no session alive, or a page that asks again and again would have no end of its session.
 */
import { Fields } from '../../http/message/field.ts'
import type { Request, Response } from '../../http/message/message.ts'
import { withoutContent } from '../../http/message/reply.ts'
import { methodNotAllowed } from '../../http/server/router.ts'
import { isNavigation } from '../access/navigation.ts'
import type { ReadSession } from '../session/token.ts'
import type { FailurePage } from './failure-page.ts'
import { json, type PageMaker, timeText } from './page.ts'

/** Who is signed in. */
export const whoamiPath = '/__authproxy/whoami'

/** Where a login in a window of its own ends: the page tells those that wait for it, and closes its window. */
export const signedInPath = '/__authproxy/signed-in'

/** What is answered here to a person who is signed in. */
export interface OwnPage {
  readonly path: typeof whoamiPath | typeof signedInPath
  readonly session: ReadSession
  /** What the backend is told of the person, as it is sent. */
  readonly told: Fields
  /** Address of a login as another user. */
  readonly other: string
  readonly baseUrl: string
}

/** Answers a person who is signed in, whatever the method. */
export function answerOwnPage(
  request: Request,
  own: OwnPage,
  tools: { readonly page: PageMaker; readonly failurePage: FailurePage },
): Response {
  if (request.method !== 'GET' && request.method !== 'HEAD')
    return methodNotAllowed(['GET', 'HEAD'])
  const answer = answerGet(request, own, tools)
  return request.method === 'HEAD' ? withoutContent(answer) : answer
}

function answerGet(
  request: Request,
  own: OwnPage,
  { page, failurePage }: { readonly page: PageMaker; readonly failurePage: FailurePage },
): Response {
  if (own.path === signedInPath) return signedIn(request, page)
  if (isOfOtherSite(request, own.baseUrl)) {
    return failurePage({ request, code: 'whoami_foreign', words: { own: whoamiPath } })
  }
  return isNavigation(request)
    ? whoamiPage(request, own, page)
    : json(whoIs(own.session), { status: 200, fields: OWN_ORIGIN })
}

/** No page of another origin gets the bytes, not even as those of an image or a script (Fetch, section 3.7). */
const OWN_ORIGIN = Fields.of(['Cross-Origin-Resource-Policy', 'same-origin'])

/**
 * Whether a page of another origin asks, one of a neighbouring host of the same site included. Browsers say so; what says nothing is
 * an old browser, whose scripts of other origins cannot read the answer, or none.
 */
function isOfOtherSite({ fields }: Pick<Request, 'fields'>, baseUrl: string): boolean {
  const site = fields.get('Sec-Fetch-Site') ?? 'none'
  const origin = fields.get('Origin') ?? baseUrl
  return (site !== 'none' && site !== 'same-origin') || origin !== baseUrl
}

/** What a script is told. No key, token or NameID is among it. */
function whoIs({ subject, attributes, created, expires, lapses }: ReadSession) {
  const groups = attributes.get('groups')
  return {
    subject,
    name: nameOf(attributes) ?? null,
    // With too many groups Entra ID sends none: they are not known then, which is not the same as none.
    groups: groups ?? (attributes.has('groupsOverage') ? null : []),
    sessionMade: timeText(created),
    sessionEnds: timeText(expires),
    sessionEndsUnused: timeText(lapses),
  }
}

/** What a person is called. */
export function nameOf(attributes: ReadonlyMap<string, readonly string[]>): string | undefined {
  const first = (name: string) => attributes.get(name)?.[0]
  const parts = [first('givenName'), first('sn')].filter(part => part !== undefined)
  return first('displayName') ?? first('name') ?? (parts.length > 0 ? parts.join(' ') : undefined)
}

/** The field of the signed identity: it proves who asks for two minutes, so no page shows it. */
const SIGNED = 'X-Authproxy-Identity'

function whoamiPage(request: Request, own: OwnPage, page: PageMaker): Response {
  const { session, told, other } = own
  return page({
    request,
    template: 'whoami',
    fields: OWN_ORIGIN,
    view: say => ({
      title: say('Who you are here'),
      signedIn: say('You are signed in as {user}.', { user: session.subject }),
      session: [
        { name: say('Signed in since'), value: timeText(session.created) },
        { name: say('Signed in until'), value: timeText(session.expires) },
        { name: say('If you do nothing, until'), value: timeText(session.lapses) },
      ],
      toldLabel: say('What the application is told about you'),
      told: [...told].map(([name, value]) => ({
        name,
        value: name === SIGNED ? say('signed proof, not shown') : shown(value),
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
