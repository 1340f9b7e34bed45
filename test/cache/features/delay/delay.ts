/**
 * Which generation clients get under a delay or a hold: a table.
 */
import { mkdir } from 'node:fs/promises'
import t from 'tap'
import {
  type Candidate,
  choose,
  restrainsAny,
  restraintOf,
  suiteName,
  withWaiting,
} from '../../../../lib/cache/features/delay/delay.ts'
import { Disk, Layout } from '../../../../lib/cache/store/disk/disk.ts'
import {
  type WaitingGeneration,
  withNextGeneration,
} from '../../../../lib/cache/suites/generation.ts'
import { KnownSuites } from '../../../../lib/cache/suites/known-suites.ts'
import { LiveSuites } from '../../../../lib/cache/suites/suite.ts'
import { configOf } from '../../../fixtures/cache/cache.ts'
import { createMemoryLog } from '../../../fixtures/log/memory-log.ts'
import { ManualClock } from '../../../fixtures/time/manual-clock.ts'

const hour = 3600 * 1000
const day = 24 * hour
const now = 100 * day

/** A generation that was signed and seen so many hours ago; `seen` alone when it came later than it was signed. */
function aged(hours: number, more: Partial<Candidate> = {}): Candidate {
  const moment = now - hours * hour
  return { digest: `${hours}`, date: moment, seen: moment, ...more }
}

const permission = { by: 'ann', reason: 'a fix', at: now }
const three = { delay: 72 * hour }
const given = aged(200)

t.test('the generation and the reason', async t => {
  const cases: ReadonlyArray<
    readonly [name: string, choosing: Partial<Parameters<typeof choose>[0]>, expected: object]
  > = [
    ['nothing waits', {}, { because: 'newest' }],
    ['one is too young', { waiting: [aged(71)] }, { because: 'delayed' }],
    ['one is just old enough', { waiting: [aged(72)] }, { digest: '72', because: 'ripe' }],
    [
      'of several the newest that is old enough',
      { waiting: [aged(100), aged(73), aged(5)] },
      { digest: '73', because: 'ripe' },
    ],
    [
      'signed long ago, seen lately: the later moment counts',
      { waiting: [aged(100, { seen: now - hour })] },
      { because: 'delayed' },
    ],
    [
      'seen long ago, signed lately, as by a clock that was wrong',
      { waiting: [aged(10, { seen: 0 })] },
      { because: 'delayed' },
    ],
    [
      'one without a date counts from when it was seen',
      { waiting: [aged(80, { date: undefined })] },
      { digest: '80', because: 'ripe' },
    ],
    [
      'an older one than clients have is never given',
      { waiting: [aged(300)] },
      { because: 'newest' },
    ],
    [
      'undated ones count in the order in which they were seen',
      {
        given: { digest: 'x', seen: now - 90 * hour },
        waiting: [
          aged(100, { date: undefined, released: permission }),
          aged(80, { date: undefined, released: permission }),
        ],
      },
      { digest: '80', because: 'released' },
    ],
    [
      'an undated one that was seen before that of clients is never given',
      {
        given: { digest: 'x', seen: now - 90 * hour },
        waiting: [aged(100, { date: undefined, released: permission })],
      },
      { because: 'newest' },
    ],
    [
      'an undated one of clients does not let an older dated one through',
      {
        given: { digest: 'x', seen: now - 90 * hour, dateBefore: now - 95 * hour },
        waiting: [aged(100, { seen: now - 80 * hour, released: permission })],
      },
      { because: 'newest' },
    ],
    ['one as old as that of clients is not newer', { waiting: [aged(200)] }, { because: 'newest' }],
    [
      'an operator lets one through',
      { waiting: [aged(5, { released: permission }), aged(1)] },
      { digest: '5', because: 'released' },
    ],
    [
      'an operator lets all through',
      { waiting: [aged(5), aged(1)], openUntil: now + 1 },
      { digest: '1', because: 'released' },
    ],
    ['until then', { waiting: [aged(5), aged(1)], openUntil: now }, { because: 'delayed' }],
    [
      'a hold keeps what is dated later',
      { waiting: [aged(150), aged(90)], restraint: { delay: 0, hold: now - 100 * hour } },
      { digest: '150', because: 'ripe' },
    ],
    [
      'a hold alone',
      { waiting: [aged(90)], restraint: { delay: 0, hold: now - 100 * hour } },
      { because: 'held' },
    ],
    [
      'without a delay a clock that is late is no reason to wait',
      { waiting: [aged(-5)], restraint: { delay: 0, hold: now + 100 * hour } },
      { digest: '-5', because: 'ripe' },
    ],
    [
      'a hold counts the signed date, whenever it was seen',
      { waiting: [aged(150, { seen: now })], restraint: { delay: 0, hold: now - 100 * hour } },
      { digest: '150', because: 'ripe' },
    ],
    [
      'a hold and a delay: both',
      { waiting: [aged(80), aged(20)], restraint: { ...three, hold: now - 50 * hour } },
      { digest: '80', because: 'ripe' },
    ],
    [
      'a hold is let through by name',
      {
        waiting: [aged(90, { released: permission })],
        restraint: { delay: 0, hold: now - 100 * hour },
      },
      { digest: '90', because: 'released' },
    ],
    [
      'about to expire: the oldest that is not',
      {
        given: { ...aged(160), validUntil: now + 5 * hour },
        waiting: [
          aged(60, { validUntil: now + 100 * hour }),
          aged(20, { validUntil: now + 140 * hour }),
        ],
      },
      { digest: '60', because: 'expiring' },
    ],
    [
      'expired: the one that expires later, and that is said',
      {
        given: { ...aged(160), validUntil: now - hour },
        waiting: [aged(60, { validUntil: now + hour })],
      },
      { digest: '60', because: 'expiring', expires: true },
    ],
    [
      'one that waits and expires before its time does not help',
      {
        given: { ...aged(160), validUntil: now + 50 * hour },
        waiting: [aged(60, { validUntil: now + hour })],
      },
      { because: 'delayed' },
    ],
    [
      'the one that is old enough expires: a younger one',
      {
        waiting: [
          aged(160, { validUntil: now + 5 * hour }),
          aged(30, { validUntil: now + 138 * hour }),
        ],
      },
      { digest: '30', because: 'expiring' },
    ],
    [
      'a hold does not give way',
      {
        given: { ...aged(160), validUntil: now + 5 * hour },
        waiting: [aged(60, { validUntil: now + 100 * hour })],
        restraint: { delay: 0, hold: now - 100 * hour },
      },
      { because: 'held', expires: true },
    ],
    [
      'nothing waits and it expires',
      { given: { ...aged(160), validUntil: now } },
      { because: 'newest', expires: true },
    ],
  ]
  for (const [name, choosing, expected] of cases) {
    const found = choose({ given, waiting: [], restraint: three, now, ...choosing })
    t.strictSame(found, expected, name)
  }
})

