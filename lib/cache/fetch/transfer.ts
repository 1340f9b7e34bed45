/**
 * Moves content from an origin into a download, across broken connections, as fast as the download takes it. Readers of the
 * download do not notice a break: it is continued from where it stopped. Stores whole content, and gives up what no client waits for.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { pause } from '../../async/deadline.ts'
import type { Lifetime } from '../../async/lifetime.ts'
import type { Source, Take } from '../../bytes/source.ts'
import { Failure } from '../../errors.ts'
import { Fields } from '../../http/message/field.ts'
import type { TargetUri } from '../../http/message/target.ts'
import type { Logger } from '../../log/log.ts'
import type { NearPlace } from '../rfc9111/outcome.ts'
import { type EntryDraft, finishedEntry } from '../rfc9111/stored-response.ts'
import type { Download } from '../store/content/download.ts'
import type { Store } from '../store/store.ts'
import {
  type BegunContent,
  ContentChanged,
  checkRest,
  checkWhole,
  restFields,
  restOf,
} from './continuation.ts'
import { fetchFailure, isUpstream } from './failures.ts'
import { type ContentOutcome, verifiedBy, type WantedFile } from './found.ts'
import { type Answer, originName, type Question } from './origin-question.ts'

interface TransferOptions {
  readonly clock: Clock
  readonly lifetime: Lifetime
  /** Whether the archive promises a digest of the file. */
  readonly promised: boolean
  /** Asks the origins of the same target again, each with the fields `more` gives for it. */
  readonly again: (
    question: Pick<Question, 'except'> & { readonly more: (place: TargetUri) => Fields },
  ) => Promise<Answer>
  readonly onBroken: (place: TargetUri) => void
  /** Called for what has come of one connection, with its bytes, and with the place where it came from no origin. */
  readonly onReceived: (bytes: number, near: NearPlace | undefined) => void
  /** Called for each continuation, for the log. */
  readonly onResume: (received: number, error: unknown) => void
}

interface Search {
  /** Origins that have another file by this name, by `originName`. */
  readonly unfit: Set<string>
  /** A redirect led to another server: no part is taken, the whole is compared. */
  wholeOnly: boolean
  /** Connections in a row that brought no new byte. */
  fruitless: number
}

/** Tries in a row that brought no new byte before the transfer is given up. */
const mostFruitless = 3
const firstPause: Milliseconds = 200

/**
 * Settles with the place the end came from when the content is whole in the download, which the caller then completes. Rejects
 * with what broke the transfer for good; the caller then discards the download.
 */
export async function transfer(begun: BegunContent, options: TransferOptions): Promise<TargetUri> {
  const { download } = begun
  let { content } = begun
  let { place, near } = begun.from
  const search: Search = { unfit: new Set(), wholeOnly: false, fruitless: 0 }
  for (;;) {
    const before = download.size
    try {
      await pour(content, download, options.lifetime)
      options.onReceived(download.size - before, near)
      return place
    } catch (error) {
      content.close()
      options.onReceived(download.size - before, near)
      search.fruitless = download.size > before ? 0 : search.fruitless + 1
      if (options.lifetime.over || !isUpstream(error)) throw error
      if (near === undefined) options.onBroken(place)
      if (isFinal(error) || search.fruitless >= mostFruitless) throw error
      options.onResume(download.size, error)
      const found = await rest(begun, search, options)
      content = found.content
      place = found.place
      near = found.near
    }
  }
}

/** Gives the download every piece of a source. Rejects with what either breaks off with, and at the end of the lifetime. */
function pour(source: Source, download: Download, lifetime: Lifetime): Promise<void> {
  return new Promise((resolve, reject) => {
    let over = false
    const end = (error: unknown): void => {
      if (over) return
      over = true
      lifetime.forget(end)
      if (error === undefined) resolve()
      else reject(error)
    }
    // A loop in place of a recursion: pieces that are there already are taken at once.
    let pulling = false
    let wanted = false
    const pull = (): void => {
      wanted = true
      if (pulling) return
      pulling = true
      while (wanted && !over) {
        wanted = false
        source.next(take)
      }
      pulling = false
    }
    const take: Take = (error, piece) => {
      if (over) return piece?.release()
      if (piece === undefined) return end(error)
      try {
        if (download.take(piece)) pull()
        else download.whenReady(pull)
      } catch (failure) {
        end(failure)
      }
    }
    lifetime.onceOver(end)
    pull()
  })
}

