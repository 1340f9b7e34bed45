/**
 * Receives and sends messages in browsers, by the bindings HTTP-POST and HTTP-Redirect (saml-bindings-2.0-os sections 3.4 and 3.5), and
 * sends browsers on to an address.
 *
 * Forms of application/x-www-form-urlencoded are read strictly: names are taken literally, and each that matters may come once.
 */
import { Fields } from '../../http/message/field.ts'
import { mediaTypeOf } from '../../http/message/media.ts'
import { noContent, type Request, type Response } from '../../http/message/message.ts'
import { originForm } from '../../http/message/target.ts'
import { type GatherLimits, gather } from '../../http/server/gather.ts'
import { networkOf } from '../../ip.ts'
import { type MessageName, redirectAddressBehind } from '../../saml/binding/redirect.ts'
import type { Endpoint } from '../../saml/metadata/idp-metadata.ts'
import { signElementBehind } from '../../saml/signature/sign.ts'
import { decodeFormText } from '../../saml/xml/encoding.ts'
import type { XmlLimits } from '../../saml/xml/xml.ts'
import type { Client } from '../idp/worker/pool.ts'
import type { Sentence } from '../pages/language.ts'
import type { Saml } from './parts.ts'

export interface PostedMessage {
  readonly name: MessageName
  /** The message in base64, not yet decoded. */
  readonly encoded: string
  readonly relayState: string | undefined
}

/** The most fields of a form. IdPs send two or three; half a million would keep the service busy. */
const MOST_FIELDS = 100

type FormReason = 'form_type' | 'form_too_large' | 'form_late' | 'form_busy' | 'form_malformed'

/** The message of at most `size` bytes that a form posts; undefined when it carries none. Throws when the client goes away. */
export async function readPost(
  request: Request,
  limits: Pick<GatherLimits, 'clock' | 'room'>,
  { size: largest }: Pick<XmlLimits, 'size'>,
): Promise<PostedMessage | FormReason | undefined> {
  const type = mediaTypeOf(request.fields.get('Content-Type') ?? '')
  if (type !== 'application/x-www-form-urlencoded') return 'form_type'
  const announced = Number(request.fields.get('Content-Length') ?? 0)
  // The size allows for base64 of the largest message in lines, percent-encoded as browsers do it, and a RelayState. That is 1.6
  // times as much at most.
  const size = largest * 2
  if (announced > size) return 'form_too_large'
  const content = await gather(request, { ...limits, size, time: 30_000 })
  return typeof content === 'string' ? reasons[content] : readForm(content.toString('latin1'))
}

const reasons = {
  'too-large': 'form_too_large',
  late: 'form_late',
  'no-room': 'form_busy',
} as const

function readForm(form: string): PostedMessage | FormReason | undefined {
  const values = new Map<string, string>()
  const pieces = form.split('&', MOST_FIELDS + 1)
  if (pieces.length > MOST_FIELDS) return 'form_malformed'
  for (const piece of pieces) {
    const [, first = '', second = ''] = /^([^=]*)=?(.*)$/s.exec(piece) ?? []
    const name = decodeFormText(first)
    const value = decodeFormText(second)
    if (name === undefined || value === undefined) return 'form_malformed'
    if (!NAMES.includes(name)) continue
    if (values.has(name)) return 'form_malformed'
    values.set(name, value)
  }
  const request = values.get('SAMLRequest')
  const response = values.get('SAMLResponse')
  if (request !== undefined && response !== undefined) return 'form_malformed'
  const name = request === undefined ? 'SAMLResponse' : 'SAMLRequest'
  const encoded = request ?? response
  const relayState = values.get('RelayState')
  return encoded === undefined ? undefined : { name, encoded, relayState }
}

const NAMES: readonly string[] = ['SAMLRequest', 'SAMLResponse', 'RelayState']

/** The query of an address to which one of our own pages posts a message again. */
export const AGAIN = 'again'

/** Whether one of our own pages has posted a message again. */
export function isAgain({ target }: Request): boolean {
  return originForm(target).query === AGAIN
}

