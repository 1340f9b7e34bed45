import t from 'tap'
import { classify } from '../../../lib/cache/archive/path.ts'
import {
  currentAge,
  type FreshnessSettings,
  freshnessOf,
  initialAge,
  isJustValidated,
  type StoredResponse,
} from '../../../lib/cache/rfc9111/lookup.ts'
import { neverConfirmed } from '../../../lib/cache/store/entry.ts'
import { Fields } from '../../../lib/http/message/field.ts'

const T = Date.UTC(2025, 4, 20, 12)
const SECOND = 1000
const HOUR = 3600 * SECOND
const DAY = 24 * HOUR

const settings: FreshnessSettings = {
  index: 60 * SECOND,
  other: HOUR,
  negative: 30 * SECOND,
  floor: 5 * SECOND,
}

function stored(change: Partial<StoredResponse> = {}): StoredResponse {
  return { fields: [], stored: T, validated: T, initialAge: 0, ...change }
}

function remaining(path: string, entry: StoredResponse, now: number): number {
  return freshnessOf(entry, classify(path), { settings, now })
}

t.test('the configured time counts from the last answer of the origin', async t => {
  for (const [path, lifetime] of [
    ['/d/dists/sid/InRelease', 60],
    ['/d/dists/sid/main/binary-amd64/Packages.xz', 60],
    ['/d/dists/sid/main/binary-amd64/Packages.diff/2025-05-20-0812.33.gz', 60],
    ['/d/dists/sid/main/installer-amd64/current/images/netboot/mini.iso', 60],
    ['/u/dists/noble/main/dist-upgrader-all/current/noble.tar.gz.gpg', 60],
    ['/d/dists/sid/main/installer-amd64/current/images/SHA256SUMS', 60],
    ['/key.asc', 3600],
  ] as const) {
    const fields = [['Last-Modified', new Date(T - 864_000 * SECOND).toUTCString()]] as const
    const entry = stored({ fields })
    t.equal(remaining(path, entry, T), lifetime, path)
    t.equal(remaining(path, entry, T + 10 * SECOND), lifetime - 10)
    t.equal(remaining(path, entry, T + lifetime * SECOND), 0, 'at its end it is stale')
    const old = stored({ fields, initialAge: 90 })
    t.equal(remaining(path, old, T), lifetime, 'age on arrival is no matter')
  }
})

t.test('files that are not below dists are fresh for a tenth of their age', async t => {
  const modified = (seconds: number) =>
    ['Last-Modified', new Date(T - seconds * SECOND).toUTCString()] as const
  const tag = ['ETag', '"1"'] as const
  for (const [name, entry, lifetime] of [
    ['minutes old', { fields: [modified(600)] }, 60],
    ['with a tag as well', { fields: [modified(600), tag] }, 60],
    ['a day old', { fields: [modified(86_400)] }, 3600],
    ['changed this second', { fields: [modified(0)] }, 0],
    ['changed in the future', { fields: [modified(-600)] }, 0],
    ['without a date, stored ten minutes before', { fields: [tag], stored: T - 600 * SECOND }, 60],
    ['without a validator', { stored: T - 600 * SECOND }, 0],
    ['without a validator, with a lifetime', { fields: [['Cache-Control', 'max-age=300']] }, 300],
    [
      'for which the origin states a long time',
      { fields: [modified(600), ['Cache-Control', 'max-age=86400']] },
      3600,
    ],
    [
      'stored this second, for which the origin states a time (RFC 9111 section 4.2)',
      { fields: [tag, ['Cache-Control', 'max-age=600']] },
      600,
    ],
    [
      'for which Expires states a time',
      { fields: [modified(600), ['Expires', new Date(T + 300 * SECOND).toUTCString()]] },
      300,
    ],
    [
      'for which the origin states a short time',
      { fields: [modified(86_400), ['Cache-Control', 'max-age=20']] },
      20,
    ],
  ] as const) {
    t.equal(remaining('/netboot/vmlinuz', stored(entry), T), lifetime, name)
    // Packages and metadata of other package managers are confirmed before each use, but for the floor. They are not made for each request.
    const ofOthers = name === 'without a validator' ? 5 : Math.min(5, lifetime)
    for (const path of ['/arch/core/os/x86_64/core.db', '/fedora/repodata/repomd.xml']) {
      t.equal(remaining(path, stored(entry), T), ofOthers, `${path} ${name}`)
    }
    t.equal(remaining('/d/dists/sid/SHA256SUMS', stored({ validated: T }), T), 60)
  }
})