/** Content that is too long, or another one, stays so. */
function isFinal(error: unknown): boolean {
  return (
    error instanceof ContentChanged || (error instanceof Failure && error.code === 'wrong-size')
  )
}

type Rest = Pick<BegunContent, 'content'> & Pick<Answer, 'place' | 'near'>

async function rest(begun: BegunContent, search: Search, options: TransferOptions): Promise<Rest> {
  let delay = firstPause * 2 ** search.fruitless
  for (let attempt = 1; ; ) {
    await pause(options.clock, delay, options.lifetime.signal)
    if (options.lifetime.over) throw options.lifetime.reason
    try {
      const found = await askForRest(begun, search, options)
      if (found !== undefined) return found
    } catch (error) {
      if (options.lifetime.over || !isUpstream(error)) throw error
      if (isFinal(error) || attempt >= mostFruitless) throw error
      attempt += 1
      delay *= 2
    }
  }
}

/**
 * The rest, or undefined when another question may find it: each origin of an archive makes validators of its own, so a part of
 * another one is taken only where a digest is promised. Otherwise the whole is asked for, and its beginning compared. A beginning that came
 * from no origin has the validators of none: where a digest is promised, that alone decides.
 */
async function askForRest(
  { draft, download, length, from }: BegunContent,
  search: Search,
  { promised, clock, again }: TransferOptions,
): Promise<Rest | undefined> {
  const { size } = download
  const digestAlone = promised && from.near !== undefined
  const fields = digestAlone ? Fields.empty : Fields.of(...draft.fields)
  const beginning = { size, length, fields, promised, received: draft.stored }
  const range = Fields.of(['Range', size === 0 ? undefined : `bytes=${size}-`])
  const part = (digestAlone ? range : restFields(beginning)) ?? Fields.empty
  const isFirst = (place: TargetUri): boolean => originName(place) === originName(from.place)
  const { response, place, source, near } = await again({
    except: search.unfit,
    more: to => (promised || (isFirst(to) && !search.wholeOnly) ? part : Fields.empty),
  })
  const { status, content } = response
  try {
    if (status === 206) {
      if (!promised && !isSamePlace(source, from.source)) {
        if (search.wholeOnly) throw new ContentChanged('another server sent a part')
        search.wholeOnly = true
        content.close()
        return undefined
      }
      checkRest(beginning, response.fields, clock.now())
      return { content, place, near }
    }
    if (mayPass(status)) throw fetchFailure('ORIGIN_REFUSES_REST', { status })
    if (status !== 200) {
      throw new ContentChanged(`the origin answered ${status} when asked for the rest`)
    }
    if (!digestAlone) checkWhole(beginning, response, clock.now())
    if (size === 0) return { content, place, near }
    const rest = await restOf(content, { size, sha256: download.digestSoFar() })
    return { content: rest, place, near }
  } catch (error) {
    content.close()
    if (!(error instanceof ContentChanged) || isFirst(place)) throw error
    search.unfit.add(originName(place))
    return undefined
  }
}

/** Queries may carry signatures of their own each time. */
function isSamePlace(a: TargetUri, b: TargetUri): boolean {
  return originName(a) === originName(b) && a.path === b.path
}

/** Whether an origin that answers this now may have the file again soon. */
function mayPass(status: number): boolean {
  return status >= 500 || status === 408 || status === 429
}

/**
 * Completes a download whose content is whole, and stores its entry. Throws what `Download.complete` throws.
 */
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

/**
 * Calls `abandon` once no client has read for a whole interval and the end is too far off, or not to be known. The answer ends it.
 * Most downloads without clients are worth finishing, for apt comes back; an origin that sends a few bytes at a time, or without
 * end, would keep a connection and fill the disk for no client.
 */
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
