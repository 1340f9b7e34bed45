/**
 * What a fetcher keeps of clients' wishes has an end.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { Piece } from '../../../lib/bytes/piece.ts'
import type { Source } from '../../../lib/bytes/source.ts'
import { classify } from '../../../lib/cache/archive/path.ts'
import { Fetcher, type FetcherOptions } from '../../../lib/cache/fetch/fetch.ts'
import type { Answer } from '../../../lib/cache/fetch/mirrors.ts'
import { UnconfirmedOrigins } from '../../../lib/cache/fetch/unconfirmed-origins.ts'
import type { Entry } from '../../../lib/cache/store/entry.ts'
import { openStore } from '../../../lib/cache/store/store.ts'
import type { Claim, Generation } from '../../../lib/cache/suites/generation.ts'
import type { OriginResponse } from '../../../lib/http/client/client.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import { formatUri, type TargetUri } from '../../../lib/http/message/target.ts'
import { silentLog } from '../../../lib/log/log.ts'
import { hexOf } from '../../fixtures/archive/tiny-archive.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

async function fetcherForTest(
  t: { teardown(act: () => unknown): void },
  ask?: FetcherOptions['ask'],
) {
  const directory = await mkdtemp(join(tmpdir(), 'cachesvc-'))
  const clock = new ManualClock(0)
  const store = await openStore({ directory, clock, log: silentLog, memory: 0 })
  const fetcher = new Fetcher({
    store,
    clock,
    log: silentLog,
    // An origin that says nothing, ever.
    ask: ask ?? (({ lifetime }) => new Promise((_, reject) => lifetime.onceOver(reject))),
    onBroken: () => undefined,
    onFetched: () => undefined,
    onNotStored: () => undefined,
    storesAll: () => false,
    goneAfter: () => 0,
    releases: { noteGone: () => undefined, noteThere: () => undefined },
    onImpostor: () => undefined,
    onWrong: () => undefined,
    unconfirmed: new UnconfirmedOrigins({ clock, log: silentLog }),
  })
  t.teardown(async () => {
    await fetcher.close(AbortSignal.abort())
    await store.close()
    await rm(directory, { recursive: true, force: true })
  })
  return Object.assign(fetcher, { store, clock })
}

function hostNamed(host: string): TargetUri {
  return { scheme: 'http', host, port: 80, path: '/file' }
}

/** The answer of an origin with this content. */
function answerOf(place: TargetUri, fields: Fields, text: string): Answer {
  const pieces = [new Piece(Buffer.from(text))]
  const content: Source = { next: take => take(undefined, pieces.shift()), close() {} }
  const response: OriginResponse = {
    ...{ status: 200, reason: 'OK', version: '1.1', fields, length: text.length, content },
    ...{ address: '192.0.2.1', reused: false, trailers: undefined, parent: undefined },
  }
  return { response, place, source: place, others: false, certain: true }
}

function wanted(uri: TargetUri) {
  const archive = classify(uri.path)
  return { key: formatUri(uri), uri, archive, stored: undefined, insist: false }
}

t.test('so many fetches are under way at once; the next is told to come again', async t => {
  const fetcher = await fetcherForTest(t)
  for (let n = 0; n < 4096; n += 1) fetcher.fetch(wanted(hostNamed(`${n}.example.org`)))
  const { found, joined } = fetcher.fetch(wanted(hostNamed('one-more.example.org')))
  t.notOk(joined)
  t.match(await found, {
    kind: 'failed',
    failure: { code: 'TOO_MANY_FETCHES', fault: 'upstream' },
  })
  t.ok(fetcher.fetch(wanted(hostNamed('7.example.org'))).joined, 'joining is still possible')
  t.equal(fetcher.count, 4096)
})

