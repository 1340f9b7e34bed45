import { randomBytes } from 'node:crypto'
import t from 'tap'
import { KeptForms } from '../../../lib/auth/login/kept-forms.ts'
import { tokensIn } from '../../../lib/auth/session/cookie.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import { cpuTimeOf } from '../../fixtures/time/cpu-time.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

t.test(
  '68: a head full of session cookies costs what its length costs, not the square of it',
  async t => {
    const flood = (piece: (i: number) => string) =>
      Fields.of(['Cookie', Array.from({ length: 40_000 }, (_, i) => piece(i)).join('; ')])
    const floods: Readonly<Record<string, Fields>> = {
      'first parts whose others are missing': flood(() => '__authproxy_session=8:a:x'),
      'others of no first part': flood(i => `__authproxy_session.1=${i}:x`),
      'one first part, and others of another tag': flood(i =>
        i === 0 ? '__authproxy_session=8:a:x' : `__authproxy_session.1=b${i}:x`,
      ),
    }
    for (const [what, fields] of Object.entries(floods)) {
      const time = await cpuTimeOf(() => t.same(tokensIn(fields), [], what))
      // It was half a minute; now it is some milliseconds, on whatever machine.
      t.ok(time < 8000, what)
    }
  },
)

t.test('68: of many session cookies few are looked at', t => {
  const whole = Array.from({ length: 900 }, (_, i) => `__authproxy_session=token${i}`).join('; ')
  t.equal(tokensIn(Fields.of(['Cookie', whole])).length, 12)
  t.end()
})

t.test('kept forms count for all they hold', t => {
  const forms = new KeptForms(new ManualClock(0), randomBytes)
  const contentType = `application/x-www-form-urlencoded; x=${'A'.repeat(100_000)}`
  const form = { contentType, content: Buffer.from('a=b') }
  for (let i = 0; i < 900; i += 1) {
    forms.put(`f${i}`, form, { owner: `user ${i}`, target: '/', network: 'n' }, 600_000)
  }
  t.ok(forms.bytes <= 32 * 1024 * 1024)
  t.ok(forms.bytes > 16 * 1024 * 1024)
  t.end()
})