/** The client that sent a message; `hasBegunLogin` says whether it has begun a login at this gateway. */
export function clientOf(saml: Saml, request: Request, hasBegunLogin: boolean): Client {
  return { address: networkOf(saml.clientAddress(request)), hasBegunLogin }
}

/** The content of a page that sends the browser on, which is visible until it does, or where scripts are switched off. */
interface Shown {
  readonly request: Request
  readonly title: Sentence
  /** The text of the link or button. */
  readonly label: Sentence
  /**
   * The login under whose ID the tab stores its target: `address` with the fragment, which never leaves the browser, or the
   * target stored for the login `of`.
   */
  readonly keep?: { readonly id: string; readonly address?: string; readonly of?: string }
  /** The status of the page; 200 by default. */
  readonly status?: number
  readonly fields?: Fields
  /** The origins whose pages may show it in a frame; none by default. */
  readonly framedBy?: readonly string[]
}

interface Sending extends Shown {
  readonly to: Pick<Endpoint, 'binding' | 'location'>
  readonly message: {
    readonly name: MessageName
    readonly xml: string
    readonly id: string
    readonly relayState?: string | undefined
  }
  readonly signed: boolean
  /** The way a browser follows HTTP-Redirect: by this status, or by a page that stores the fragment first. */
  readonly follows: 302 | 303 | 'page'
}

/** Sends a message to the IdP. */
export async function sendMessage(saml: Saml, sending: Sending): Promise<Response> {
  const { to, message, signed, follows, ...shown } = sending
  const { name, xml, id, relayState } = message
  const { binding, location } = to
  const key = signed ? saml.idp.signingKey : undefined
  if (binding === 'post') {
    const text = key === undefined ? xml : await signElementBehind(xml, { id, key })
    const values = { [name]: Buffer.from(text).toString('base64'), RelayState: relayState }
    // Chrome applies the policy to redirects of a form as well, and IdPs redirect to any address with TLS.
    const formAction = ['https:', new URL(location).origin]
    // Without a referrer policy of its own the post would carry "Origin: null", and some IdPs refuse origins they do not know.
    const fields = (shown.fields ?? Fields.empty).plus('Referrer-Policy', 'origin')
    return formPage(saml, { ...shown, fields, action: location, values, formAction })
  }
  const href = await redirectAddressBehind(location, message, key)
  return follows === 'page'
    ? linkPage(saml, { ...shown, href })
    : redirect(follows, href, shown.fields)
}

/** A redirect that no cache keeps. */
export function redirect(status: 302 | 303, location: string, fields = Fields.empty): Response {
  const own = Fields.of(['Cache-Control', 'no-store'], ['Vary', 'Cookie'], ['Location', location])
  return { status, fields: Fields.of(...fields, ...own), content: noContent }
}

/** A page that goes on to an address by itself. */
export function linkPage(
  saml: Pick<Saml, 'page'>,
  link: Shown & {
    readonly href: string
    /** ID of the login whose kept address the page goes to, when the tab has one. */
    readonly restore?: string
  },
): Response {
  const { request, title, label, href, keep, restore = '', status = 200, fields } = link
  return saml.page({
    request,
    template: 'saml-go',
    status,
    fields,
    script: true,
    view: say => {
      return { title: say(title), label: say(label), href, keep: keptView(keep), restore }
    },
  })
}

/** A page whose form posts itself. */
export function formPage(
  saml: Pick<Saml, 'page'>,
  form: Shown & {
    readonly action: string
    readonly values: Readonly<Record<string, string | undefined>>
    /** Origins the form may be sent to, other than ours. */
    readonly formAction?: readonly string[]
  },
): Response {
  const { request, title, label, keep, action, values, status = 200 } = form
  const { formAction = [], framedBy = [] } = form
  const inputs = Object.entries(values)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => ({ name, value }))
  return saml.page({
    request,
    template: 'saml-form',
    status,
    fields: form.fields,
    script: true,
    formAction,
    framedBy,
    view: say => {
      return { title: say(title), label: say(label), keep: keptView(keep), action, fields: inputs }
    },
  })
}

/** The values of the login that the page stores; empty when there is no login. */
function keptView(keep: Shown['keep']) {
  return keep === undefined ? [] : [{ address: '', of: '', ...keep }]
}
