import t from 'tap'
import { ScriptedIdp } from '../../fixtures/idp.ts'
import { makeClient } from '../../fixtures/origin-client.ts'
import { rsaPair } from '../../fixtures/saml-keys.ts'
import { SamlLab } from '../../fixtures/saml-lab.ts'
import { reply, ScriptedOrigin } from '../../fixtures/scripted-origin.ts'

t.test('no login fails when the IdP changes its key overnight', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const idp = new ScriptedIdp('okta', { now: () => 0 })
  origin.at('/metadata', reply({ content: idp.metadata() }))
  const { client } = makeClient(t)
  const lab = await SamlLab.open(t, 'okta', {
    config: { idpMetadata: { from: 'url', url: origin.url('/metadata') } },
    doors: { origin: client },
  })
  const before = await lab.browser.login('/')
  idp.key = rsaPair('next')
  lab.idp.key = rsaPair('next')
  origin.at('/metadata', reply({ content: idp.metadata() }))
  await lab.browser.deliver(lab.idp.respond({ inResponseTo: before.id }))
  t.strictSame(lab.codes, [])
  t.equal(lab.subjects.length, 1)
  t.equal(origin.seen('/metadata').length, 2)

  const browser = lab.browser.other()
  for (let i = 0; i < 3; i += 1) {
    const asked = await browser.login('/')
    await browser.deliver(lab.idp.respond({ inResponseTo: asked.id, key: rsaPair('stranger') }))
  }
  t.strictSame(lab.codes, Array(3).fill('signature_invalid'))
  t.equal(origin.seen('/metadata').length, 2, 'a forger does not make us ask again at once')
})
