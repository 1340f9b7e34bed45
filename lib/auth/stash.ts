/**
 * A form that was sent after its session had ended: read, so that it can be sent again after the login. Only what our own
 * pages post is kept; a form of another site would be sent in the name of somebody who just logged in.
 */
import type { Request } from '../http/message.ts'
import { hasContent } from '../http/upgrade.ts'
import type { Config } from './config.ts'
import type { Stash } from './saml/contract.ts'

const FORMS = /^(?:application\/x-www-form-urlencoded|multipart\/form-data|text\/plain)\s*(?:;|$)/i
/** For a small form to arrive. */
const DEADLINE = 10_000

/** The form; undefined when there is none, when it is too large, or when it comes from elsewhere. */
export async function stashOf(request: Request, config: Config): Promise<Stash | undefined> {
  const { stashLimit } = config.saml
  const contentType = request.fields.get('Content-Type')
  if (request.method !== 'POST' || stashLimit === 0 || contentType === undefined) return undefined
  if (!FORMS.test(contentType) || !hasContent(request) || !isOurs(request, config)) return undefined
  const length = request.fields.get('Content-Length')
  if (length !== undefined && Number(length) > stashLimit) return undefined
  const content = await readUpTo(request.content, stashLimit)
  return content === undefined ? undefined : { contentType, content }
}

function isOurs({ fields }: Request, { baseUrl }: Config): boolean {
  const site = fields.get('Sec-Fetch-Site')
  const origin = fields.get('Origin')
  if (site !== undefined && site !== 'same-origin') return false
  return origin === undefined ? site === 'same-origin' : origin === baseUrl
}

async function readUpTo(
  content: AsyncIterable<Buffer>,
  limit: number,
): Promise<Buffer | undefined> {
  const blocks: Buffer[] = []
  let size = 0
  const late = AbortSignal.timeout(DEADLINE)
  try {
    for await (const block of content) {
      size += block.length
      if (size > limit || late.aborted) return undefined
      blocks.push(Buffer.from(block))
    }
  } catch {
    return undefined // the client has gone; so has its form
  }
  return Buffer.concat(blocks)
}
