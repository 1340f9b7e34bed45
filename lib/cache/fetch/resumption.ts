/**
 * Continues a large download of which a crash or a stop has left the beginning on disk.
 */
import type { Clock } from '../../async/clock.ts'
import type { Source } from '../../bytes/source.ts'
import { Fields } from '../../http/message/field.ts'
import type { Logger } from '../../log/log.ts'
import { draftEntry, type EntryDraft } from '../rfc9111/stored-response.ts'
import type { Download } from '../store/content/download.ts'
import type { Resumable } from '../store/content/downloads.ts'
import { checkRest, restFields } from './continuation.ts'
import { expectedOf, type Wanted } from './found.ts'
import type { Answer } from './mirrors.ts'
import type { Ask } from './origin-client.ts'

/** A download with the content that belongs into it. */
export interface Begun {
  readonly draft: EntryDraft
  readonly download: Download
  readonly length: number | undefined
  /** What is still to come. */
  readonly content: Source
  readonly from: Pick<Answer, 'place' | 'source'>
}

interface ResumptionOptions {
  readonly ask: Ask
  readonly clock: Clock
  readonly log: Logger
  readonly signal: AbortSignal
}

/** The download and the rest of its content; undefined when the file must be fetched as a whole. Rejects when asking fails. */
export async function resumed(
  wanted: Wanted,
  left: Resumable,
  { clock, log, ask, signal }: ResumptionOptions,
): Promise<Begun | undefined> {
  const { key, uri } = wanted
  const requested = clock.now()
  const fields = Fields.of(...Object.entries(left.fields))
  const { size, length } = left
  const expected = expectedOf(wanted)
  const begun = { size, length, fields, promised: expected !== undefined, received: requested }
  const more = restFields(begun)
  if (more === undefined) return undefined
  const answer = await ask({
    uri,
    stored: undefined,
    signal,
    // Which of several origins the beginning came from is not known: only a promised digest would show a part of another file.
    more: (_, others) => (others && !begun.promised ? Fields.empty : more),
  })
  const { status, content, fields: part } = answer.response
  try {
    const whole = status === 206 ? checkRest(begun, part, clock.now()) : undefined
    const download = whole === undefined ? undefined : await left.resume(expected)
    if (download !== undefined) {
      log.info('continues a fetch that a stop broke off', { key, received: size })
      const draft = draftEntry(key, fields, {
        requested,
        received: clock.now(),
        previous: undefined,
      })
      return { draft, download, length: whole, content, from: answer }
    }
  } catch (error) {
    log.warn('cannot continue a fetch that a stop broke off', { key, error })
  }
  content.close()
  return undefined
}
