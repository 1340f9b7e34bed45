import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { Lifetime } from '../../../lib/async/lifetime.ts'
import { LateHeads } from '../../../lib/cache/fetch/late-heads.ts'
import { Mirrors } from '../../../lib/cache/fetch/mirrors.ts'
import type { Entry } from '../../../lib/cache/store/entry.ts'
import { Failure } from '../../../lib/errors.ts'
import type { OriginResponse } from '../../../lib/http/client/client.ts'
import { failureOf, OriginFailure } from '../../../lib/http/client/errors.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import type { TargetUri } from '../../../lib/http/message/target.ts'
import { createMemoryLog } from '../../fixtures/log/memory-log.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const names = ['a.example.org', 'b.example.org', 'c.example.org']
const places: TargetUri[] = names.map(host => ({ scheme: 'http', host, port: 80, path: '/x' }))
const [target] = places as [TargetUri]
const impatient = { content: 10_000 }
const entry = { fields: [['Last-Modified', 'Thu, 02 Jan 2025 00:00:00 GMT']] } as unknown as Entry

/** Mirrors of which each origin says what `says` has: a status with its fields, or a failure. */
function mirrors() {
  const clock = new ManualClock(Date.now())
  const says: Record<string, { status: number; fields?: Fields } | Error | Silence> = {}
  let asked: string[] = []
  const inTurn = new Mirrors({
    clock,
    log: createMemoryLog(),
    places: () => places,
    impatient: () => impatient,
    late: new LateHeads({ clock, timeouts: () => ({ fields: 15_000 }), connectionsTo: () => 16 }),
    onFailover: () => {},
  })
  /** Whose answer counts, or the message of the failure; who was asked, with `*` where little time was given. */
  const ask = async (stored?: Entry, except?: ReadonlySet<string>): Promise<string> => {
    asked = []
    const lifetime = new Lifetime()
    const outcome = await inTurn
      .ask({ uri: target, stored, except, lifetime }, async (uri, _others, hurry) => {
        const { host } = uri
        asked.push(`${host[0]}${hurry?.deadlines === impatient ? '*' : ''}`)
        const said = says[host] ?? { status: 200 }
        if (said === 'silent') return silence(hurry?.signal)
        if (said === 'busy') return silence(hurry?.signal, abortedInLine)
        if (said instanceof Error) throw said
        const response = {
          fields: Fields.empty,
          content: { close() {} },
          ...said,
          reason: host[0],
        } as OriginResponse
        return { response, uri }
      })
      .then(
        ({ response, certain }) => `${response.reason} ${response.status}${certain ? '' : '?'}`,
        (error: Error) => error.message,
      )
    return `${asked.join(' ')}: ${outcome}`
  }
  return { clock, says, ask, inTurn }
}

/** An origin that does not answer, and one to which all our connections are in use. */
type Silence = 'silent' | 'busy'

const abortedInLine = new OriginFailure('ORIGIN_ABORTED', 'a.example.org:80', { phase: 'queue' })

/** Ends when the caller gives up. */
function silence(signal: AbortSignal | undefined, error?: Error): Promise<never> {
  return new Promise((_, reject) => {
    signal?.addEventListener('abort', () => reject(error ?? signal.reason))
  })
}

const failed = new Failure('down', { code: 'X', fault: 'upstream', publicText: '' })

t.test('the preferred origin is asked alone while it is well', async t => {
  const { ask } = mirrors()
  t.equal(await ask(), 'a*: a 200')
})

t.test('one that failed comes last for a while, then is tried by one request', async t => {
  const { says, ask, clock } = mirrors()
  says['a.example.org'] = failed
  t.equal(await ask(), 'a* b*: b 200')
  t.equal(await ask(), 'b*: b 200')
  clock.advance(10_000)
  t.equal((await Promise.all([ask(), ask()])).at(-1)?.endsWith('b 200'), true)
  clock.advance(19_999)
  t.equal(await ask(), 'b*: b 200', 'twice as long after the second failure')
  clock.advance(1)
  says['a.example.org'] = { status: 200 }
  t.equal(await ask(), 'a*: a 200')
  t.equal(await ask(), 'a*: a 200')
})

t.test('the last origin that is well has all the time there is', async t => {
  const { says, ask } = mirrors()
  says['b.example.org'] = failed
  says['c.example.org'] = failed
  says['a.example.org'] = failed
  t.equal(await ask(), 'a* b* c: down')
  t.equal(await ask(), 'a b c: down')
})

