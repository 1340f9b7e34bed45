import t from 'tap'
import { classify } from '../../../lib/cache/archive/path.ts'
import { type FileRequest, lookup } from '../../../lib/cache/rfc9111/lookup.ts'
import { type Entry, neverConfirmed } from '../../../lib/cache/store/entry.ts'
import { requestDirectives } from '../../../lib/http/message/cache-control.ts'
import { Fields } from '../../../lib/http/message/field.ts'

const T = Date.UTC(2025, 4, 20, 12)
const SECOND = 1000

const entry: Entry = {
  key: 'http://archive.example.org/x',
  fields: [],
  digest: '0'.repeat(64),
  size: 5,
  lastModified: 'Wed, 01 Jan 2025 00:00:00 GMT',
  stored: T,
  validated: T,
  initialAge: 0,
}

const INDEX = '/d/dists/sid/InRelease'
const BY_HASH = `/d/dists/sid/main/binary-amd64/by-hash/SHA256/${'0'.repeat(64)}`
const POOL = '/d/pool/main/a/apt/apt_2.6.1_amd64.deb'
const OTHER = '/key.asc'

type Told = 'claim' | 'authorization' | 'passthrough' | 'suites'

interface Case extends Partial<Pick<FileRequest, Told>> {
  readonly offline?: boolean
  /** Until when a 404 is remembered. */
  readonly negativeUntil?: number
  /** Cache-Control of the request. */
  readonly says?: string
  /** Seconds since the entry was validated; none stored when undefined. */
  readonly after?: number
  /** Cache-Control of the stored response. */
  readonly origin?: string
  /** When the stored response was validated; at T when not given. */
  readonly validated?: number
}

const freshness = { index: 60_000, other: 3_600_000, negative: 30_000, floor: 5_000 }

function ask(
  path: string,
  { says, after, origin, validated = T, offline = false, negativeUntil, ...rest }: Case = {},
): string {
  const modified = ['Last-Modified', 'Wed, 01 Jan 2020 00:00:00 GMT'] as const
  const fields = origin === undefined ? [modified] : [modified, ['Cache-Control', origin] as const]
  const decision = lookup({
    stored: after === undefined ? undefined : { ...entry, fields, validated },
    key: entry.key,
    archive: classify(path),
    directives: requestDirectives(Fields.of(['Cache-Control', says])),
    authorization: false,
    passthrough: false,
    config: { offline, freshness },
    negative: { get: () => negativeUntil },
    now: T + (after ?? 0) * SECOND,
    ...rest,
  })
  return `${decision.use} ${decision.because}`
}

t.test('nothing stored', async t => {
  for (const path of [INDEX, BY_HASH, POOL, OTHER]) {
    t.equal(ask(path), 'origin absent')
    t.equal(ask(path, { says: 'max-age=0' }), 'origin absent')
    t.equal(ask(path, { says: 'no-cache' }), 'origin absent')
    t.equal(ask(path, { says: 'no-store' }), 'origin no-store')
    t.equal(ask(path, { says: 'only-if-cached' }), 'fail only-if-cached')
    t.equal(ask(path, { authorization: true }), 'origin authorization')
    t.equal(ask(path, { passthrough: true }), 'origin passthrough')
  }
})

t.test('immutable names answer for ever; only no-cache asks the origin', async t => {
  for (const path of [BY_HASH, POOL]) {
    for (const after of [0, 1, 100_000_000, -100_000_000]) {
      const suites = { checkFrom: () => undefined, governs: () => true }
      const claim = { digest: entry.digest }
      const says = (value?: string) =>
        ask(path, { after, suites, claim, ...(value && { says: value }) })
      t.equal(says(), 'store immutable')
      t.equal(says('max-age=0'), 'store immutable', 'apt says so on by-hash')
      t.equal(says('max-age=5, min-fresh=1000'), 'store immutable')
      t.equal(says('no-store'), 'store immutable')
      t.equal(says('only-if-cached'), 'store immutable')
      t.equal(says('no-cache'), 'revalidate no-cache')
      t.equal(says('no-cache, no-store'), 'revalidate no-cache')
      t.equal(says('no-cache, only-if-cached'), 'fail only-if-cached')
    }
  }
})

