/**
 * A form that was sent after its session had ended: read, so that it can be sent again after the login. Only what our own
 * pages post is kept, and only for somebody this browser has been signed in as before; a form of another site would be sent in
 * the name of who just logged in, and one of nobody in particular perhaps in another's.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { within } from '../../async/deadline.ts'
import type { Request } from '../../http/message/message.ts'
import { hasContent } from '../../http/message/upgrade.ts'
import { isOwnPost } from '../access/own-post.ts'
import type { Config } from '../config/config.ts'
import { isReplay } from './form-sender.ts'
import type { Stash } from './kept-forms.ts'

/** The three ways an HTML form has of sending itself. */
const FORMS = /^(?:application\/x-www-form-urlencoded|multipart\/form-data|text\/plain)\s*(?:;|$)/i
/** A boundary has 70 characters at most (RFC 2046 section 5.1.1). */
const LONGEST_TYPE = 256
/** For a form to arrive. */
const DEADLINE: Milliseconds = 30_000
/** Bytes of all forms that are being read, by what they may come to. */
const MOST_READING = 32 * 1024 * 1024

/** Why a post is not kept. */
export type NotKept =
  | 'off'
  | 'type'
  | 'foreign'
  | 'stranger'
  | 'too-large'
  | 'late'
  | 'busy'
  | 'spent'

export type Stashing =
  | { readonly stash: Stash }
  | { readonly lost: NotKept }
  /** It is no post, or one without content. */
  | { readonly nothing: true }

export class FormReader {
  readonly #clock: Clock
  #reading = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The form of a post, or why it is none that is kept. `known`: whether we can tell whose it is. */
  async read(request: Request, config: Config, known: boolean): Promise<Stashing> {
    const { stashLimit } = config.saml
    if (request.method !== 'POST' || !hasContent(request)) return { nothing: true }
    const contentType = request.fields.get('Content-Type') ?? ''
    if (stashLimit === 0) return { lost: 'off' }
    if (!isOwnPost(request, config.baseUrl)) return { lost: 'foreign' }
    if (contentType.length > LONGEST_TYPE || !FORMS.test(contentType)) return { lost: 'type' }
    if (!known) return { lost: 'stranger' }
    const announced = Number(request.fields.get('Content-Length') ?? stashLimit)
    if (announced > stashLimit) return { lost: 'too-large' }
    if (this.#reading + announced > MOST_READING) return { lost: 'busy' }
    this.#reading += announced
    try {
      const content = await this.#content(request, stashLimit)
      if (typeof content === 'string') return { lost: content }
      return isReplay(content) ? { lost: 'spent' } : { stash: { contentType, content } }
    } finally {
      this.#reading -= announced
    }
  }

  async #content(request: Request, limit: number): Promise<Buffer | 'too-large' | 'late'> {
    const limits = {
      clock: this.#clock,
      after: DEADLINE,
      signal: request.signal,
      late: () => new Error('the form is late'),
      aborted: () => new Error('the client has gone'),
    }
    try {
      return await within(limits, stop => readUpTo(request.content, limit, stop))
    } catch {
      return 'late'
    }
  }
}

async function readUpTo(
  content: AsyncIterable<Buffer>,
  limit: number,
  stop: AbortSignal,
): Promise<Buffer | 'too-large' | 'late'> {
  const blocks: Buffer[] = []
  let size = 0
  for await (const block of content) {
    size += block.length
    if (size > limit) return 'too-large'
    if (stop.aborted) return 'late'
    blocks.push(Buffer.from(block))
  }
  return Buffer.concat(blocks)
}
