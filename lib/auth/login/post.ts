/**
 * Reads messages by the HTTP-POST binding, saml-bindings-2.0-os section 3.5: forms of application/x-www-form-urlencoded, read
 * strictly. Names are taken literally, and each that matters may come once.
 */
import { mediaTypeOf } from '../../http/message/media.ts'
import type { Request } from '../../http/message/message.ts'
import { type GatherLimits, gather } from '../../http/server/gather.ts'
import type { MessageName } from '../../saml/binding/redirect.ts'
import { decodeFormText } from '../../saml/xml/encoding.ts'
import type { XmlLimits } from '../../saml/xml/xml.ts'

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
  return target.form === 'origin' && target.query === AGAIN
}