t.test('a version in a name that no index confirms answers for an hour', async t => {
  const suites = { checkFrom: () => undefined, governs: () => true }
  for (const says of [undefined, 'max-age=0', 'no-store']) {
    const asked = (after: number) => ask(POOL, { after, suites, ...(says && { says }) })
    t.equal(asked(3600), 'store immutable')
    t.match(asked(3601), /^revalidate (stale|max-age)$/)
    t.match(asked(-11), /^revalidate (stale|max-age)$/)
  }
})

t.test('names whose content changes', async t => {
  for (const [path, after, says, outcome] of [
    [INDEX, 10, undefined, 'store fresh'],
    [INDEX, 59, undefined, 'store fresh'],
    [INDEX, 60, undefined, 'revalidate stale'],
    [OTHER, 60, undefined, 'store fresh'],
    [OTHER, 3600, undefined, 'revalidate stale'],
    // max-age=0, as apt says it, within and after the floor
    [INDEX, 0, 'max-age=0', 'store validated-just-now'],
    [INDEX, 4, 'max-age=0', 'store validated-just-now'],
    [INDEX, 5, 'max-age=0', 'revalidate max-age'],
    [INDEX, 100, 'max-age=0', 'revalidate max-age'],
    [OTHER, 5, 'max-age=0', 'revalidate max-age'],
    // max-age
    [INDEX, 20, 'max-age=20', 'store fresh'],
    [INDEX, 21, 'max-age=20', 'revalidate max-age'],
    [INDEX, 21, 'max-age=1000', 'store fresh'],
    [INDEX, 61, 'max-age=1000', 'revalidate stale'],
    [INDEX, 21, 'max-age=nonsense', 'revalidate max-age'],
    // no-cache
    [INDEX, 0, 'no-cache', 'revalidate no-cache'],
    [OTHER, 0, 'no-cache', 'revalidate no-cache'],
    // no-store
    [INDEX, 10, 'no-store', 'store fresh'],
    [INDEX, 60, 'no-store', 'revalidate stale'],
    // min-fresh
    [INDEX, 10, 'min-fresh=50', 'store fresh'],
    [INDEX, 10, 'min-fresh=51', 'revalidate min-fresh'],
    [INDEX, 4, 'min-fresh=1000', 'store validated-just-now'],
    [INDEX, 60, 'min-fresh=1', 'revalidate stale'],
    // max-stale
    [INDEX, 60, 'max-stale=0', 'store max-stale'],
    [INDEX, 70, 'max-stale=10', 'store max-stale'],
    [INDEX, 71, 'max-stale=10', 'revalidate stale'],
    [INDEX, 1_000_000, 'max-stale', 'store max-stale'],
    [INDEX, 10, 'max-stale', 'store fresh'],
    [INDEX, 70, 'max-stale, max-age=60', 'revalidate max-age'],
    [INDEX, 70, 'max-stale, max-age=80', 'store max-stale'],
    // only-if-cached
    [INDEX, 10, 'only-if-cached', 'store fresh'],
    [INDEX, 60, 'only-if-cached', 'fail only-if-cached'],
    [INDEX, 60, 'only-if-cached, max-stale', 'store max-stale'],
    [INDEX, 10, 'only-if-cached, no-cache', 'fail only-if-cached'],
    [INDEX, 10, 'only-if-cached, max-age=0', 'fail only-if-cached'],
    // a clock set back
    [INDEX, -11, undefined, 'revalidate stale'],
    [INDEX, -11, 'max-stale=1000000', 'revalidate stale'],
    [INDEX, -11, 'max-stale', 'store max-stale'],
    [INDEX, -9, undefined, 'store fresh'],
    [INDEX, -9, 'max-age=0', 'store validated-just-now'],
  ] as const) {
    t.equal(ask(path, { after, ...(says && { says }) }), outcome, `${path} ${after} ${says}`)
  }
})

