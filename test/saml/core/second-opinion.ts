import t from 'tap'
import { readMessage } from '../../../lib/saml/core/message.ts'
import { checkSecondOpinion } from '../../../lib/saml/core/second-opinion.ts'
import { ns } from '../../../lib/saml/core/vocabulary.ts'
import { childOf } from '../../../lib/saml/core/xml.ts'
import { ScriptedIdp } from '../../fixtures/saml/idp.ts'

const idp = new ScriptedIdp('entra', { now: () => Date.now() })
const good = idp.respond({ inResponseTo: '_1' })

function assertionIn(response: string) {
  const assertion = childOf(readMessage(response).root, ns.assertion, 'Assertion')
  if (assertion === undefined) throw new Error('no assertion')
  return assertion
}

t.test('node-saml has to find the assertion we found, word for word', async t => {
  const certificates = [idp.key.certificate]
  await checkSecondOpinion(good, assertionIn(good), certificates)
  for (const [from, to] of [
    ['alice@example.org', 'admin@example.org'],
    ['<saml:AttributeStatement>', '<saml:AttributeStatement> '],
    ['<saml:AttributeStatement>', '<saml:AttributeStatement a="b">'],
    ['<saml:AttributeStatement>', '<saml:AttributeStatement><saml:Attribute/>'],
  ] as const) {
    const other = good.replace(from, to)
    t.not(other, good)
    await t.rejects(checkSecondOpinion(good, assertionIn(other), certificates), {
      because: 'second_opinion',
      message: 'node-saml finds another assertion in it',
    })
  }
})

t.test('what node-saml refuses is refused', async t => {
  const other = idp.respond({ inResponseTo: '_2', signs: 'nothing' })
  await t.rejects(checkSecondOpinion(other, assertionIn(other), [idp.key.certificate]), {
    because: 'second_opinion',
    message: /^node-saml refuses it: /,
  })
})
