/**
 * Ends a fetch: stores whole content, and gives up what no client waits for and does not end.
 *
 * # Facts
 * - Most downloads without clients are worth finishing, for apt comes back; an origin that sends a few
 *   bytes at a time, or without end, would keep a connection and fill the disk for no client.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { Failure } from '../../errors.ts'
import type { Logger } from '../../log/log.ts'
import { type EntryDraft, finishedEntry } from '../rfc9111/stored-response.ts'
import type { Download } from '../store/content/download.ts'
import type { Store } from '../store/store.ts'
import { fetchFailure } from './failures.ts'
import { type ContentOutcome, verifiedBy, type WantedFile } from './found.ts'

/** Completes a download whose content is whole, and stores its entry. Throws what `Download.complete` throws. */
export function keep(
  wanted: WantedFile,
  { draft, download }: { readonly draft: EntryDraft; readonly download: Download },
  { store, log }: { readonly store: Store; readonly log: Logger },
): ContentOutcome {
  const { stored: storing } = download
  const completed = download.complete()
  const entry = finishedEntry(draft, completed, wanted.stored, verifiedBy(wanted))
  const put = storing && store.put(entry).stored
  const kept = completed.kept.then(kept => {
    if (!kept.stored && storing) log.warn('not stored', { key: wanted.key, because: kept.because })
    return kept.stored
  })
  return put ? { kind: 'stored', entry, kept } : { kind: 'passed', entry }
}

/** Time between two looks. apt comes back within seconds. */
const interval: Milliseconds = 30_000
/** What would take longer than this at the pace of the last interval is not waited for. */
const longest: Milliseconds = 15 * 60_000

/** Calls `abandon` once no client has read for a whole interval and the end is too far off, or not to be known. The answer ends it. */
export function watchAbandoned(
  download: Pick<Download, 'size' | 'length' | 'readers' | 'stored'>,
  clock: Clock,
  abandon: (reason: Failure) => void,
): () => void {
  let before = { size: download.size, readers: 1 }
  const look = (): void => {
    const { size, readers } = download
    if (readers === 0 && before.readers === 0 && !isWorthFinishing(download, size - before.size)) {
      abandon(fetchFailure('ABANDONED', {}))
      return
    }
    before = { size, readers }
    cancel = clock.after(interval, look)
  }
  let cancel = clock.after(interval, look)
  return () => cancel()
}

function isWorthFinishing(
  { size, length, stored }: Pick<Download, 'size' | 'length' | 'stored'>,
  gained: number,
): boolean {
  return stored && length !== undefined && length - size <= gained * (longest / interval)
}