t.test(
  'a Release file that no adopted suite holds together with its indexes is asked for each time',
  async t => {
    for (const [governed, outcome] of [
      [true, 'store validated-just-now'],
      [false, 'revalidate max-age'],
    ] as const) {
      const suites = { checkFrom: () => undefined, governs: () => governed }
      t.equal(ask(INDEX, { after: 1, says: 'max-age=0', suites }), outcome)
    }
  },
)

t.test('while an operator wants the origin to be asked, no request does without', async t => {
  for (const path of [INDEX, POOL, OTHER]) {
    for (const says of ['max-age=60', 'max-stale', 'max-age=60, max-stale', 'min-fresh=1']) {
      const outcome = ask(path, { after: 10, says, validated: neverConfirmed })
      t.equal(outcome, 'revalidate stale', `${path} ${says}`)
    }
  }
})

t.test('what the origin said about its own response', async t => {
  for (const [origin, after, says, outcome] of [
    ['max-age=20', 19, undefined, 'store fresh'],
    ['max-age=20', 20, undefined, 'revalidate stale'],
    ['max-age=86400', 60, undefined, 'revalidate stale'],
    ['no-cache', 4, undefined, 'store validated-just-now'],
    ['no-cache', 5, undefined, 'revalidate stale'],
    ['must-revalidate', 60, 'max-stale', 'revalidate stale'],
    ['proxy-revalidate', 60, 'max-stale', 'revalidate stale'],
    ['s-maxage=10', 11, 'max-stale', 'revalidate stale'],
    ['no-cache', 60, 'max-stale', 'revalidate stale'],
    ['max-age=10', 11, 'max-stale', 'store max-stale'],
    ['must-revalidate', 10, undefined, 'store fresh'],
  ] as const) {
    t.equal(ask(INDEX, { origin, after, ...(says && { says }) }), outcome, `${origin} ${after}`)
  }
})

t.test('credentials and passthrough go to the origin, stored or not', async t => {
  for (const path of [INDEX, BY_HASH, POOL, OTHER]) {
    const negativeUntil = T + 10 * SECOND
    t.equal(ask(path, { after: 1, authorization: true }), 'origin authorization')
    t.equal(ask(path, { authorization: true, negativeUntil }), 'origin authorization')
    t.equal(ask(path, { after: 1, passthrough: true }), 'origin passthrough')
    t.equal(ask(path, { passthrough: true, negativeUntil }), 'origin passthrough')
    t.equal(ask(path, { after: 1, passthrough: true, authorization: true }), 'origin passthrough')
    const says = 'only-if-cached'
    t.equal(ask(path, { after: 1, authorization: true, says }), 'fail only-if-cached')
    t.equal(ask(path, { after: 1, passthrough: true, says }), 'fail only-if-cached')
  }
})

t.test('a remembered 404', async t => {
  const remembered = 'negative not-found-remembered'
  for (const [seconds, says, outcome] of [
    [10, undefined, remembered],
    [30, undefined, remembered],
    [10, 'max-age=0', remembered],
    [10, 'no-store', remembered],
    [10, 'only-if-cached', remembered],
    [10, 'no-cache', 'origin absent'],
    [10, 'no-cache, no-store', 'origin no-store'],
    [10, 'no-cache, only-if-cached', 'fail only-if-cached'],
    [0, undefined, 'origin absent'],
    [-10, undefined, 'origin absent'],
    [31, undefined, 'origin absent'], // made before the clock was set back
  ] as const) {
    const negativeUntil = T + seconds * SECOND
    t.equal(ask(INDEX, { negativeUntil, ...(says && { says }) }), outcome, `${seconds} ${says}`)
  }
  t.equal(
    ask(INDEX, { after: 10, negativeUntil: T + 20 * SECOND }),
    'store fresh',
    'what is stored is better than what is not',
  )
})

