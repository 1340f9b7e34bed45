/**
 * Reads a form that came without a session, and sends it to the backend after the login, instead of a post of our own page
 * (form resubmission).
 *
 * Only what pages of our own origin post is kept: a form of another site would be sent in the name of the user who logs in.
 * Where this browser has been signed in before, only that user may send it. Forms of other browsers have memory of their own,
 * so that clients that never log in cannot take the memory of users.
 *
 * The page after the login (redirect-endpoint.ts) posts an ID to the address of the form. The form itself waits in memory
 * (kept-forms.ts) and is sent byte for byte, files and all, when the user who is signed in now is its sender.
 *
 * # Facts
 * - A page cannot send a file again, and cannot repeat text/plain or a charset exactly; and a browser would store the values
 *   that a page contains.
 * - The post of the page has one of a few lengths, so posts of other lengths are not read.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { Fields } from '../../http/message/field.ts'
import { mediaTypeOf } from '../../http/message/media.ts'
import { hasContent, type Request, type Response } from '../../http/message/message.ts'
import { ContentTooSlow } from '../../http/proxy/forward.ts'
import { Allowance, gather } from '../../http/server/gather.ts'
import { isFramed } from '../access/navigation.ts'
import { isOwnPost } from '../access/own-origin.ts'
import type { Config } from '../config/config.ts'
import type { NotKept } from '../pages/failures.ts'
import type { Session } from '../session/token.ts'
import { flowIdIn, idLengths, ownerOf } from './cookies.ts'
import type { Form, WithheldForm } from './kept-forms.ts'
import type { Saml } from './parts.ts'

/** The three media types that an HTML form can have. */
const FORMS = /^(?:application\/x-www-form-urlencoded|multipart\/form-data|text\/plain)\s*(?:;|$)/i
/** A boundary has 70 characters at most (RFC 2046 section 5.1.1). */
const LONGEST_TYPE = 256
/** The time a form has to arrive. */
const FORM_TIME: Milliseconds = 30_000
/** The most bytes of all forms that are being read: of browsers that have been signed in before, and of others. */
const MOST_READING = { known: 32 * 1024 * 1024, unknown: 16 * 1024 * 1024 }

/** Whether the browser of a form has been signed in before. */
export type FormSender = 'known' | 'unknown'

/**
 * Reads the form of a post, or says why it is not kept; undefined for other methods and posts without content. `sender` is
 * undefined when a browser cannot come back to the address. Throws when the client goes away.
 */
export type FormReader = (
  request: Request,
  config: Config,
  sender: FormSender | undefined,
) => Promise<Form | NotKept | undefined>

/** Makes the reader, with room for the forms that are being read. */
export function formReader(clock: Clock): FormReader {
  const rooms = {
    known: new Allowance(MOST_READING.known),
    unknown: new Allowance(MOST_READING.unknown),
  }
  return async (request, { baseUrl, saml: { replaySize: size } }, sender) => {
    if (request.method !== 'POST' || !hasContent(request)) return undefined
    if (size === 0) return 'off'
    if (isFramed(request)) return 'frame'
    const contentType = request.fields.get('Content-Type') ?? ''
    if (contentType.length > LONGEST_TYPE || !FORMS.test(contentType)) return 'type'
    if (sender === undefined) return 'address'
    if (Number(request.fields.get('Content-Length') ?? 0) > size) return 'too-large'
    const content = await gather(request, { clock, room: rooms[sender], size, time: FORM_TIME })
    if (content === 'no-room') return 'busy'
    if (typeof content === 'string') return content
    if (idIn(content) !== undefined) return 'spent'
    const form = { contentType, content }
    return isOwnPost(request, baseUrl) ? form : { ...form, ...senderOf(request) }
  }
}

/** The origin whose page posted a form, `null` when the browser does not say, and the Sec-Fetch-Site of the post. */
function senderOf({ fields }: Request): Required<Pick<Form, 'origin'>> & Pick<Form, 'site'> {
  const said = fields.get('Origin') ?? ''
  const origin = /^https?:\/\/[A-Za-z0-9.\-[\]:]{1,260}$/.test(said) ? said : 'null'
  const site = fields.get('Sec-Fetch-Site') ?? ''
  return /^[a-z-]{1,20}$/.test(site) ? { origin, site } : { origin }
}

/** The name of the one field our page posts; its value is the ID of the login. */
export const resubmissionField = '__authproxy_form'

