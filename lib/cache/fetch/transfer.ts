/**
 * Content from the origin into a download, across broken connections. A fill that breaks is continued from where it stopped:
 * by Range and If-Range when the origin gave a strong validator (start, total and validator are checked), or by starting over
 * and comparing what was already received by its digest. Readers of the download notice neither.
 */
import { createHash } from 'node:crypto'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { iterate, sourceOf } from '../../bytes/source.ts'
import { Failure } from '../../errors.ts'
import type { OriginResponse } from '../../http/client/client.ts'
import { formatDate } from '../../http/message/date.ts'
import { Fields } from '../../http/message/field.ts'
import { parseContentRange } from '../../http/message/range.ts'
import {
  formatEntityTag,
  isLastModifiedStrong,
  strongMatch,
  type Validators,
  validatorsOf,
} from '../../http/message/validator.ts'
import type { Download } from '../store/content/download.ts'

export interface FillOptions {
  readonly clock: Clock
  /** Asks the origin for the same target again with these additional fields. */
  readonly again: (more: Fields) => Promise<OriginResponse>
  readonly validators: Validators
  readonly signal: AbortSignal
  /** Told of every continuation, for the log. */
  readonly onResume: (received: number, error: unknown) => void
}

/** Tries in a row that brought no new byte before the fill is given up. */
const maxFruitless = 3
const firstPause: Milliseconds = 200

/** Pumps until the content is whole. Throws what broke it for good; the download is then the caller's to discard. */
export async function fill(
  first: OriginResponse,
  download: Download,
  options: FillOptions,
): Promise<void> {
  let response = first
  let fruitless = 0
  for (;;) {
    const before = download.size
    try {
      for await (const block of iterate(response.content)) await download.append(block)
      return
    } catch (error) {
      fruitless = download.size > before ? 0 : fruitless + 1
      if (options.signal.aborted || !mayResume(error) || fruitless >= maxFruitless) throw error
      options.onResume(download.size, error)
      response = await continuation(download, first.length, fruitless, options)
    }
  }
}

/** Only the origin's side can be asked again; a refusing disk or a shutdown cannot. */
function mayResume(error: unknown): boolean {
  return error instanceof Failure && error.fault === 'upstream'
}

async function continuation(
  download: Download,
  total: number | undefined,
  fruitless: number,
  options: FillOptions,
): Promise<OriginResponse> {
  let pause = firstPause * 2 ** fruitless
  for (let attempt = 1; ; attempt += 1) {
    await sleep(pause, options)
    try {
      return await askForRest(download, total, options)
    } catch (error) {
      if (options.signal.aborted || !mayResume(error) || attempt >= maxFruitless) throw error
      if (error instanceof ContentChanged) throw error
      pause *= 2
    }
  }
}

async function askForRest(
  download: Download,
  total: number | undefined,
  options: FillOptions,
): Promise<OriginResponse> {
  const validator = ifRange(options.validators)
  const conditional =
    validator === undefined || download.size === 0
      ? Fields.empty
      : Fields.of(['Range', `bytes=${download.size}-`], ['If-Range', validator])
  const response = await options.again(conditional)
  try {
    if (response.status === 206) return checkPart(response, download, total, options)
    if (response.status === 200) return await skipPrefix(response, download, total, options)
    throw new ContentChanged(`the origin answered ${response.status} when asked for the rest`)
  } catch (error) {
    response.content.close()
    throw error
  }
}

/** RFC 9110 section 14.4: the part must begin where we stopped, belong to the same whole and to the same representation. */
function checkPart(
  response: OriginResponse,
  download: Download,
  total: number | undefined,
  options: FillOptions,
): OriginResponse {
  const part = parseContentRange(response.fields.get('Content-Range') ?? '')
  if (part?.kind !== 'range' || part.range.first !== download.size) {
    throw new ContentChanged('the part the origin sent does not begin where the content broke off')
  }
  if (total !== undefined && part.size !== undefined && part.size !== total) {
    throw new ContentChanged('the part the origin sent belongs to content of another length')
  }
  const size = total ?? part.size
  if (size === undefined || part.range.last !== size - 1) {
    throw new ContentChanged('the part the origin sent does not reach the end')
  }
  const { clock, validators } = options
  if (contradict(validators, validatorsOf(response.fields, clock.now()))) {
    throw new ContentChanged('the part the origin sent belongs to another representation')
  }
  return response
}

/** The validator to resume with, as If-Range takes it: strong or none (RFC 9110 section 13.1.5). */
function ifRange(validators: Validators): string | undefined {
  const { etag, lastModified } = validators
  if (etag !== undefined && !etag.weak) return formatEntityTag(etag)
  if (lastModified !== undefined && isLastModifiedStrong(validators))
    return formatDate(lastModified)
  return undefined
}

/** Whether two sets of validators cannot be of one representation. */
function contradict(a: Validators, b: Validators): boolean {
  if (a.etag !== undefined && b.etag !== undefined && !strongMatch(a.etag, b.etag)) return true
  const dates = [a.lastModified, b.lastModified].filter(date => date !== undefined)
  return dates.length === 2 && dates[0] !== dates[1]
}

/**
 * Whether a second 200 is another file, however alike they begin. Servers of one archive often make ETags of their own for the
 * same file, so the date decides where there is one.
 */
function replaced(before: Validators, now: Validators): boolean {
  if (before.lastModified !== undefined || now.lastModified !== undefined) {
    return before.lastModified !== now.lastModified
  }
  return contradict(before, now)
}

/** The whole again: what we have must be its beginning, byte for byte. */
async function skipPrefix(
  response: OriginResponse,
  download: Download,
  total: number | undefined,
  options: FillOptions,
): Promise<OriginResponse> {
  if (replaced(options.validators, validatorsOf(response.fields, options.clock.now()))) {
    throw new ContentChanged('the file was replaced')
  }
  if (total !== undefined && response.length !== undefined && response.length !== total) {
    throw new ContentChanged('the content has another length now')
  }
  const wanted = download.size
  if (wanted === 0) return response
  const prefix = createHash('sha256')
  const iterator = iterate(response.content)
  let seen = 0
  let rest: Buffer | undefined
  while (seen < wanted) {
    const next = await iterator.next()
    if (next.done) throw new ContentChanged('the content is shorter now')
    const use = Math.min(next.value.length, wanted - seen)
    prefix.update(next.value.subarray(0, use))
    seen += use
    if (use < next.value.length) rest = Buffer.from(next.value.subarray(use))
  }
  if (prefix.digest('hex') !== download.digestSoFar()) {
    throw new ContentChanged('the content begins differently now')
  }
  return { ...response, content: sourceOf(() => chain(rest, iterator)) }
}

async function* chain(
  first: Buffer | undefined,
  iterator: AsyncIterator<Buffer>,
): AsyncGenerator<Buffer> {
  try {
    if (first !== undefined) yield first
    for (;;) {
      const next = await iterator.next()
      if (next.done) return
      yield next.value
    }
  } finally {
    await iterator.return?.()
  }
}

function sleep(delay: Milliseconds, options: FillOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      cancel()
      reject(new Error('stopped while waiting to resume'))
    }
    const cancel = options.clock.after(delay, () => {
      options.signal.removeEventListener('abort', abort)
      resolve()
    })
    options.signal.addEventListener('abort', abort, { once: true })
  })
}

/** The origin has other content now: what was received cannot be completed. */
export class ContentChanged extends Failure {
  constructor(message: string) {
    super(message, {
      code: 'ORIGIN_CONTENT_CHANGED',
      fault: 'upstream',
      publicText: 'The origin changed the file while it was being fetched.',
    })
  }
}
