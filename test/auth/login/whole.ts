/**
 * The whole gateway with nothing staged: real HTTP, real sessions, a scripted IdP, the machine's clock.
 */
import { rmSync } from 'node:fs'
import t from 'tap'
import type { DevUser } from '../../../demo/idp/profile.ts'
import { startWhole } from '../../fixtures/gateway/whole-gateway.ts'
import { formOf, hrefOf, htmlOf, pathOf, readAsked } from '../../fixtures/saml/browser.ts'
import { alice, type ScriptedIdp } from '../../fixtures/saml/idp.ts'

function answer(idp: ScriptedIdp, inResponseTo: string, user: DevUser = alice): string {
  return formOf({
    SAMLResponse: Buffer.from(idp.respond({ inResponseTo, user })).toString('base64'),
  })
}

for (const profile of ['entra', 'keycloak', 'shibboleth'] as const) {
  t.test(
    `from a deep link to the application and out again, with an IdP like ${profile}`,
    async t => {
      const { idp, backend, browser, codes } = await startWhole(t, { profile })
      const asked = readAsked(await browser.navigate('/deep/link?x=%2F&y'))
      const taken = await browser.post('/saml/acs', answer(idp, asked.id))
      t.equal(taken.status, 303)
      const back = await browser.navigate(pathOf(hrefOf(taken)))
      t.match(back.fields.get('Content-Security-Policy'), /script-src 'nonce-/)
      t.equal(pathOf(hrefOf(back)), '/deep/link?x=%2F&y')
      const page = await browser.navigate(pathOf(hrefOf(back)))
      t.equal(htmlOf(page), 'the application')
      const [request] = backend.requests
      t.equal(request?.target, '/deep/link?x=%2F&y')
      t.equal(request?.fields.get('X-Authproxy-User'), 'alice@example.org')
      t.equal(request?.fields.get('X-Authproxy-Groups'), 'staff,admins')
      t.notMatch(request?.fields.get('Cookie') ?? '', /authproxy/)
      const out = await browser.navigate('/saml/slo')
      t.equal(out.status, 303)
      t.match(hrefOf(out), /^https:\/\/idp\.example\.org\/slo\?SAMLRequest=/)
      t.equal((await browser.navigate('/deep')).status, 401)
      t.equal(backend.requests.length, 1)
      t.strictSame(codes(), [])
    },
  )
}

t.test('a user with 300 groups gets in, in several cookies if need be', async t => {
  const { idp, backend, browser } = await startWhole(t, { profile: 'adfs' })
  const groups = Array.from({ length: 300 }, (_, i) => `CN=Team ${i},OU=Groups,DC=example,DC=org`)
  const asked = readAsked(await browser.navigate('/'))
  const taken = await browser.post('/saml/acs', answer(idp, asked.id, { ...alice, groups }))
  t.equal(taken.status, 303)
  await browser.navigate(pathOf(hrefOf(taken)))
  t.equal(htmlOf(await browser.navigate('/')), 'the application')
  t.equal(backend.requests[0]?.fields.get('X-Authproxy-Groups')?.split(',').length, 300)
})

t.test('300 groups of realistic length reach the application whole', async t => {
  const { idp, backend, browser, codes } = await startWhole(t, { profile: 'adfs' })
  const words = ['finance', 'payroll', 'reports', 'archive', 'intranet', 'database', 'helpdesk']
  const units = ['Corporate Services', 'Information Technology', 'Human Resources', 'Logistics']
  const word = (i: number) => `${words[i % 7]}-${words[(i * 5 + Math.trunc(i / 7)) % 7]}-${i}`
  const groups = Array.from(
    { length: 300 },
    (_, i) =>
      `CN=APP-${word(i)}-editors,OU=Application Groups,OU=${units[i % 4]},OU=Groups,DC=corp,DC=example,DC=org`,
  )
  const mean = groups.join('').length / groups.length
  t.ok(mean > 100 && mean < 120, `${mean} characters each`)
  await browser.signIn(idp, { user: { ...alice, groups } })
  t.equal(htmlOf(await browser.navigate('/')), 'the application')
  const fields = backend.requests[0]?.fields
  t.same(fields?.get('X-Authproxy-Groups')?.split(',').map(decodeURIComponent), groups)
  t.equal(fields?.get('X-Authproxy-User'), 'alice@example.org')
  t.notOk(fields?.has('X-Authproxy-Omitted'))
  for (const [name, value] of browser.cookies) t.ok(name.length + value.length <= 4096, name)
  t.same(codes(), [])
})

t.test('a forged answer gets the page, the log gets the code, and there is no session', async t => {
  const { idp, backend, browser, codes } = await startWhole(t, { profile: 'okta' })
  const asked = readAsked(await browser.navigate('/'))
  const refused = await browser.post(
    '/saml/acs',
    formOf({
      SAMLResponse: Buffer.from(idp.respond({ inResponseTo: asked.id, signs: 'nothing' })).toString(
        'base64',
      ),
    }),
  )
  t.equal(refused.status, 403)
  t.match(htmlOf(refused), /Signing in did not work/)
  t.match(codes(), ['signature_missing'])
  t.equal((await browser.navigate('/')).status, 401)
  t.strictSame(backend.requests, [])
})

t.test(
  'a logout that cannot be written down clears the cookie and ends the session all the same',
  async t => {
    const directory = t.testdir()
    const { backend, browser, idp, newBrowser, log } = await startWhole(t, {
      directory,
      profile: 'entra',
    })
    await browser.signIn(idp)
    const thief = newBrowser()
    for (const [name, value] of browser.cookies) thief.cookies.set(name, value)
    await thief.navigate('/copied')
    t.equal(backend.seen('/copied').length, 1, 'a copy is as good as the session')
    rmSync(directory, { recursive: true })
    t.ok((await browser.navigate('/saml/slo')).status < 400)
    t.notOk(browser.cookies.has('__authproxy_session'))
    await thief.navigate('/copied')
    t.equal(backend.seen('/copied').length, 1, 'and ends with it')
    t.ok(log.lines.some(({ message }) => /could not be written down/.test(message)))
  },
)