t.test('Retry-After is heeded, up to five minutes', async t => {
  const { says, ask, clock } = mirrors()
  says['a.example.org'] = { status: 503, fields: Fields.of(['Retry-After', '60']) }
  t.equal(await ask(), 'a* b*: b 200')
  clock.advance(59_999)
  t.equal(await ask(), 'b*: b 200')
  clock.advance(1)
  says['a.example.org'] = { status: 429, fields: Fields.of(['Retry-After', '99999']) }
  t.equal(await ask(), 'a* b*: b 200')
  clock.advance(299_999)
  t.equal(await ask(), 'b*: b 200')
  clock.advance(1)
  says['a.example.org'] = { status: 200 }
  t.equal(await ask(), 'a*: a 200')
})

t.test(
  'a 404 counts when no other has the file, and about something stored when none failed',
  async t => {
    const { says, ask } = mirrors()
    says['a.example.org'] = { status: 404 }
    t.equal(await ask(), 'a* b*: b 200')
    says['b.example.org'] = { status: 404 }
    says['c.example.org'] = { status: 410 }
    t.equal(await ask(entry), 'a* b* c: a 404')
    says['c.example.org'] = { status: 500 }
    t.equal(await ask(), 'a* b* c: a 404?')
    t.equal(await ask(entry), 'a* b* c: c 500')
    says['c.example.org'] = failed
    t.equal(await ask(entry), 'a* b* c c: down')
  },
)

t.test('one that failed for the first time is asked once more before a 404 counts', async t => {
  const { says, ask } = mirrors()
  says['a.example.org'] = failed
  for (const name of ['b.example.org', 'c.example.org']) says[name] = { status: 404 }
  t.equal(await ask(), 'a* b* c a: b 404?')
  t.equal(await ask(), 'b* c a: b 404?', 'not when it was known to be down')
})

t.test('a refusal speaks against an origin only when another one has the file', async t => {
  const { says, ask } = mirrors()
  for (const name of names) says[name] = { status: 403 }
  t.equal(await ask(), 'a* b* c: a 403')
  says['a.example.org'] = { status: 200 }
  t.equal(await ask(), 'a*: a 200')
  for (const status of [401, 402, 403, 408, 429, 503]) {
    const { says, ask } = mirrors()
    says['a.example.org'] = { status }
    t.equal(await ask(), 'a* b*: b 200')
    t.equal(await ask(), 'b*: b 200')
  }
})

t.test('an older file than the stored one counts when no other origin has a newer one', async t => {
  const { says, ask } = mirrors()
  const older = Fields.of(['Last-Modified', 'Wed, 01 Jan 2025 00:00:00 GMT'])
  for (const name of names) says[name] = { status: 200, fields: older }
  t.equal(await ask(entry), 'a* b* c a: a 200')
  t.equal(await ask(), 'a*: a 200', 'nothing is stored')
  says['c.example.org'] = { status: 304 }
  t.equal(await ask(entry), 'a* b* c: c 304')
  says['c.example.org'] = failed
  t.equal(await ask(entry), 'a* b* c c: down')
})

t.test('an origin that does not answer is left after ten seconds, redirects included', async t => {
  const { says, ask, clock } = mirrors()
  says['a.example.org'] = 'silent'
  const outcome = ask()
  clock.advance(9_999)
  await setImmediate()
  clock.advance(1)
  t.equal(await outcome, 'a* b*: b 200')
})

t.test('an origin is not to blame for requests that wait for a connection to it', async t => {
  const { says, ask, clock } = mirrors()
  says['a.example.org'] = 'busy'
  const outcome = ask()
  clock.advance(10_000)
  t.equal(await outcome, 'a* b*: b 200')
  says['a.example.org'] = failureOf('queue', 'a.example.org:80', {})
  t.equal(await ask(), 'a* b*: b 200')
  says['b.example.org'] = { status: 404 }
  says['c.example.org'] = { status: 404 }
  t.equal(await ask(), 'a* b* c a: b 404?', 'it may have the file')
  says['a.example.org'] = { status: 200 }
  t.equal(await ask(), 'a*: a 200')
})

t.test('an origin that is not wanted is not asked', async t => {
  const { ask } = mirrors()
  t.equal(await ask(undefined, new Set(['a.example.org:80'])), 'b*: b 200')
  t.equal(
    await ask(undefined, new Set(names.map(name => `${name}:80`))),
    ': no origin has the right file for http://a.example.org/x',
  )
})

t.test('what is our own fault ends the question', async t => {
  const { says, ask } = mirrors()
  says['a.example.org'] = new Error('a bug')
  t.equal(await ask(), 'a*: a bug')
})

t.test('an origin that broke off a transfer comes last', async t => {
  const { ask, inTurn } = mirrors()
  inTurn.brokeOff(target)
  t.equal(await ask(), 'b*: b 200')
})