/** A waiting generation that was seen at an hour. */
function waiting(hours: number, files = 0): WaitingGeneration {
  const digest = hours.toString(16).padStart(64, '0')
  const content = { path: 'main/x', digest, size: 1 }
  return {
    release: { name: 'InRelease', digest, size: 1 },
    date: hours * hour,
    signature: { is: 'good' },
    contents: Array(files).fill(content),
    seen: hours * hour,
    noticed: hours * hour,
  }
}

t.test('generations that wait are bounded', async t => {
  let all: readonly WaitingGeneration[] = []
  for (let n = 0; n < 300; n += 1) all = withWaiting(all, waiting(n))
  t.equal(all.length, 100)
  t.equal(all[0]?.seen, 0, 'the first stays: it is the next to be old enough')
  t.equal(all.at(-1)?.seen, 299 * hour)
  const gaps = all.slice(1).map(({ seen }, n) => seen - (all[n]?.seen ?? 0))
  t.ok(Math.max(...gaps) <= 8 * hour, `${Math.max(...gaps) / hour} hours between two`)
  let many: readonly WaitingGeneration[] = []
  for (let n = 0; n < 10; n += 1) many = withWaiting(many, waiting(n, 5000))
  t.equal(many.length, 4, '20,000 files')
  t.equal(withWaiting(many, waiting(9, 1)).length, 4, 'one that is known takes its own place')
})

