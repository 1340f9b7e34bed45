/**
 * A form post as a form again: what a page needs in order to send it once more. Pure.
 *
 * # Facts
 * - A page can only send names and values. So posts of url-encoded text are kept, and multipart posts without files; JSON comes
 *   from scripts, which have got their 401, and files cannot be put into a form by anybody but the person.
 */
import { parseMediaType } from '../../http/media.ts'
import type { Stash } from './contract.ts'
import { parseForm } from './form.ts'

export interface ReplayForm {
  readonly enctype: 'application/x-www-form-urlencoded' | 'multipart/form-data'
  readonly fields: ReadonlyArray<{ readonly name: string; readonly value: string }>
}

/** More fields than this make a page nobody wants to load. */
const MOST_FIELDS = 2000

/** Whether a post can be sent again by a page. */
export function isReplayable(stash: Stash): boolean {
  return replayForm(stash) !== undefined
}

/** The fields of a post in their order; undefined when it is none a page can send. */
export function replayForm({ contentType, content }: Stash): ReplayForm | undefined {
  const type = parseMediaType(contentType)
  const essence = `${type?.type}/${type?.subtype}`
  const pairs =
    essence === 'application/x-www-form-urlencoded'
      ? parseForm(content)
      : essence === 'multipart/form-data'
        ? parseMultipart(content, type?.parameters.get('boundary'))
        : undefined
  if (pairs === undefined || pairs.length > MOST_FIELDS) return undefined
  const fields = pairs.map(([name, value]) => ({ name, value }))
  return essence === 'multipart/form-data'
    ? { enctype: 'multipart/form-data', fields }
    : { enctype: 'application/x-www-form-urlencoded', fields }
}

/** RFC 7578 as browsers write it; undefined for files, other charsets and anything unusual. */
function parseMultipart(
  content: Buffer,
  boundary: string | undefined,
): ReadonlyArray<readonly [string, string]> | undefined {
  if (boundary === undefined || boundary === '') return undefined
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(content)
  } catch {
    return undefined
  }
  const parts = `\r\n${text}`.split(`\r\n--${boundary}`)
  if (parts.shift() !== '' || !/^--\s*$/.test(parts.pop() ?? '')) return undefined
  const pairs: Array<readonly [string, string]> = []
  for (const part of parts) {
    const match = /^\r\nContent-Disposition: form-data; name="([^"\r\n]*)"\r\n\r\n/i.exec(part)
    if (match?.[1] === undefined) return undefined
    const name = match[1].replace(/%(22|0D|0A)/g, (_all, hex) =>
      String.fromCharCode(parseInt(hex, 16)),
    )
    pairs.push([name, part.slice(match[0].length)])
  }
  return pairs
}
