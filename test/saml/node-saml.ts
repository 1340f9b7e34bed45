/**
 * Our verifier against node-saml: what we take of responses that chance has changed, node-saml takes too, and finds the same assertion.
 */
import t, { type Test } from 'tap'
import { type ProfileName, profiles } from '../../demo/idp/profile.ts'
import { readAssertion } from '../../lib/saml/response/read-assertion.ts'
import { verifyResponse } from '../../lib/saml/response/verify-response.ts'
import { readMessage, signedLimits } from '../../lib/saml/xml/message.ts'
import { hostilePieces, seeded } from '../fixtures/chance/seeded-random.ts'
import { ScriptedIdp } from '../fixtures/saml/idp.ts'
import { assertionByNodeSaml } from '../fixtures/saml/node-saml.ts'

const names = Object.keys(profiles) as ProfileName[]
const pieces = [
  ...hostilePieces,
  ' xmlns:q="urn:q"',
  ' xmlns="urn:d"',
  ' xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion"',
  ' xmlns:xs="http://www.w3.org/2001/XMLSchema"',
  ' ',
  '\n',
  '&#97;',
  'admin',
  '<saml:NameID>admin@example.org</saml:NameID>',
]

/** Whether we take the response; compares when we do. */
async function isTaken(t: Test, response: string, certificates: readonly string[]) {
  const rules = { certificates, decryptionKeys: [], allowSha1: false }
  const ours = await verifyResponse(Buffer.from(response), rules, () => true)
  if (!ours.ok) return false
  const theirs = readMessage(await assertionByNodeSaml(response, certificates), signedLimits())
  t.strictSame(readAssertion(theirs.root), ours.assertion)
  return true
}

for (const name of names) {
  for (const signs of ['assertion', 'response', 'both'] as const) {
    t.test(`${name}, signed over ${signs}: node-saml finds the assertion we find`, async t => {
      const idp = new ScriptedIdp(name, { now: () => 1_000_000 })
      const good = idp.respond({ inResponseTo: '_1', signs })
      const certificates = [idp.key.certificate]
      t.ok(await isTaken(t, good, certificates), 'as it came')
      let taken = 0
      for (let seed = 0; seed < 30; seed += 1) {
        if (await isTaken(t, seeded(seed).mutate(good, pieces), certificates)) taken += 1
      }
      t.ok(taken >= 5, `${taken} of 30 were taken`)
    })
  }
}

t.test('a response that is not signed is taken by neither', async t => {
  const idp = new ScriptedIdp('entra', { now: () => 1_000_000 })
  const unsigned = idp.respond({ inResponseTo: '_1', signs: 'nothing' })
  t.notOk(await isTaken(t, unsigned, [idp.key.certificate]))
  await t.rejects(assertionByNodeSaml(unsigned, [idp.key.certificate]))
})
