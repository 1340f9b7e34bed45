/**
 * The whole gateway with nothing staged: real HTTP, real sessions, a scripted IdP, the machine's clock.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { DevUser, ProfileName } from '../../../lib/auth/dev-idp/profile.ts'
import { createSamlService } from '../../../lib/auth/saml/service.ts'
import { startService } from '../../../lib/auth/service.ts'
import { systemClock } from '../../../lib/clock.ts'
import { Fields } from '../../../lib/http/field.ts'
import type { Response } from '../../../lib/http/message.ts'
import { createMemoryLog } from '../../../lib/log.ts'
import { gatewayConfig } from '../../fixtures/gateway.ts'
import { alice, ScriptedIdp, sp } from '../../fixtures/idp.ts'
import { RawClient } from '../../fixtures/raw-client.ts'
import { formOf, hrefOf, htmlOf, inputsOf, pathOf, readAsked } from '../../fixtures/saml-browser.ts'
import { reply, ScriptedOrigin } from '../../fixtures/scripted-origin.ts'

async function start(
  t: Test,
  profile: ProfileName,
  settings: Readonly<Record<string, unknown>> = {},
) {
  const directory = await mkdtemp(join(tmpdir(), 'authproxy-'))
  t.teardown(() => rm(directory, { recursive: true, force: true }))
  const idp = new ScriptedIdp(profile, { now: () => Date.now() })
  const idpMetadataFile = join(directory, 'idp.xml')
  await writeFile(idpMetadataFile, idp.metadata())
  const backend = await ScriptedOrigin.listen(t)
  backend.at('*', reply({ content: 'the application' }))
  const config = gatewayConfig({
    domain: sp.domain,
    idpMetadataFile,
    configPath: join(directory, 'app.json'),
    ...settings,
    proxy: { listenAddress: '127.0.0.1:0', targetURL: backend.url('') },
  })
  const log = createMemoryLog()
  const service = await startService({
    config,
    log,
    start: { sockets: [], signal: new AbortController().signal },
    reload: async () => ({ config }),
    createSaml: createSamlService,
    clock: systemClock,
    modulusLength: 2048,
  })
  t.teardown(async () => {
    for (const step of service.stop) await step.stop()
  })
  const codes = () => log.lines.map(line => line.facts['code']).filter(code => code !== undefined)
  return { idp, backend, browser: new HttpBrowser(t, service.port), codes }
}

/** Cookies as a browser keeps them on https, over plain connections as behind an edge. */
class HttpBrowser {
  readonly cookies = new Map<string, string>()
  readonly #t: Test
  readonly #port: number

  constructor(t: Test, port: number) {
    this.#t = t
    this.#port = port
  }

  navigate(target: string, more: Readonly<Record<string, string>> = {}): Promise<Response> {
    return this.send('GET', target, {
      Accept: 'text/html',
      'Sec-Fetch-Mode': 'navigate',
      'Sec-Fetch-Dest': 'document',
      ...more,
    })
  }

  post(
    target: string,
    content: string,
    more: Readonly<Record<string, string>> = {},
  ): Promise<Response> {
    const type = 'application/x-www-form-urlencoded'
    return this.send(
      'POST',
      target,
      {
        Accept: 'text/html',
        'Sec-Fetch-Mode': 'navigate',
        'Sec-Fetch-Dest': 'document',
        'Content-Type': type,
        ...more,
      },
      content,
    )
  }

  async send(
    method: string,
    target: string,
    fields: Readonly<Record<string, string>>,
    content = '',
  ): Promise<Response> {
    const client = await RawClient.connect(this.#t, this.#port)
    const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ')
    const all = {
      Host: sp.domain,
      'X-Forwarded-Proto': 'https',
      ...fields,
      ...(cookie === '' ? {} : { Cookie: cookie }),
      ...(method === 'POST' ? { 'Content-Length': String(Buffer.byteLength(content)) } : {}),
    }
    await client.request(method, target, all)
    if (content !== '') await client.write(content)
    const { status, fields: received, content: bytes } = await client.response()
    for (const line of received.all('Set-Cookie')) this.#keep(line)
    return { status, fields: Fields.fromFlat(received.flat), content: { kind: 'bytes', bytes } }
  }

  #keep(line: string): void {
    const [pair = ''] = line.split(';')
    const equals = pair.indexOf('=')
    if (line.length > 4096) return
    if (/max-age=0/i.test(line)) this.cookies.delete(pair.slice(0, equals))
    else this.cookies.set(pair.slice(0, equals), pair.slice(equals + 1))
  }
}

function answer(idp: ScriptedIdp, inResponseTo: string, user: DevUser = alice): string {
  return formOf({
    SAMLResponse: Buffer.from(idp.respond({ inResponseTo, user })).toString('base64'),
  })
}

for (const profile of ['entra', 'keycloak', 'shibboleth'] as const) {
  t.test(
    `from a deep link to the application and out again, with an IdP like ${profile}`,
    async t => {
      const { idp, backend, browser, codes } = await start(t, profile)
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
      t.equal((await browser.navigate('/deep')).status, 200)
      t.equal(backend.requests.length, 1)
      t.strictSame(codes(), [])
    },
  )
}

t.test('somebody with 300 groups gets in, in several cookies if need be', async t => {
  const { idp, backend, browser } = await start(t, 'adfs')
  const groups = Array.from({ length: 300 }, (_, i) => `CN=Team ${i},OU=Groups,DC=example,DC=org`)
  const asked = readAsked(await browser.navigate('/'))
  const taken = await browser.post('/saml/acs', answer(idp, asked.id, { ...alice, groups }))
  t.equal(taken.status, 303)
  await browser.navigate(pathOf(hrefOf(taken)))
  t.equal(htmlOf(await browser.navigate('/')), 'the application')
  t.equal(backend.requests[0]?.fields.get('X-Authproxy-Groups')?.split(',').length, 300)
})

t.test('a forged answer gets the page, the log the code, and nobody a session', async t => {
  const { idp, backend, browser, codes } = await start(t, 'okta')
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
  t.equal((await browser.navigate('/')).status, 200)
  t.strictSame(backend.requests, [])
})

t.test('a post in the middle of an expired session arrives after the login', async t => {
  const { idp, backend, browser } = await start(t, 'entra')
  const own = { 'Sec-Fetch-Site': 'same-origin', Origin: sp.baseUrl }
  const asked = readAsked(await browser.post('/save', 'text=a%26b', own))
  const taken = await browser.post('/saml/acs', answer(idp, asked.id))
  const page = await browser.navigate(pathOf(hrefOf(taken)))
  t.match(page.fields.get('Content-Security-Policy'), /form-action 'self' https:/)
  t.match(htmlOf(page), `action="${sp.baseUrl}/save"`)
  await browser.post('/save', formOf(inputsOf(htmlOf(page))), own)
  t.equal(backend.requests[0]?.content.toString(), 'text=a%26b')
})
