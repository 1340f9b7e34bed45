import t from 'tap'
import {
  hashLine,
  type PasswordHash,
  readHashLine,
} from '../../../lib/cache/config/password-hash.ts'
import { PasswordCheck } from '../../../lib/cache/operations/readers.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const noon = Date.UTC(2026, 0, 1, 12)
const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`

async function kept(password: string): Promise<PasswordHash> {
  const hash = readHashLine(await hashLine(password))
  if (hash === undefined) throw new Error('the line cannot be read')
  return hash
}

t.test('the password is what follows the first colon, the user name can be any', async t => {
  const hash = await kept('päss:word')
  const of = (authorization?: string) =>
    new PasswordCheck(new ManualClock(noon)).check(hash, authorization, '192.0.2.1')
  t.equal(await of(basic('ann:päss:word')), 'right')
  t.equal(await of(basic(':päss:word').replace('Basic', 'bASIC')), 'right')
  for (const wrong of [undefined, '', 'Basic', basic('päss'), basic('a:word'), 'Bearer eA=='])
    t.equal(await of(wrong), 'wrong', String(wrong))
})

t.test('a client has ten attempts a minute; the right password still passes elsewhere', async t => {
  const clock = new ManualClock(noon)
  const hash = await kept('correct horse')
  const passwords = new PasswordCheck(clock)
  const attempt = (password: string, client = '192.0.2.1') =>
    passwords.check(hash, basic(`ann:${password}`), client)
  for (let i = 0; i < 10; i += 1) t.equal(await attempt(`guess ${i}`), 'wrong')
  t.equal(await attempt('correct horse'), 'too many')
  t.equal(await attempt('correct horse', '192.0.2.2'), 'right')
  t.equal(await attempt('correct horse'), 'right', 'no hash is made for what was right last')
  clock.advance(60_000)
  t.equal(await attempt('guess'), 'wrong')
})

t.test('two hashes are made at once; a changed password makes the old one wrong', async t => {
  const passwords = new PasswordCheck(new ManualClock(noon))
  const hash = await kept('correct horse')
  const clients = ['192.0.2.1', '192.0.2.2', '192.0.2.3']
  const outcomes = clients.map(client => passwords.check(hash, basic('ann:guess'), client))
  t.strictSame(await Promise.all(outcomes), ['wrong', 'wrong', 'too many'])
  const right = basic('ann:correct horse')
  t.equal(await passwords.check(hash, right, '192.0.2.1'), 'right')
  t.equal(await passwords.check(await kept('battery'), right, '192.0.2.1'), 'wrong')
})