t.test('immutable names are fresh for ever, whatever the origin or the clock says', async t => {
  const entry = stored({ fields: [['Cache-Control', 'max-age=0, no-cache, must-revalidate']] })
  for (const path of [
    '/d/pool/main/a/apt/apt_2.6.1_amd64.deb',
    `/d/dists/sid/main/binary-amd64/by-hash/SHA256/${'0'.repeat(64)}`,
  ]) {
    for (const now of [T, T + 3650 * DAY, T - 3650 * DAY]) {
      const suites = { checkFrom: () => undefined, governs: () => true }
      const claim = { digest: '0'.repeat(64) }
      const fresh = freshnessOf(entry, classify(path), { settings, now, suites, claim })
      t.equal(fresh, Number.POSITIVE_INFINITY)
    }
  }
})

t.test('a version in a name is believed for an hour where no index names the content', async t => {
  const path = classify('/d/pool/main/a/apt/apt_2.6.1_amd64.deb')
  const unnamed = { checkFrom: () => undefined, governs: () => true }
  const verified = stored({ verified: { by: 'index', suite: 'http://a.example.org/d/dists/sid' } })
  for (const [entry, more, lasting] of [
    [stored(), { suites: unnamed }, false],
    [verified, { suites: unnamed }, false],
    [stored(), { suites: unnamed, claim: { digest: '0'.repeat(64) } }, true],
    [stored(), {}, false],
    [verified, {}, true],
  ] as const) {
    const at = (now: number) => freshnessOf(entry, path, { settings, now, ...more })
    t.equal(at(T + HOUR), Number.POSITIVE_INFINITY, 'within the hour')
    t.equal(at(T + HOUR + SECOND) > 0, lasting)
    t.equal(at(T - DAY) > 0, lasting, 'a clock that was set back')
  }
})

t.test('a dated path is immutable once its date had passed when the origin was asked', async t => {
  const path = classify('/archive/debian/20250520T120000Z/dists/sid/InRelease')
  for (const [validated, immutable] of [
    [T - DAY, false],
    [T, false],
    [T + DAY, false],
    [T + 2 * DAY - 1, false],
    [T + 2 * DAY, true],
    [T + 300 * DAY, true],
  ] as const) {
    const found = freshnessOf(stored({ validated }), path, { settings, now: validated })
    t.equal(found === Number.POSITIVE_INFINITY, immutable, `${(validated - T) / DAY} days after`)
  }
  const future = classify('/archive/debian/20991231T000000Z/dists/sid/InRelease')
  t.ok(freshnessOf(stored(), future, { settings, now: T + 30 * DAY }) < 0)
})

t.test('the origin shortens the configured time and never lengthens it', async t => {
  const at = (seconds: number) => new Date(T + seconds * SECOND).toUTCString()
  for (const [fields, expected] of [
    [[['Cache-Control', 'max-age=20']], 20],
    [[['Cache-Control', 'max-age=86400']], 60],
    [[['Cache-Control', 'max-age=86400, s-maxage=10']], 10],
    [[['Cache-Control', 'max-age=10, s-maxage=86400']], 60],
    [[['Cache-Control', 'max-age=0']], 0],
    [[['Cache-Control', 'max-age=nonsense']], 0],
    [[['Cache-Control', 'no-cache, max-age=50']], 0],
    [[['Cache-Control', 'no-cache="Set-Cookie", max-age=50']], 50],
    [[['Cache-Control', 'public']], 60],
    [
      [
        ['Expires', at(30)],
        ['Date', at(0)],
      ],
      30,
    ],
    [
      [
        ['Expires', at(30)],
        ['Date', at(10)],
      ],
      20,
    ],
    [[['Expires', at(30)]], 30],
    [
      [
        ['Expires', at(-30)],
        ['Date', at(0)],
      ],
      0,
    ],
    [[['Expires', '0']], 0],
    [
      [
        ['Expires', '-1'],
        ['Date', at(0)],
      ],
      0,
    ],
    [
      [
        ['Expires', at(86_400)],
        ['Date', at(0)],
      ],
      60,
    ],
    // 4.2.1: a directive is worth more than Expires.
    [
      [
        ['Cache-Control', 'max-age=40'],
        ['Expires', '0'],
      ],
      40,
    ],
    [
      [
        ['Cache-Control', 'public'],
        ['Expires', '0'],
      ],
      0,
    ],
  ] as const) {
    t.equal(remaining('/InRelease', stored({ fields }), T), expected, JSON.stringify(fields))
  }
})

