import t from 'tap'
import { profiles } from '../../../lib/auth/dev-idp/profile.ts'
import { hrefOf, htmlOf } from '../../fixtures/saml-browser.ts'
import { keyPair, SamlLab, start } from '../../fixtures/saml-lab.ts'

for (const name of Object.keys(profiles) as Array<keyof typeof profiles>) {
  t.test(
    `somebody signs in at an IdP that answers like ${name}, in the open and encrypted`,
    async t => {
      const lab = await SamlLab.open(t, name)
      const { browser, idp } = lab
      for (const encrypted of [false, true]) {
        const asked = await browser.login('/reports?year=2026&all')
        t.match(asked, { issuer: lab.config.entityId, acs: lab.config.acsUrl, forceAuthn: false })
        const encryptTo = encrypted ? { encryptTo: keyPair('sp').certificate } : {}
        const answer = await browser.deliver(
          idp.respond({ inResponseTo: asked.id, ...encryptTo }),
          asked.relayState,
        )
        t.strictSame(lab.codes, [])
        t.equal(answer.status, 303)
        const back = await browser.get(
          new URL(hrefOf(answer)).pathname + new URL(hrefOf(answer)).search,
        )
        t.equal(hrefOf(back), 'https://app.example.org/reports?year=2026&all')
        t.match(htmlOf(back), `data-restore="${asked.relayState}"`, 'the fragment is put back')
      }
      t.equal(lab.subjects.length, 2)
      const [subject] = lab.subjects
      t.match(subject, { issuer: idp.entityId, authenticated: start, sessionEnds: undefined })
      const values = subject?.attributes.flatMap(attribute => attribute.values) ?? []
      t.ok(
        values.includes('alice@example.org') &&
          values.includes('staff') &&
          values.includes('admins'),
      )
    },
  )
}