t.test('slow origins are remembered, but not every name that was ever slow', async t => {
  const fetcher = await fetcherForTest(t)
  const first = hostNamed('0.example.org')
  fetcher.noteSlow(first)
  t.ok(fetcher.isSlow(first))
  const last = hostNamed('2000.example.org')
  for (let n = 1; n <= 2000; n += 1) fetcher.noteSlow(hostNamed(`${n}.example.org`))
  t.ok(fetcher.isSlow(last))
  t.notOk(fetcher.isSlow(first))
})

t.test('what is fetched because it was not there need not be looked for meanwhile', async t => {
  const fetcher = await fetcherForTest(t)
  const absent = wanted(hostNamed('absent.example.org'))
  t.notOk(fetcher.isFetchedAnew(absent.key))
  fetcher.fetch(absent)
  t.ok(fetcher.isFetchedAnew(absent.key))
  const stored = wanted(hostNamed('stored.example.org'))
  const entry: Entry = {
    key: stored.key,
    size: 1,
    digest: '0'.repeat(64),
    fields: [],
    lastModified: 'Sat, 21 Nov 2026 00:00:00 GMT',
    stored: 0,
    validated: 0,
    initialAge: 0,
  }
  fetcher.fetch({ ...stored, stored: entry })
  t.ok(fetcher.isFetching(stored.key))
  t.notOk(fetcher.isFetchedAnew(stored.key), 'a revalidation is not told apart by its key')
})

t.test('no two contents share a date, also after content that was wrong', async t => {
  const said = Fields.of(['Last-Modified', 'Wed, 01 Jan 2025 00:00:00 GMT'])
  let sent = ''
  const fetcher = await fetcherForTest(t, async ({ uri }) => answerOf(uri, said, sent))
  const { store, clock } = fetcher
  const uri = { ...hostNamed('archive.example.org'), path: '/dists/s/main/binary-all/Packages.gz' }
  const key = formatUri(uri)
  const dates: string[] = []
  for (const [content, promised] of [
    ['version 0', 'version 1'],
    ['version 1', 'version 1'],
    ['version 2', 'version 2'],
    ['version 3', 'version 3'],
  ] as const) {
    sent = content
    const claim = { size: sent.length, digest: hexOf('sha256', promised), suite: 'a suite' }
    const found = await fetcher.fetch({ ...wanted(uri), claim, stored: store.peek(key) }).found
    if (found.kind !== 'filling') throw new Error(found.kind)
    const settled = await found.filling.settled
    t.equal(settled.kind, content === promised ? 'stored' : 'failed')
    dates.push(found.filling.draft.lastModified)
    clock.advance(5000)
  }
  t.equal(new Set(dates).size, 4, dates.join())
})

t.test('what cannot be stored lets the connection of its origin go', async t => {
  let closed = false
  const content: Source = {
    next: take => take(undefined, new Piece(Buffer.from('!<arch>\n'))),
    close: () => {
      closed = true
    },
  }
  const response: OriginResponse = {
    ...{ status: 200, reason: 'OK', version: '1.1', fields: Fields.empty, length: 1000 },
    ...{ content, address: '192.0.2.1', reused: false, trailers: undefined, parent: undefined },
  }
  const place = hostNamed('archive.example.org')
  const answer = { response, place, source: place, others: false, certain: true }
  const fetcher = await fetcherForTest(t, async () => answer)
  fetcher.store.download = () => {
    throw new Error('the store takes nothing')
  }
  t.match(await fetcher.fetch(wanted(place)).found, { kind: 'failed' })
  t.ok(closed)
  closed = false
  fetcher.clock.set(Date.UTC(10_000, 0))
  t.match(await fetcher.fetch(wanted(place)).found, { kind: 'failed' }, 'no date can be made')
  t.ok(closed)
  t.equal(fetcher.count, 0)
})

