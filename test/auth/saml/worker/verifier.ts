import t from 'tap'
import { ManualClock } from '../../../../lib/async/clock.ts'
import { Verifier } from '../../../../lib/auth/saml/worker/verifier.ts'
import { ScriptedIdp } from '../../../fixtures/idp.ts'
import { rsaPair } from '../../../fixtures/saml-keys.ts'

const rules = { certificates: [rsaPair('idp').certificate], decryptionKeys: [], allowSha1: false }

function open(
  t: { teardown(action: () => unknown): void },
  options: { threads?: number; waiting?: number } = {},
) {
  const clock = new ManualClock(0)
  const verifier = new Verifier({ clock, deadline: 10_000, ...options })
  t.teardown(() => verifier.close())
  return { clock, verifier }
}

const response = Buffer.from(new ScriptedIdp('okta', { now: () => 0 }).respond({}))

t.test('jobs get verdicts, more of them than there are threads', async t => {
  const { verifier } = open(t, { threads: 1 })
  const verdicts = await Promise.all([1, 2, 3].map(() => verifier.response(response, rules)))
  t.strictSame(
    verdicts.map(verdict => verdict.ok),
    [true, true, true],
  )
  t.match(await verifier.response(Buffer.from('<a'), rules), {
    ok: false,
    because: 'xml_not-well-formed',
  })
  t.match(await verifier.logout(Buffer.from('<a/>'), { ...rules, signedOutside: false }), {
    ok: false,
    because: 'logout_form',
  })
})

t.test('a job beyond its deadline costs its thread, and the next has another', async t => {
  const { verifier, clock } = open(t, { threads: 1 })
  const late = verifier.response(response, rules)
  const waiting = verifier.response(response, rules)
  clock.advance(10_000)
  await t.rejects(late, { code: 'verifier_deadline' })
  await t.rejects(waiting, { code: 'verifier_deadline' })
  t.equal((await verifier.response(response, rules)).ok, true)
})

t.test('a queue that is full refuses', async t => {
  const { verifier } = open(t, { threads: 1, waiting: 1 })
  const first = verifier.response(response, rules)
  const second = verifier.response(response, rules)
  await t.rejects(verifier.response(response, rules), { code: 'verifier_busy' })
  t.strictSame(
    (await Promise.all([first, second])).map(verdict => verdict.ok),
    [true, true],
  )
})

t.test('closing ends what is under way and what waits', async t => {
  const { verifier } = open(t, { threads: 1 })
  const both = [verifier.response(response, rules), verifier.response(response, rules)]
  const settled = Promise.allSettled(both)
  await verifier.close()
  t.match(await settled, [{ status: 'rejected' }, { status: 'rejected' }])
  await t.rejects(verifier.response(response, rules), { code: 'verifier_crashed' })
})
