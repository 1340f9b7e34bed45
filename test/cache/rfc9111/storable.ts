import t from 'tap'
import { type Candidate, fieldsToStore, storable } from '../../../lib/cache/rfc9111/storable.ts'
import { requestDirectives } from '../../../lib/http/message/cache-control.ts'
import { Fields } from '../../../lib/http/message/field.ts'

const asked = (value?: string) => requestDirectives(Fields.of(['Cache-Control', value]))
const answered = (name: string, value: string) => Fields.of([name, value])

function judge(change: Partial<Candidate>): string {
  const verdict = storable({
    method: 'GET',
    request: Fields.of(['Accept', '*/*']),
    directives: asked(),
    passthrough: false,
    status: 200,
    response: Fields.of(['Content-Length', '5']),
    ...change,
  })
  return verdict.store ? 'store' : verdict.because
}

t.test('a plain 200 to a plain GET is stored', async t => {
  t.equal(judge({}), 'store')
  t.equal(judge({ response: Fields.empty }), 'store', 'without a single field')
})

t.test('the request’s side', async t => {
  for (const [change, outcome] of [
    [{ method: 'HEAD' }, 'method'],
    [{ method: 'POST' }, 'method'],
    [{ method: 'get' }, 'method'],
    [{ request: Fields.of(['Authorization', 'Basic eA==']) }, 'authorization'],
    [{ request: Fields.of(['authorization', '']) }, 'authorization'],
    [{ request: Fields.of(['Range', 'bytes=5-']) }, 'range'],
    [{ request: Fields.of(['If-None-Match', '"a"']) }, 'store'],
    [{ directives: asked('no-store') }, 'request-no-store'],
    [{ directives: asked('no-cache') }, 'store'],
    [{ directives: asked('max-age=0') }, 'store'],
    [{ passthrough: true }, 'passthrough'],
  ] as const) {
    t.equal(judge(change), outcome, JSON.stringify(change))
  }
})

t.test(
  'Authorization is never stored, whatever the origin allows (RFC 9111 section 3.5)',
  async t => {
    for (const value of ['public', 's-maxage=60', 'must-revalidate']) {
      const change = {
        request: Fields.of(['Authorization', 'Basic eA==']),
        response: answered('Cache-Control', value),
      }
      t.equal(judge(change), 'authorization', value)
    }
  },
)

t.test('only 200 is stored', async t => {
  const statuses = [100, 201, 203, 204, 206, 300, 301, 302, 304, 307, 308, 401, 403, 404, 410, 416]
  for (const status of [...statuses, 429, 500, 502, 503, 504]) {
    t.equal(judge({ status }), 'status', String(status))
  }
  t.equal(judge({ response: answered('Content-Range', 'bytes 0-4/10') }), 'partial')
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
    t.equal(judge({ response: answered('Cache-Control', value) }), outcome, value)
  }
  t.equal(judge({ response: answered('Pragma', 'no-cache') }), 'store', 'Pragma means nothing here')
  t.equal(judge({ response: answered('Expires', '0') }), 'store', 'stored, and stale')
})

t.test('only Vary: * stands in the way', async t => {
  for (const [value, outcome] of [
    ['*', 'vary'],
    ['Accept-Encoding, *', 'vary'],
    ['Accept-Encoding', 'store'],
    ['Accept, User-Agent, Cookie, Accept-Language', 'store'],
    ['', 'store'],
  ] as const) {
    t.equal(judge({ response: answered('Vary', value) }), outcome, value)
  }
  const twice = Fields.of(['Vary', 'Accept'], ['Vary', '*'])
  t.equal(judge({ response: twice }), 'vary')
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
  t.equal(judge({ response }), 'store')
  t.strictSame(
    [...fieldsToStore(response)].map(([name]) => name),
    ['Date', 'Content-Type', 'Last-Modified', 'Cache-Control'],
  )
})

t.test('when much is wrong, the request’s side is named', async t => {
  const everything = {
    passthrough: true,
    method: 'HEAD',
    status: 500,
    response: answered('Vary', '*'),
  }
  t.equal(judge(everything), 'passthrough')
  t.equal(judge({ ...everything, passthrough: false }), 'method')
})