const START = `${resubmissionField}=`
/** The lengths that the content of the post can have, by those of IDs of logins. */
const LENGTHS = idLengths.map(length => START.length + length)
const POST_TIME: Milliseconds = 10_000

/** The ID of the login in the content of a post of our page. */
function idIn(content: Buffer): string | undefined {
  if (!LENGTHS.includes(content.length)) return undefined
  const text = content.toString('latin1')
  return text.startsWith(START) ? flowIdIn(text.slice(START.length))?.id : undefined
}

/**
 * Reads a post that could be that of our page: answers the ID of the login whose form it stands for, or the request with its
 * content still to be read. Throws ContentTooSlow when its few bytes do not arrive.
 */
export function openResubmission(request: Request, clock: Clock): Opened | Promise<Opened> {
  return mayBeResubmission(request) ? open(request, clock) : { request }
}

type Opened = { readonly id: string } | { readonly request: Request }

async function open(request: Request, clock: Clock): Promise<Opened> {
  const content = await gather(request, { clock, size: Math.max(...LENGTHS), time: POST_TIME })
  if (typeof content === 'string') throw new ContentTooSlow(POST_TIME)
  const id = idIn(content)
  if (id !== undefined) return { id }
  return { request: withContent(request, request.fields, content) }
}

function mayBeResubmission({ method, fields }: Request): boolean {
  if (method !== 'POST' || !LENGTHS.includes(Number(fields.get('Content-Length')))) return false
  return mediaTypeOf(fields.get('Content-Type') ?? '') === 'application/x-www-form-urlencoded'
}

/** The post of our page, and the facts the gateway has about it. */
export interface Resubmission {
  readonly request: Request
  /** The ID of the login. */
  readonly id: string
  readonly session: Session
  /** Path and query of the post. */
  readonly target: string
}

/** The request to send instead of a post of our page, handed out once; or the page that says why there is none. */
export async function resubmit(
  saml: Saml,
  { request, id, session, target }: Resubmission,
): Promise<
  { readonly request: Request; readonly setCookie: Fields } | { readonly refuse: Response }
> {
  if (!isOwnPost(request, saml.config().baseUrl)) {
    return { refuse: notSent(saml, request, { because: 'foreign', target: '/' }) }
  }
  const cookies = saml.cookies(request)
  const key = cookies.flow(id)?.form
  const place = { owner: ownerOf(session), target }
  const taken =
    key === undefined ? ({ because: 'gone' } as const) : await saml.forms.take(id, key, place)
  cookies.drop(id)
  const setCookie = cookies.lines
  if ('because' in taken) {
    return { refuse: notSent(saml, request, { ...taken, target, fields: setCookie }) }
  }
  const bytes = taken.content.length
  const { origin } = taken
  saml.log.info('sent a form that was kept', {
    request: request.id,
    session: session.id,
    bytes,
    origin,
  })
  return { request: withForm(request, taken), setCookie }
}

/** The page that says that a form was not sent. */
export function notSent(
  saml: Saml,
  request: Request,
  what: {
    readonly because: WithheldForm['because'] | 'foreign'
    /** The target that the page links to. */
    readonly target: string
    readonly fields?: Fields
  },
): Response {
  const { because, target, fields = Fields.empty } = what
  const code = CODES[because]
  saml.count(code)
  return saml.failurePage({ request, code, words: { target }, fields })
}

const CODES = {
  gone: 'resubmission_gone',
  'other-user': 'resubmission_other_user',
  foreign: 'resubmission_foreign',
} as const

/**
 * The request of our page with the content, and the type of content, of the form that was kept. A form of another site keeps
 * what its browser said about that site, or the application would take it for a form of its own pages.
 */
function withForm(request: Request, { contentType, content, origin, site }: Form): Request {
  const fields = request.fields
    .without('Expect')
    .with('Content-Type', contentType)
    .with('Content-Length', String(content.length))
  if (origin === undefined) return withContent(request, fields, content)
  const foreign = fields.without('Referer', 'Sec-Fetch-Site').with('Origin', origin)
  const marked = site === undefined ? foreign : foreign.with('Sec-Fetch-Site', site)
  return withContent(request, marked, content)
}

function withContent(request: Request, fields: Fields, content: Buffer): Request {
  return { ...request, fields, content: blocks(content) }
}

async function* blocks(content: Buffer): AsyncGenerator<Buffer> {
  yield content
}