t.test('the origin’s time counts from when the response was made', async t => {
  const fields = [['Cache-Control', 'max-age=120']] as const
  t.equal(remaining('/InRelease', stored({ fields, initialAge: 90 }), T), 30)
  t.equal(remaining('/InRelease', stored({ fields, initialAge: 90 }), T + 10 * SECOND), 20)
  t.equal(remaining('/InRelease', stored({ fields, initialAge: 150 }), T), -30)
  t.equal(remaining('/InRelease', stored({ fields, initialAge: 10 }), T), 60)
})

t.test('a copy from the future is stale, one the clock was corrected under is not', async t => {
  t.equal(remaining('/InRelease', stored(), T - 10 * SECOND), 60)
  t.equal(remaining('/InRelease', stored(), T - 10 * SECOND - 1), Number.NEGATIVE_INFINITY)
  t.equal(remaining('/InRelease', stored(), T - 3650 * DAY), Number.NEGATIVE_INFINITY)
})

t.test('current age (4.2.3)', async t => {
  for (const [initial, elapsed, age] of [
    [0, 0, 0],
    [0, 999, 0],
    [0, 1000, 1],
    [17, 3500, 20],
    [17, -DAY, 17],
    [-5, 0, 0],
  ] as const) {
    t.equal(currentAge(stored({ initialAge: initial }), T + elapsed), age, `${initial} ${elapsed}`)
  }
})

t.test('what is to be confirmed is stale, and as old as its time in the store', async t => {
  const entry = stored({ validated: neverConfirmed, initialAge: 17 })
  t.equal(currentAge(entry, T + 10 * SECOND), 27)
  for (const path of ['/InRelease', '/d/pool/main/a/apt/apt_2.6.1_amd64.deb', '/other']) {
    t.ok(remaining(path, entry, T + 10 * SECOND) < 0, path)
  }
  const lasting = stored({ ...entry, fields: [['Cache-Control', 'max-age=86400']] })
  t.ok(remaining('/InRelease', lasting, T + 10 * SECOND) < 0, 'whatever the origin says')
})

t.test('initial age (4.2.3)', async t => {
  const date = (offset: number) => new Date(T + offset * SECOND).toUTCString()
  for (const [fields, delay, age] of [
    [[], 0, 0],
    [[], 2500, 2],
    [[['Age', '30']], 0, 30],
    [[['Age', '30']], 1500, 31],
    [[['Date', date(0)]], 0, 0],
    [[['Date', date(-40)]], 0, 40],
    [
      [
        ['Date', date(-40)],
        ['Age', '30'],
      ],
      0,
      40,
    ],
    [
      [
        ['Date', date(-20)],
        ['Age', '30'],
      ],
      0,
      30,
    ],
    [[['Date', date(500)]], 0, 0],
    [[['Date', 'yesterday']], 0, 0],
    [[['Age', '-30']], 0, 0],
    [[['Age', 'old']], 0, 0],
    [[], -5000, 0],
  ] as const) {
    const times = { requested: T - delay, received: T }
    t.equal(initialAge(Fields.of(...fields), times), age, `${JSON.stringify(fields)} ${delay}`)
  }
})

t.test('validated just now', async t => {
  for (const [elapsed, floor, is] of [
    [0, 5000, true],
    [4999, 5000, true],
    [5000, 5000, false],
    [0, 0, false],
    [-10_000, 5000, true],
    [-10_001, 5000, false],
    [-1, 0, false],
  ] as const) {
    t.equal(isJustValidated(stored(), floor, T + elapsed), is, `${elapsed} of ${floor}`)
  }
})
