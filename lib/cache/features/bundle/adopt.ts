/**
 * Stores a content from a bundle or a directory, and has the reasons for which an import leaves files out.
 */
import { Piece } from '../../../bytes/piece.ts'
import { explainError } from '../../../errors.ts'
import { WrongContent } from '../../fetch/wrong-content.ts'
import type { PutResult } from '../../store/content/download.ts'
import type { Store } from '../../store/store.ts'
import type { CarriedRecord } from '../feature.ts'

/** The reasons for which an import leaves files out, in words. */
export const leftOutReasons = {
  incomplete: 'incomplete, or their length is not known',
  'not-named': 'named by no index, and their place does not show a URL',
  changing: 'of a kind whose content changes: the next request fetches them',
  refused: 'of hosts that the configuration does not allow, or never stores',
  'other-content': 'not what an index or their name says',
  'not-a-file': 'no plain files',
  unreadable: 'unreadable',
  'not-stored': 'not stored',
  record: 'records that are there already, or cannot be read',
} as const

export type LeftOutReason = keyof typeof leftOutReasons

export interface LeftOutFile {
  /** The path or the URL of the file. */
  readonly name: string
  readonly reason: LeftOutReason
  readonly because?: string
}

export interface ImportCounts {
  /** The number of entries, and the bytes of their contents, each counted once. */
  files: number
  bytes: number
  known: number
  readonly leftOut: LeftOutFile[]
  /** The records that the bundle carries for other features. */
  readonly records: CarriedRecord[]
}

/** The reason for which a file is left out when the store may have a newer version. */
export const entryUnreadable = 'the disk cannot read what the store has of it'

interface WantedContent {
  readonly digest: string
  readonly size: number
  readonly onRead: (bytes: number) => void
}

/** Whether a content was stored, and if not, why: the content is another one than its name says, or the store does not take it. */
type AdoptedContent =
  | Extract<PutResult, { readonly stored: true }>
  | (Extract<PutResult, { readonly stored: false }> & {
      readonly reason: 'other-content' | 'not-stored'
    })

/**
 * Stores a content that the store does not have. The content counts only when it has the expected digest and size. Never rejects.
 */
export async function storeContent(
  store: Pick<Store, 'download'>,
  { digest, size, onRead }: WantedContent,
  content: AsyncIterable<Buffer>,
): Promise<AdoptedContent> {
  const expected = { size, digest: { algorithm: 'sha256', hex: digest } } as const
  const download = store.download({ expected, length: size })
  try {
    if (download.because !== undefined) throw new Error(download.because)
    for await (const chunk of content) {
      onRead(chunk.length)
      if (download.take(new Piece(chunk))) continue
      await new Promise<void>(resolve => download.whenReady(resolve))
    }
    const kept = await download.complete().kept
    return kept.stored ? kept : { ...kept, reason: 'not-stored' }
  } catch (error) {
    download.discard(error instanceof Error ? error : new Error(String(error)))
    const reason = WrongContent.is(error) ? 'other-content' : 'not-stored'
    return { stored: false, because: explainError(error), reason }
  }
}