t.test('offline, what is stored answers at any age, and nothing else does', async t => {
  const offline = true
  for (const path of [INDEX, POOL, OTHER]) {
    t.equal(ask(path, { offline }), 'fail offline')
    for (const says of ['max-age=0', 'no-cache', 'no-store']) {
      t.equal(ask(path, { offline, says }), 'fail offline', says)
    }
    t.equal(ask(path, { offline, after: 1, says: 'no-cache' }), 'store offline')
  }
  t.equal(ask(INDEX, { offline, after: 1e9, says: 'max-age=0' }), 'store offline')
  t.equal(ask(INDEX, { offline, after: 1e9, origin: 'no-cache' }), 'store offline')
  t.equal(ask(INDEX, { offline, after: 1 }), 'store fresh', 'as always')
  t.equal(ask(POOL, { offline, after: 1e9 }), 'store offline')
  t.equal(ask(INDEX, { offline, negativeUntil: T + 1000 }), 'negative not-found-remembered')
  t.equal(ask(POOL, { offline, after: 1, authorization: true }), 'fail offline')
  t.equal(ask(POOL, { offline, after: 1, passthrough: true }), 'fail offline')
})

t.test('the entry comes with the decision', async t => {
  const decision = lookup({
    key: entry.key,
    stored: entry,
    archive: classify(POOL),
    directives: requestDirectives(Fields.empty),
    authorization: false,
    passthrough: false,
    config: { offline: false, freshness: { index: 0, other: 0, negative: 0, floor: 0 } },
    now: T,
  })
  t.strictSame(decision, { use: 'store', because: 'immutable', entry })
})

t.test('what an adopted index says about the content', async t => {
  const same = { digest: entry.digest }
  const other = { digest: 'f'.repeat(64) }
  for (const path of [POOL, INDEX, OTHER]) {
    t.equal(ask(path, { after: 0, claim: other }), 'replace superseded')
    t.equal(ask(path, { after: 0, claim: other, says: 'no-cache' }), 'replace superseded')
    t.equal(ask(path, { after: 0, claim: other, says: 'no-store' }), 'origin no-store')
    t.equal(ask(path, { after: 0, claim: other, says: 'only-if-cached' }), 'fail only-if-cached')
    t.equal(ask(path, { after: 0, claim: other, passthrough: true }), 'origin passthrough')
    t.equal(ask(path, { claim: other }), 'origin absent')
    t.equal(ask(path, { after: 0, claim: same, says: 'no-cache' }), 'revalidate no-cache')
  }
  t.equal(ask(POOL, { after: 1, claim: same }), 'store immutable')
  t.equal(ask(INDEX, { after: 7200, claim: same, says: 'max-age=0' }), 'store as-released')
})

t.test('the fields of the client choose the answer of a file of no archive alone', async t => {
  const told = (path: string, fields: Fields, more: object = {}) => {
    const decision = lookup({
      stored: {
        ...entry,
        fields: [
          ['Content-Type', 'text/html'],
          ['ETag', '"1"'],
        ],
      },
      key: entry.key,
      archive: classify(path),
      directives: requestDirectives(Fields.empty),
      fields,
      authorization: false,
      passthrough: false,
      config: { offline: false, freshness },
      now: T,
      ...more,
    })
    return `${decision.use} ${decision.because}`
  }
  const cookie = Fields.of(['Cookie', 'a=b'])
  const browser = Fields.of(['User-Agent', 'Mozilla/5.0'])
  const json = Fields.of(['Accept', 'application/json'])
  for (const fields of [cookie, browser, json]) {
    t.equal(told('/page', fields), 'origin own-fields')
    t.equal(told('/page', fields, { authorization: true }), 'origin authorization')
    t.not(told('/page', fields, { config: { offline: true, freshness } }), 'origin own-fields')
    for (const path of [INDEX, BY_HASH, POOL, '/d/dists/sid/main/installer-amd64/x']) {
      t.not(told(path, fields), 'origin own-fields', path)
    }
  }
  t.equal(told('/page', json, { stored: undefined }), 'origin own-fields')
  t.equal(told('/page', browser, { stored: undefined }), 'origin absent')
  t.equal(told('/page', browser, { stored: undefined, unstorable: true }), 'origin own-fields')
  const only = { directives: requestDirectives(Fields.of(['Cache-Control', 'only-if-cached'])) }
  t.equal(told('/page', cookie, only), 'fail only-if-cached')
})
