/**
 * Reads a form that came without a session, so that it can be sent again after the login.
 *
 * Only what pages of our own origin post is kept: a form of another site would be sent in the name of the user who logs in.
 * Where this browser has been signed in before, only that user may send it. Forms of other browsers have memory of their own,
 * so that clients that never log in cannot take the memory of users.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { hasContent, type Request } from '../../http/message/message.ts'
import { Allowance, gather } from '../../http/server/gather.ts'
import { isFramed } from '../access/navigation.ts'
import { isOwnPost } from '../access/own-origin.ts'
import type { Config } from '../config/config.ts'
import type { NotKept } from '../pages/failures.ts'
import type { Form } from './kept-forms.ts'
import { isResubmission } from './resubmission.ts'

/** The three media types that an HTML form can have. */
const FORMS = /^(?:application\/x-www-form-urlencoded|multipart\/form-data|text\/plain)\s*(?:;|$)/i
/** A boundary has 70 characters at most (RFC 2046 section 5.1.1). */
const LONGEST_TYPE = 256
/** The time a form has to arrive. */
const DEADLINE: Milliseconds = 30_000
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
    const content = await gather(request, { clock, room: rooms[sender], size, time: DEADLINE })
    if (content === 'no-room') return 'busy'
    if (typeof content === 'string') return content
    if (isResubmission(content)) return 'spent'
    const form = { contentType, content }
    return isOwnPost(request, baseUrl) ? form : { ...form, origin: originOf(request) }
  }
}

/** The origin whose page posted a form, as its browser says; `null` when it does not. */
function originOf({ fields }: Request): string {
  const origin = fields.get('Origin') ?? ''
  return /^https?:\/\/[A-Za-z0-9.\-[\]:]{1,260}$/.test(origin) ? origin : 'null'
}
