import t from 'tap'
import { profiles } from '../../../demo/idp/profile.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import { checkRedirectSignature, readRedirect } from '../../../lib/saml/binding/redirect.ts'
import { verifySignature } from '../../../lib/saml/signature/signature.ts'
import { messageLimits } from '../../../lib/saml/xml/message.ts'
import { parseXml } from '../../../lib/saml/xml/scan.ts'
import { attributeOf } from '../../../lib/saml/xml/xml.ts'
import {
  formOf,
  hrefOf,
  htmlOf,
  inputsOf,
  makeRequest,
  pathOf,
} from '../../fixtures/saml/browser.ts'
import { keyPair, SamlLab, signIn, start } from '../../fixtures/saml/lab.ts'

for (const name of Object.keys(profiles) as Array<keyof typeof profiles>) {
  t.test(
    `a user signs in at an IdP that answers like ${name}, in the open and encrypted`,
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

t.test('a browser gets a page that keeps the fragment, anything else a redirect', async t => {
  const lab = await SamlLab.open(t, 'entra')
  const asked = await lab.browser.login('/x')
  t.equal(asked.response.status, 401, 'no service worker keeps it in the place of a page')
  t.match(asked.response.fields.get('WWW-Authenticate'), 'redirect?login=%2Fx')
  t.match(htmlOf(asked.response), `data-login="${asked.relayState}" data-address="/x"`)
  t.match(htmlOf(asked.response), /<noscript><meta http-equiv="refresh"/)
  const request = makeRequest('GET', '/x')
  const plain = await lab.service.startLogin(request, { returnTo: '/x' })
  t.equal(plain.status, 302)
  t.match(
    plain.fields.get('Location'),
    /^https:\/\/idp\.example\.org\/sso\?SAMLRequest=[^&]+&RelayState=[^&]+$/,
  )
  const [cookie = ''] = plain.fields.all('Set-Cookie')
  t.match(
    cookie,
    /^__Host-authproxy_login\.[\w-]{27}=s1\.[\w-]+; Path=\/; Max-Age=600; Secure; HttpOnly; SameSite=None$/,
  )
  t.equal(plain.fields.get('Cache-Control'), 'no-store')
})

t.test('requests are signed when the IdP wishes, or the configuration says', async t => {
  const cases: ReadonlyArray<readonly ['auto' | 'always' | 'never', boolean, boolean]> = [
    ['auto', false, false],
    ['auto', true, true],
    ['always', false, true],
    ['never', true, false],
  ]
  for (const [requestSigning, wantAuthnRequestsSigned, signed] of cases) {
    const lab = await SamlLab.open(t, 'entra', {
      config: { requestSigning },
      metadata: { wantAuthnRequestsSigned },
    })
    const { address } = await lab.browser.login('/')
    const query = readRedirect(address.slice(address.indexOf('?') + 1))
    if (typeof query !== 'object') throw new Error('no message')
    const rules = { certificates: [keyPair('sp').certificate], allowSha1: false }
    t.equal(checkRedirectSignature(query, rules), signed ? undefined : 'signature_missing')
    const xml = htmlOf(await lab.browser.get('/saml/metadata'))
    t.match(xml, `AuthnRequestsSigned="${signed}"`)
  }
})

t.test('an IdP that takes requests by POST only gets a form, signed inside', async t => {
  const lab = await SamlLab.open(t, 'okta', {
    config: { requestSigning: 'always', forceAuthn: true, authnContext: ['urn:a', 'urn:b'] },
    metadata: { signOnBindings: ['post'], signOn: 'https://idp.example.org/sso?a=1&b=2' },
  })
  const asked = await lab.browser.login('/x')
  t.match(asked, {
    address: 'https://idp.example.org/sso?a=1&b=2',
    forceAuthn: true,
    destination: 'https://idp.example.org/sso?a=1&b=2',
  })
  const message = inputsOf(htmlOf(asked.response))['SAMLRequest'] ?? ''
  const parsed = parseXml(Buffer.from(message, 'base64'), messageLimits)
  if (!parsed.ok) throw new Error(parsed.problem)
  const rules = { certificates: [keyPair('sp').certificate], allowSha1: false }
  t.ok(verifySignature(parsed, parsed.root, rules))
  t.match(parsed.text, /RequestedAuthnContext Comparison="exact"/)
  t.match(asked.response.fields.get('X-Form-Action'), /https:/)
})

t.test('40: no path sends a browser to another host', async t => {
  const lab = await SamlLab.open(t, 'entra')
  const cases: ReadonlyArray<readonly [string, string]> = [
    ['//evil.example', '/'],
    ['/\\evil.example', '/'],
    ['/.//evil.example', '/'],
    ['/..//evil.example', '/'],
    ['/%2e//evil.example', '/'],
    ['/a/../\\evil.example', '/'],
    ['/a//b', '/a//b'],
    ['/a\tb', '/'],
    ['https://evil.example', '/'],
    ['', '/'],
    ['/saml/slo', '/'],
    ['/__authproxy-redirect?login=/x', '/'],
    ['/samltest', '/samltest'],
  ]
  for (const [returnTo, path] of cases) {
    const browser = lab.browser.other()
    const { back } = await signIn(lab, returnTo, browser)
    t.equal(hrefOf(back), `https://app.example.org${path}`, returnTo)
    const address = lab.service.loginAddress(returnTo)
    t.ok(address.startsWith('https://app.example.org/__authproxy-redirect?login=%2F'), address)
    t.equal(hrefOf(await browser.get(pathOf(address))), `https://app.example.org${path}`)
  }
})

t.test(
  'after a key rotation, assertions encrypted to the old key are read for as long as it is kept',
  async t => {
    const lab = await SamlLab.open(t, 'keycloak')
    lab.pairs = [keyPair('sp-new'), keyPair('sp')]
    for (const content of ['aes256-cbc', 'aes128-gcm'] as const) {
      for (const key of ['rsa-oaep-mgf1p', 'rsa-oaep-sha256'] as const) {
        const browser = lab.browser.other()
        const asked = await browser.login('/')
        const encryption = { content, key }
        await browser.deliver(
          lab.idp.respond({
            inResponseTo: asked.id,
            encryption,
            encryptTo: keyPair('sp').certificate,
          }),
        )
      }
    }
    t.equal(lab.subjects.length, 4)
    const xml = htmlOf(await lab.browser.get('/saml/metadata.xml'))
    t.equal(xml.match(/use="encryption"/g)?.length, 2)
    t.equal(xml.match(/use="signing"/g)?.length, 1)
    lab.pairs = [keyPair('sp-new')]
    const browser = lab.browser.other()
    const asked = await browser.login('/')
    await browser.deliver(
      lab.idp.respond({ inResponseTo: asked.id, encryptTo: keyPair('sp').certificate }),
    )
    t.strictSame(lab.codes, ['encryption_key'])
  },
)

t.test(
  'unsolicited answers are taken when that is switched on, each once, and end at the front page',
  async t => {
    const lab = await SamlLab.open(t, 'okta', { config: { idpInitiated: true } })
    const xml = lab.idp.respond({})
    const answer = await lab.browser.deliver(xml, 'https://evil.example/')
    t.equal(hrefOf(await lab.browser.get(pathOf(hrefOf(answer)))), 'https://app.example.org/')
    await lab.browser.other().deliver(xml)
    t.strictSame(lab.codes, ['replay'])
  },
)

t.test(
  'an unsolicited answer ends where its RelayState says, if that is a path of ours',
  async t => {
    const lab = await SamlLab.open(t, 'okta', { config: { idpInitiated: true } })
    for (const [relayState, path] of [
      ['/deep?a=1', '/deep?a=1'],
      [`${lab.config.baseUrl}/deep`, '/deep'],
      [`${lab.config.baseUrl}.evil.example/`, '/'],
      [`/${'x'.repeat(3000)}`, '/'],
      ['/saml/slo', '/'],
      ['', '/'],
    ] as const) {
      const answer = await lab.browser.other().deliver(lab.idp.respond({}), relayState)
      const login = new URL(hrefOf(answer)).searchParams.get('login')
      t.equal(login, path, relayState)
    }
  },
)

t.test('a user who is signed in and posts an answer nothing waits for goes on', async t => {
  const lab = await SamlLab.open(t, 'entra')
  await signIn(lab)
  const answer = await lab.browser.deliver(lab.idp.respond({ inResponseTo: '_gone' }))
  t.equal(hrefOf(answer), `${lab.config.baseUrl}/`)
  t.equal(lab.subjects.length, 1)
})

t.test('a clock that is off is named in seconds', async t => {
  const lab = await SamlLab.open(t, 'adfs')
  const asked = await lab.browser.login('/')
  const ahead = lab.clock.now() + 150_000
  await lab.browser.deliver(
    lab.idp.respond({
      inResponseTo: asked.id,
      response: { issued: ahead },
      assertion: { issued: ahead, notBefore: ahead },
    }),
  )
  t.match(lab.failures.at(-1), {
    code: 'issue_instant',
    facts: { clockAheadSeconds: 150, clock: 'the clock of the IdP is 150 s ahead of ours' },
  })
})

t.test(
  'a login takes no longer than it may, and survives a restart and a new sealing key',
  async t => {
    const lab = await SamlLab.open(t, 'entra')
    const asked = await lab.browser.login('/')
    lab.sealing = [{ kid: 's2', key: Buffer.alloc(32, 7) }, ...lab.sealing]
    lab.clock.advance(599_000)
    const answer = await lab.browser.deliver(lab.idp.respond({ inResponseTo: asked.id }))
    t.equal(answer.status, 303)
    const browser = lab.browser.other()
    const late = await browser.login('/')
    lab.clock.advance(600_000)
    const page = await browser.deliver(lab.idp.respond({ inResponseTo: late.id }))
    t.strictSame(lab.codes, [], 'perhaps a session cookie was held back')
    const again = formOf({ ...inputsOf(htmlOf(page)), RelayState: `again.${'A'.repeat(27)}` })
    await browser.deliverRaw(again, '/saml/acs?again')
    t.strictSame(lab.codes, ['login_unknown'])
  },
)

t.test('the certificate and both metadata addresses are served', async t => {
  const lab = await SamlLab.open(t, 'entra')
  const certificate = await lab.browser.get('/saml/certificate.crt')
  t.equal(htmlOf(certificate), keyPair('sp').certificate)
  const metadata = await lab.browser.get('/saml/metadata')
  t.equal(metadata.fields.get('Content-Type'), 'application/samlmetadata+xml')
  t.equal(htmlOf(await lab.browser.get('/saml/metadata.xml')), htmlOf(metadata))
  for (const [target, seen] of [
    ['/saml/certificate.crt', certificate],
    ['/saml/metadata', metadata],
  ] as const) {
    t.equal(seen.fields.get('Cache-Control'), 'no-cache')
    const known = ['If-None-Match', seen.fields.get('ETag')] as const
    const request = makeRequest('GET', target, { fields: Fields.of(known) })
    const again = await lab.service.handle(request, target)
    t.equal(again?.status, 304, target)
  }
  const parsed = parseXml(Buffer.from(htmlOf(metadata)), messageLimits)
  if (!parsed.ok) throw new Error(parsed.problem)
  t.equal(attributeOf(parsed.root, 'entityID'), 'https://app.example.org/saml/metadata')
  t.match(htmlOf(metadata), /NameIDFormat>urn:oasis:names:tc:SAML:2.0:nameid-format:transient</)
  t.equal((await lab.browser.get('/saml/acs')).status, 405)
  t.match(lab.service.readings(), {
    ownCertificateEnds: Date.parse('2049-01-01T00:00:00Z'),
  })
  t.strictSame(lab.service.problems(), [])
})
