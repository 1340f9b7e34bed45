import t from 'tap'
import {
  draftEntry,
  type EntryDraft,
  keptFields,
  unstorableReason,
} from '../../../lib/cache/rfc9111/stored-response.ts'
import { Fields } from '../../../lib/http/message/field.ts'

/** What becomes of a 200 with this field. */
function judge(name: string, value: string): string {
  return unstorableReason(Fields.of([name, value])) ?? 'store'
}

t.test('a 200 is stored, with fields or without, but not a part of one', async t => {
  t.equal(unstorableReason(Fields.empty), undefined)
  t.equal(judge('Content-Length', '5'), 'store')
  t.equal(judge('Content-Range', 'bytes 0-4/10'), 'partial')
})

t.test('what the origin’s Cache-Control allows', async t => {
  for (const [value, outcome] of [
    ['no-store', 'no-store'],
    ['NO-STORE, max-age=60', 'no-store'],
    ['no-store, must-understand', 'store'],
    ['private', 'private'],
    ['private="X-User"', 'store'],
    ['private="X-User", private', 'private'],
    ['private=', 'private'],
    ['no-cache', 'store'],
    ['no-cache="X-User"', 'store'],
    ['max-age=0', 'store'],
    ['must-revalidate', 'store'],
    ['public, max-age=60', 'store'],
    ['x="no-store"', 'store'],
  ] as const) {
    t.equal(judge('Cache-Control', value), outcome, value)
  }
  t.equal(judge('Pragma', 'no-cache'), 'store', 'Pragma means nothing here')
  t.equal(judge('Expires', '0'), 'store', 'stored, and stale')
})

t.test('only Vary: * stands in the way', async t => {
  for (const [value, outcome] of [
    ['*', 'vary'],
    ['Accept-Encoding, *', 'vary'],
    ['Accept-Encoding', 'store'],
    ['Accept, User-Agent, Cookie, Accept-Language', 'store'],
    ['', 'store'],
  ] as const) {
    t.equal(judge('Vary', value), outcome, value)
  }
  const twice = Fields.of(['Vary', 'Accept'], ['Vary', '*'])
  t.equal(unstorableReason(twice), 'vary')
})

t.test('cookies do not stop storing, they are left out', async t => {
  const response = Fields.of(
    ['Date', 'Wed, 01 Jan 2025 00:00:00 GMT'],
    ['Content-Type', 'application/x-xz'],
    ['Content-Length', '5'],
    ['Transfer-Encoding', 'chunked'],
    ['Connection', 'keep-alive, X-Hop'],
    ['X-Hop', '1'],
    ['Keep-Alive', 'timeout=5'],
    ['Age', '17'],
    ['Set-Cookie', 'a=1'],
    ['set-cookie', 'b=2'],
    ['X-User', 'bob'],
    ['X-Once', '1'],
    ['Last-Modified', 'Wed, 01 Jan 2025 00:00:00 GMT'],
    ['Cache-Control', 'private="X-User", no-cache="x-once", max-age=5'],
  )
  t.equal(unstorableReason(response), undefined)
  t.strictSame(
    [...keptFields(response)].map(([name]) => name),
    ['Date', 'Content-Type', 'Last-Modified', 'Cache-Control'],
  )
})

t.test('two contents never share a date, also at the end of all dates', async t => {
  const received = Date.UTC(2025, 0, 1)
  for (const date of [
    undefined,
    'Tue, 31 Dec 2024 00:00:00 GMT',
    'Thu, 31 Dec 2026 00:00:00 GMT',
    'Fri, 31 Dec 9999 23:59:59 GMT',
  ]) {
    const fields = Fields.of(['Last-Modified', date])
    const dates = new Set<string>()
    let previous: EntryDraft | undefined
    for (let n = 0; n < 3; n += 1) {
      previous = draftEntry('key', fields, { requested: received, received }, previous)
      dates.add(previous.lastModified)
    }
    t.equal(dates.size, 3, [...dates].join())
  }
})
