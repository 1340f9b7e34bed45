import t from 'tap'
import { type CacheStatus, formatCacheStatus } from '../../../lib/http/message/cache-status.ts'
import { hostilePieces, seeded } from '../../fixtures/chance/seeded-random.ts'

t.test('the examples of RFC 9211 section 3', t => {
  const table: ReadonlyArray<readonly [cache: string, status: CacheStatus, member: string]> = [
    ['ExampleCache', { hit: true, ttl: 376 }, 'ExampleCache; hit; ttl=376'],
    ['ExampleCache', { hit: false, forward: 'uri-miss' }, 'ExampleCache; fwd=uri-miss'],
    [
      'ExampleCache',
      { hit: false, forward: 'stale', forwardStatus: 304 },
      'ExampleCache; fwd=stale; fwd-status=304',
    ],
    ['ExampleCache', { hit: false, forward: 'bypass', stored: false }, 'ExampleCache; fwd=bypass'],
    [
      'ExampleCache',
      { hit: false, forward: 'uri-miss', collapsed: true, stored: true, ttl: 30 },
      'ExampleCache; fwd=uri-miss; ttl=30; stored; collapsed',
    ],
    ['ExampleCache', { hit: true, ttl: -412 }, 'ExampleCache; hit; ttl=-412'],
    ['ExampleCache', { hit: false }, 'ExampleCache'],
    [
      'a:3142/x',
      { hit: true, key: 'http://a/b?c', detail: 'stale-if-error' },
      'a:3142/x; hit; key="http://a/b?c"; detail=stale-if-error',
    ],
    [
      'two words',
      { hit: true, detail: 'because "so"\\' },
      '"two words"; hit; detail="because \\"so\\"\\\\"',
    ],
    ['1st', { hit: true, detail: '' }, '"1st"; hit; detail=""'],
  ]
  for (const [cache, status, member] of table) t.equal(formatCacheStatus(cache, status), member)
  t.end()
})

t.test('figures that are no integers of at most 15 digits are made so or left out', t => {
  t.equal(formatCacheStatus('c', { hit: true, ttl: 1.9 }), 'c; hit; ttl=1')
  t.equal(formatCacheStatus('c', { hit: true, ttl: -0.5 }), 'c; hit; ttl=0')
  t.equal(formatCacheStatus('c', { hit: true, ttl: 1e20 }), 'c; hit; ttl=999999999999999')
  t.equal(formatCacheStatus('c', { hit: true, ttl: -1e20 }), 'c; hit; ttl=-999999999999999')
  t.equal(formatCacheStatus('c', { hit: true, ttl: Number.NaN }), 'c; hit')
  t.equal(formatCacheStatus('c', { hit: true, ttl: Number.POSITIVE_INFINITY }), 'c; hit')
  t.end()
})

t.test('hostile text cannot end the member, grow it without bound or leave ASCII', t => {
  const chance = seeded(10)
  const string = '"(?:[\\x20\\x21\\x23-\\x5b\\x5d-\\x7e]|\\\\["\\\\])*"'
  const item = `(?:[A-Za-z*][-!#$%&'*+.^_\`|~0-9A-Za-z:/]*|${string})`
  const wanted = new RegExp(`^${item}; hit; key=${string}; detail=${item}$`)
  for (let i = 0; i < 3000; i += 1) {
    const text = () => chance.text(hostilePieces, 20)
    const member = formatCacheStatus(text(), { hit: true, key: text(), detail: text() })
    if (!wanted.test(member)) t.fail(JSON.stringify(member))
  }
  const long = formatCacheStatus('a'.repeat(5000), { hit: true, detail: '"'.repeat(5000) })
  t.ok(long.length < 800)
  t.end()
})
