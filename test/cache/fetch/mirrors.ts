import t from 'tap'
import { ManualClock } from '../../../lib/async/clock.ts'
import { Mirrors } from '../../../lib/cache/fetch/mirrors.ts'
import { Failure } from '../../../lib/errors.ts'
import type { OriginResponse } from '../../../lib/http/client/client.ts'
import { OriginFailure } from '../../../lib/http/client/errors.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import type { TargetUri } from '../../../lib/http/message/target.ts'
import { createMemoryLog } from '../../../lib/log/log.ts'

const names = ['a.example.org', 'b.example.org', 'c.example.org']
const places: TargetUri[] = names.map(host => ({ scheme: 'http', host, port: 80, path: '/x' }))
const [target] = places as [TargetUri]
const impatient = { fields: 10_000 }

/** Mirrors of which each origin says what `says` has: a status with its fields, or a failure. */
function mirrors() {
  const clock = new ManualClock(Date.now())
  const says: Record<string, { status: number; fields?: Fields } | Error> = {}
  let asked: string[] = []
  const inTurn = new Mirrors({
    clock,
    log: createMemoryLog(),
    places: () => places,
    impatient: () => impatient,
    onFailover: () => {},
  })
  /** Whose answer counts, or the message of the failure; who was asked, with `*` where little time was given. */
  const ask = async (conditional = false): Promise<string> => {
    asked = []
    const signal = new AbortController().signal
    const outcome = await inTurn
      .ask({ uri: target, conditional, signal }, async ({ host }, deadlines) => {
        asked.push(`${host[0]}${deadlines === impatient ? '*' : ''}`)
        const said = says[host] ?? { status: 200 }
        if (said instanceof Error) throw said
        return {
          fields: Fields.empty,
          content: { close() {} },
          ...said,
          reason: host[0],
        } as OriginResponse
      })
      .then(
        ({ reason, status }) => `${reason} ${status}`,
        (error: Error) => error.message,
      )
    return `${asked.join(' ')}: ${outcome}`
  }
  return { clock, says, ask, inTurn }
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
    t.equal(await ask(true), 'a* b* c: a 404')
    says['c.example.org'] = { status: 500 }
    t.equal(await ask(), 'a* b* c: a 404')
    t.equal(await ask(true), 'a* b c: c 500')
    says['c.example.org'] = failed
    t.equal(await ask(true), 'a* b c: down')
  },
)

t.test('what is our own fault ends the question', async t => {
  const { says, ask } = mirrors()
  says['a.example.org'] = new Error('a bug')
  t.equal(await ask(), 'a*: a bug')
})

t.test('an origin that broke off a transfer comes last', async t => {
  const { ask, inTurn } = mirrors()
  inTurn.brokeOff(new OriginFailure('ORIGIN_TRUNCATED', 'a.example.org:80', {}))
  inTurn.brokeOff(new Error('the disk is full'))
  t.equal(await ask(), 'b*: b 200')
})
