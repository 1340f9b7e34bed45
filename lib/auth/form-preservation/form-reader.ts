/**
 * Reads a form whose session had ended, so that it can be sent again after the login.
 *
 * Only what our own pages post is kept, and only for a user this browser has been signed in as before: a form of another site
 * would be sent in the name of the user who logs in, and one without a known sender perhaps in another user's.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { Request } from '../../http/message/message.ts'
import { hasContent } from '../../http/message/upgrade.ts'
import { gather, Room } from '../../http/server/gather.ts'
import { isOwnPost } from '../access/own-origin.ts'
import type { Config } from '../config/config.ts'
import type { NotKept } from '../pages/failures.ts'
import type { Form } from './kept-forms.ts'
import { isResubmission } from './resubmission.ts'

/** The three ways an HTML form has of sending itself. */
const FORMS = /^(?:application\/x-www-form-urlencoded|multipart\/form-data|text\/plain)\s*(?:;|$)/i
/** A boundary has 70 characters at most (RFC 2046 section 5.1.1). */
const LONGEST_TYPE = 256
/** For a form to arrive. */
const DEADLINE: Milliseconds = 30_000
/** Bytes of all forms that are being read. */
const MOST_READING = 32 * 1024 * 1024

/**
 * Reads the form of a post, or says why it is not kept; undefined for other methods and posts without content. `known`: whether
 * the sender is known. Throws when the client goes away.
 */
export type FormReader = (
  request: Request,
  config: Config,
  known: boolean,
) => Promise<Form | NotKept | undefined>

/** Makes the reader, with room for the forms that are being read. */
export function formReader(clock: Clock): FormReader {
  const room = new Room(MOST_READING)
  return async (request, { baseUrl, saml: { stashLimit: size } }, known) => {
    if (request.method !== 'POST' || !hasContent(request)) return undefined
    if (size === 0) return 'off'
    if (!isOwnPost(request, baseUrl)) return 'foreign'
    const contentType = request.fields.get('Content-Type') ?? ''
    if (contentType.length > LONGEST_TYPE || !FORMS.test(contentType)) return 'type'
    if (!known) return 'stranger'
    if (Number(request.fields.get('Content-Length') ?? 0) > size) return 'too-large'
    const content = await gather(request, { clock, room, size, time: DEADLINE })
    if (content === 'no-room') return 'busy'
    if (typeof content === 'string') return content
    return isResubmission(content) ? 'spent' : { contentType, content }
  }
}
