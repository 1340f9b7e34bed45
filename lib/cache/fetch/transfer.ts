/**
 * Content from an origin into a download, as fast as the download takes it, across broken connections. Readers of the download
 * do not notice a break: it is continued from where it stopped.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { Source, Take } from '../../bytes/source.ts'
import { Failure } from '../../errors.ts'
import type { OriginResponse } from '../../http/client/client.ts'
import { Fields } from '../../http/message/field.ts'
import type { Download } from '../store/content/download.ts'
import {
  type Begun,
  ContentChanged,
  checkRest,
  checkWhole,
  restFields,
  restOf,
} from './continuation.ts'

export interface TransferOptions {
  readonly clock: Clock
  readonly signal: AbortSignal
  /** The file as its first response described it. */
  readonly file: Omit<Begun, 'size'>
  /** Asks the origin for the same target again with these additional fields. */
  readonly again: (more: Fields) => Promise<OriginResponse>
  /** Told of every continuation, for the log. */
  readonly onResume: (received: number, error: unknown) => void
}

/** Tries in a row that brought no new byte before the transfer is given up. */
const mostFruitless = 3
const firstPause: Milliseconds = 200

/**
 * Settles when the content is whole in the download, which is then the caller's to complete. Rejects with what broke the
 * transfer for good; the download is then the caller's to discard.
 */
export async function transfer(
  first: Source,
  download: Download,
  options: TransferOptions,
): Promise<void> {
  let content = first
  let fruitless = 0
  for (;;) {
    const before = download.size
    try {
      await pour(content, download, options.signal)
      return
    } catch (error) {
      content.close()
      fruitless = download.size > before ? 0 : fruitless + 1
      if (options.signal.aborted || !mayResume(error) || fruitless >= mostFruitless) throw error
      options.onResume(download.size, error)
      content = await rest(download, fruitless, options)
    }
  }
}

/** Gives the download every piece of a source. Rejects with what either breaks off with, and when the signal fires. */
function pour(source: Source, download: Download, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    let over = false
    const end = (error: unknown): void => {
      if (over) return
      over = true
      signal.removeEventListener('abort', stop)
      if (error === undefined) resolve()
      else reject(error)
    }
    const stop = (): void => end(signal.reason)
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
    if (signal.aborted) return stop()
    signal.addEventListener('abort', stop)
    pull()
  })
}

/** Only the origin's side can be asked again; a refusing disk or a shutdown cannot. Content that is too long stays so. */
function mayResume(error: unknown): boolean {
  return (
    error instanceof Failure &&
    error.fault === 'upstream' &&
    error.code !== 'wrong-size' &&
    !(error instanceof ContentChanged)
  )
}

async function rest(
  download: Download,
  fruitless: number,
  options: TransferOptions,
): Promise<Source> {
  let pause = firstPause * 2 ** fruitless
  for (let attempt = 1; ; attempt += 1) {
    await sleep(pause, options)
    try {
      return await askForRest(download, options)
    } catch (error) {
      if (options.signal.aborted || !mayResume(error) || attempt >= mostFruitless) throw error
      pause *= 2
    }
  }
}

async function askForRest(
  download: Download,
  { file, clock, again }: TransferOptions,
): Promise<Source> {
  const { size } = download
  const begun = { ...file, size }
  const response = await again(restFields(begun) ?? Fields.empty)
  const { status, content } = response
  try {
    if (status === 206) {
      checkRest(begun, response.fields, clock.now())
      return content
    }
    if (status !== 200) {
      throw new ContentChanged(`the origin answered ${status} when asked for the rest`)
    }
    checkWhole(begun, response, clock.now())
    return size === 0 ? content : await restOf(content, { size, sha256: download.digestSoFar() })
  } catch (error) {
    content.close()
    throw error
  }
}

function sleep(delay: Milliseconds, { clock, signal }: TransferOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      cancel()
      reject(new Error('stopped while waiting to resume'))
    }
    const cancel = clock.after(delay, () => {
      signal.removeEventListener('abort', abort)
      resolve()
    })
    signal.addEventListener('abort', abort, { once: true })
  })
}