t.test(
  'only the entry that was asked about goes when the origin says that it has gone',
  async t => {
    const uri = hostNamed('archive.example.org')
    const gone = { ...answerOf(uri, Fields.empty, ''), certain: true }
    let status = 200
    const fetcher = await fetcherForTest(t, async () => ({
      ...answerOf(uri, Fields.empty, 'text'),
      ...(status === 200 ? {} : { response: { ...gone.response, status } }),
    }))
    const first = await fetcher.fetch(wanted(uri)).found
    if (first.kind === 'filling') await first.filling.settled
    const key = formatUri(uri)
    status = 404
    t.match(await fetcher.fetch(wanted(uri)).found, { kind: 'answered', status: 404 })
    const stored = await fetcher.store.get(key)
    t.ok(stored, 'nothing was asked about it')
    t.match(await fetcher.fetch({ ...wanted(uri), stored }).found, {
      kind: 'answered',
      status: 404,
    })
    t.equal(await fetcher.store.get(key), undefined)
  },
)

/** All that a source gives until it ends or fails. */
async function drained(source: Source): Promise<{ readonly text: string; readonly error?: Error }> {
  let text = ''
  for (;;) {
    const [error, piece] = await new Promise<Parameters<Parameters<Source['next']>[0]>>(resolve =>
      source.next((...given) => resolve(given)),
    )
    if (piece === undefined) return { text, ...(error && { error }) }
    text += piece.bytes.toString()
    piece.release()
  }
}

/** The next bytes of a source. */
function next(source: Source): Promise<string> {
  return new Promise((resolve, reject) =>
    source.next((error, piece) => {
      if (piece === undefined) return reject(error ?? new Error('it has ended'))
      resolve(piece.bytes.toString())
      piece.release()
    }),
  )
}

t.test('content streams while the index that names it is being read', async t => {
  const text = 'of a package '.repeat(10_000)
  const right = { size: text.length, digest: hexOf('sha256', text) }
  const generation: Generation = {
    release: { name: 'InRelease', ...right },
    ...{ byHash: false, signature: { is: 'unsigned' }, adopted: 0, indexes: [], contents: [] },
  }
  const suite = { suite: 'http://archive.example.org/dists/stable', generation }
  const cases: ReadonlyArray<readonly [name: string, claim: Claim | undefined, good: boolean]> = [
    ['the right one', { ...right, ...suite }, true],
    ['no index names it', undefined, true],
    ['another digest', { ...right, digest: hexOf('sha256', 'other'), ...suite }, false],
    ['a shorter file', { ...right, size: 10, ...suite }, false],
    ['a longer file', { ...right, size: text.length + 1, ...suite }, false],
  ]
  for (const length of [text.length, undefined]) {
    const fetcher = await fetcherForTest(t, async ({ uri }) => {
      const answer = answerOf(uri, Fields.empty, text)
      return { ...answer, response: { ...answer.response, length } }
    })
    for (const [n, [name, claim, good]] of cases.entries()) {
      const what = `${name}, ${length === undefined ? 'of unknown length' : 'of known length'}`
      let say: (found: Claim | undefined) => void = () => undefined
      const awaited = new Promise<Claim | undefined>(resolve => {
        say = resolve
      })
      const asked = { ...wanted(hostNamed(`${n}.example.org`)), awaited }
      const found = await fetcher.fetch(asked).found
      if (found.kind !== 'filling') throw new Error(found.kind)
      const source = found.filling.download.open(0)
      const first = await next(source)
      t.equal(first.length, text.length - 64 * 1024, `${what}: all but the last block`)
      const joined = fetcher.fetch({ ...asked, awaited: undefined, claim }).found
      say(claim)
      const { text: rest, error } = await drained(source)
      t.equal(first + rest === text, good, what)
      t.equal(error === undefined, good, what)
      t.equal((await found.filling.settled).kind, good ? 'stored' : 'failed')
      if (good) t.match(await joined, { kind: 'filling' }, 'one that knows the claim joins')
      const entry = await fetcher.store.get(asked.key)
      t.equal(entry?.digest, good ? right.digest : undefined)
      t.equal(entry?.verified?.by, claim && good ? 'index' : undefined)
    }
  }
})