t.test('an adoption keeps what waits, and nothing older', async t => {
  const of = (hours: number) => {
    const { release, date, signature } = waiting(hours)
    const base = {
      release,
      date,
      signature,
      byHash: false,
      adopted: hours,
      indexes: [],
      contents: [],
    }
    return base
  }
  const suite = {
    at: 'http://a.example/dists/x',
    generations: [of(1)],
    waiting: [waiting(2), waiting(3), waiting(4)],
  }
  const next = withNextGeneration(suite, { at: suite.at, next: of(3), days: 0 })
  t.strictSame(
    next.waiting?.map(({ seen }) => seen / hour),
    [4],
  )
  t.equal(withNextGeneration(next, { at: suite.at, next: of(5), days: 0 }).waiting, undefined)
})

t.test('which suites a delay is for', async t => {
  const origins = ['archive.example.org/debian', 'mirror.example.org']
  const config = configOf(
    {
      archives: [
        { origins, delay: '72h' },
        {
          origins: ['other.example.org'],
          hold: '2026-11-01',
          except: ['x*', `${'*-'.repeat(20)}x`],
        },
      ],
    },
    '/tmp',
  )
  const cases: ReadonlyArray<readonly [string, object | undefined]> = [
    ['http://archive.example.org/debian/dists/bookworm', { delay: 72 * hour, hold: undefined }],
    [
      'http://archive.example.org/debian/dists/bookworm-updates',
      { delay: 72 * hour, hold: undefined },
    ],
    ['http://archive.example.org/debian/dists/bookworm-security', undefined],
    ['http://archive.example.org/debian/dists/bullseye-security/updates', undefined],
    ['http://archive.example.org/debian/dists/stretch/updates', undefined],
    ['http://mirror.example.org/dists/noble-security', undefined],
    ['http://mirror.example.org/flat', { delay: 72 * hour, hold: undefined }],
    ['http://archive.example.org/other/dists/x', undefined],
    [
      'http://other.example.org/dists/stable-security',
      { delay: 0, hold: Date.parse('2026-11-02') },
    ],
    ['http://other.example.org/dists/xenial', undefined],
    ['http://none.example.org/dists/stable', undefined],
    ['nonsense', undefined],
    // A client chooses this name, and a comparison that goes back would not end.
    [
      `http://other.example.org/dists/${'-'.repeat(4000)}`,
      { delay: 0, hold: Date.parse('2026-11-02') },
    ],
  ]
  for (const [at, expected] of cases) t.strictSame(restraintOf(at, config), expected, at)
  t.equal(restrainsAny(config), true)
  t.equal(restrainsAny(configOf({ archives: [{ origins }] }, '/tmp')), false)
  t.equal(suiteName('/a/dists/b%2Bc/d'), 'b+c/d')
  t.throws(() => configOf({ archives: [{ origins, hold: '2026-02-30' }] }, '/tmp'))
  t.throws(() => configOf({ archives: [{ origins, delay: '61d' }] }, '/tmp'))
  t.throws(
    () => configOf({ archives: [{ origins, delay: '1d', verify: 'off' }] }, '/tmp'),
    /set verify to prefer/,
  )
})

t.test('a delayed suite is not forgotten for the sake of others that clients bring', async t => {
  const clock = new ManualClock(now)
  const around = {
    disk: new Disk({ clock }),
    layout: new Layout(t.testdir({})),
    clock,
    log: createMemoryLog(),
  }
  await mkdir(around.layout.suites, { recursive: true })
  const known = await KnownSuites.open(around)
  const live = new LiveSuites({ clock, known })
  const { release, date, signature } = waiting(1)
  const generation = { release, date, signature, byHash: false, indexes: [], contents: [] }
  const put = (at: string, adopted: number): Promise<void> =>
    live.adopted({ at, generations: [{ ...generation, adopted }] })
  await put('http://a.example/dists/held', 1)
  const given = { InRelease: { digest: release.digest, because: 'first', since: 1 } } as const
  await known.note('http://a.example/dists/held', { given })
  for (let n = 0; n < 1001; n += 1) await put(`http://b.example/${n}`, 2 + n)
  t.ok(known.at('http://a.example/dists/held'))
  t.notOk(known.at('http://b.example/0'))
  t.equal(known.size, 1000)
  const again = await KnownSuites.open(around)
  t.strictSame(again.at('http://a.example/dists/held')?.given, given, 'also on disk')
})
