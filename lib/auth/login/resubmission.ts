/**
 * Sends a kept form to the backend in the place of a post of our own page (form resubmission).
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
import type { Request, Response } from '../../http/message/message.ts'
import { ContentTooSlow } from '../../http/proxy/forward.ts'
import { gather } from '../../http/server/gather.ts'
import { isOwnPost } from '../access/own-origin.ts'
import type { Session } from '../session/token.ts'
import type { Form, WithheldForm } from './kept-forms.ts'
import { dropFlow, flowIdIn, idLengths, stateOf } from './login-state.ts'
import { ownerOf } from './owner.ts'
import type { Saml } from './parts.ts'

/** The name of the one field our page posts; its value is the ID of the login. */
export const resubmissionField = '__authproxy_form'

const START = `${resubmissionField}=`
/** The lengths that the content of the post can have, by those of IDs of logins. */
const LENGTHS = idLengths.map(length => START.length + length)
const DEADLINE: Milliseconds = 10_000

/** Whether this is the content of a post of our page. */
export function isResubmission(content: Buffer): boolean {
  return idIn(content) !== undefined
}

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
  const content = await gather(request, { clock, size: Math.max(...LENGTHS), time: DEADLINE })
  if (typeof content === 'string') throw new ContentTooSlow(DEADLINE)
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

/** The request to send in place of a post of our page, handed out once; or the page that says why there is none. */
export async function resubmit(
  saml: Saml,
  { request, id, session, target }: Resubmission,
): Promise<
  { readonly request: Request; readonly setCookie: Fields } | { readonly refuse: Response }
> {
  if (!isOwnPost(request, saml.config().baseUrl)) {
    return { refuse: notSent(saml, request, { because: 'foreign', target: '/' }) }
  }
  const state = stateOf(saml, request)
  const key = state.flows.find(flow => flow.id === id)?.form
  const place = { owner: ownerOf(session), target }
  const taken =
    key === undefined ? ({ because: 'gone' } as const) : await saml.forms.take(id, key, place)
  const setCookie = Fields.of(['Set-Cookie', dropFlow(id)])
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
 * the Origin of that site, or the application would take it for a form of its own pages.
 */
function withForm(request: Request, { contentType, content, origin }: Form): Request {
  const fields = request.fields
    .without('Expect')
    .with('Content-Type', contentType)
    .with('Content-Length', String(content.length))
  if (origin === undefined) return withContent(request, fields, content)
  const foreign = fields
    .without('Referer')
    .with('Origin', origin)
    .with('Sec-Fetch-Site', 'cross-site')
  return withContent(request, foreign, content)
}

/** `signal` is a getter of the request, which a copy of its own properties does not have. */
function withContent(request: Request, fields: Fields, content: Buffer): Request {
  const { signal } = request
  return { ...request, signal, fields, content: blocks(content) }
}

async function* blocks(content: Buffer): AsyncGenerator<Buffer> {
  yield content
}
