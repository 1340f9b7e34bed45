/**
 * Forms as browsers post them, application/x-www-form-urlencoded (URL Standard section 5), read strictly: names taken literally,
 * UTF-8, and of every name a message needs exactly one.
 */

import { parseMediaType } from '../../../http/message/media.ts'
import type { Request } from '../../../http/message/message.ts'
import { type GatherLimits, gather } from '../../../http/server/gather.ts'

export type ReadForm =
  | { readonly ok: true; readonly pairs: ReadonlyArray<readonly [name: string, value: string]> }
  | {
      readonly ok: false
      readonly because:
        | 'form_type'
        | 'form_too_large'
        | 'form_late'
        | 'form_busy'
        | 'form_malformed'
    }

/** Reads the content of a request as a form. Throws only what reading throws when the client goes away. */
export async function readForm(request: Request, limits: GatherLimits): Promise<ReadForm> {
  const type = parseMediaType(request.fields.get('Content-Type') ?? '')
  if (type?.type !== 'application' || type.subtype !== 'x-www-form-urlencoded') {
    return { ok: false, because: 'form_type' }
  }
  const announced = Number(request.fields.get('Content-Length') ?? 0)
  if (announced > limits.size) return { ok: false, because: 'form_too_large' }
  const content = await gather(request, limits)
  if (typeof content === 'string') return { ok: false, because: reasons[content] }
  const pairs = parseForm(content)
  return pairs === undefined ? { ok: false, because: 'form_malformed' } : { ok: true, pairs }
}

const reasons = {
  'too-large': 'form_too_large',
  late: 'form_late',
  'no-room': 'form_busy',
} as const

/** Names and values; undefined when an escape is broken or does not make UTF-8. */
export function parseForm(
  content: Buffer,
): ReadonlyArray<readonly [name: string, value: string]> | undefined {
  const text = content.toString('latin1')
  if (text === '') return []
  const pairs: Array<readonly [string, string]> = []
  for (const piece of text.split('&')) {
    if (piece === '') continue
    const equals = piece.indexOf('=')
    const name = decode(equals < 0 ? piece : piece.slice(0, equals))
    const value = decode(equals < 0 ? '' : piece.slice(equals + 1))
    if (name === undefined || value === undefined) return undefined
    pairs.push([name, value])
  }
  return pairs
}

function decode(text: string): string | undefined {
  if (/[^\x20-\x7e]/.test(text)) return undefined
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    return undefined
  }
}

/** The one value of a name; undefined when there is none, `several` when there are more. */
export function onlyValue(
  pairs: ReadonlyArray<readonly [string, string]>,
  name: string,
): string | undefined | { readonly several: true } {
  const values = pairs.filter(pair => pair[0] === name)
  return values.length > 1 ? { several: true } : values[0]?.[1]
}
