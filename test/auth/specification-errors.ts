/**
 * The specification, sections 7 and 8: what fails, how it is told, and the limits. Those of metadata are in
 * specification-metadata.ts.
 */
import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { makeAuthority } from '../fixtures/certificates/certificate.ts'
import { nodeBackend } from '../fixtures/gateway/node-backend.ts'
import { ownDirectory, startWhole } from '../fixtures/gateway/whole-gateway.ts'
import { RawClient } from '../fixtures/http/raw-client.ts'
import { ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'
import { htmlOf } from '../fixtures/saml/browser.ts'
import { alice, sp } from '../fixtures/saml/idp.ts'

const transient = 'urn:oasis:names:tc:SAML:2.0:nameid-format:transient'

t.test('7. No subject: 403, the SAML session has no usable subject identifier', async t => {
  const { browser, idp, codes } = await startWhole(t)
  const nobody = { name: 'nobody', email: '', sAMAccountName: '' }
  const empty = { nameId: { value: '', format: transient }, attributes: [] }
  for (const assertion of [empty, { ...empty, nameId: undefined }]) {
    const { taken } = await browser.signIn(idp, { user: nobody, assertion })
    t.equal(taken.status, 403)
    t.match(htmlOf(taken), 'The SAML session has no usable subject identifier.')
    t.notOk(browser.cookies.has('__authproxy_session'))
  }
  t.match([...new Set(codes())], ['subject_missing'])
})

t.test('7. Backend unreachable: 502 Proxy Error, request ID, PROXY-ERROR record', async t => {
  const { key, cert } = makeAuthority().issue({ names: ['127.0.0.1'] })
  const untrusted = await ScriptedOrigin.listen(t, { tls: { key, cert } })
  const broken = await ScriptedOrigin.listen(t)
  broken.at('*', answer => answer.reset())
  for (const [what, targetURL] of [
    ['nobody listens', 'http://127.0.0.1:9'],
    ['TLS not trusted', untrusted.url('')],
    ['breaks off', broken.url('')],
    ['no such name', 'http://backend.invalid'],
  ] as const) {
    const { browser, idp, records } = await startWhole(t, { proxy: { targetURL } })
    await browser.signIn(idp)
    const answer = await browser.navigate('/')
    t.equal(answer.status, 502, what)
    t.equal(answer.reason, 'Proxy Error', what)
    const [record] = records('PROXY-ERROR')
    t.match(htmlOf(answer), String(record?.facts['id']))
    t.ok(record?.facts['error'], 'with the underlying error')
  }
})

t.test('7. Session too large: said at once, in place of a login loop', async t => {
  const { browser, idp, codes } = await startWhole(t)
  const groups = Array.from({ length: 800 }, (_, i) => `${i}-${Math.sin(i)}`)
  const { taken } = await browser.signIn(idp, { user: { ...alice, groups } })
  t.equal(taken.status, 403)
  t.match(htmlOf(taken), /too large for the browser/)
  t.match(htmlOf(taken), /groups/, 'names what is large')
  t.match([...new Set(codes())], ['cookie_too_large'])
})

t.test('7. Configuration not loadable: the program ends and says why', async t => {
  const directory = await ownDirectory(t)
  const proxy = 'proxy: {listenAddress: "127.0.0.1:0", targetURL: "http://127.0.0.1:9"}\n'
  for (const [name, text, expected] of [
    ['nameless', `idpMetadataFile: /idp.xml\n${proxy}`, /domain not set/],
    ['broken', 'domain: [unclosed\n', /failed to load configuration.*\n.*broken\.yaml:\d+:\d+/],
    ['missing', undefined, /failed to load configuration.*\n.*missing\.yaml/],
  ] as const) {
    if (text !== undefined) await writeFile(join(directory, `${name}.yaml`), text)
    const ended = await new Promise<{ code: unknown; stderr: string }>(resolve => {
      const program = ['dist/bin/authproxy.js', 'serve', name, '--config-dir', directory]
      const options = { timeout: 30_000, env: { PATH: process.env['PATH'] } }
      execFile(process.execPath, program, options, (error, _, stderr) =>
        resolve({ code: error?.code ?? 0, stderr }),
      )
    })
    t.ok(typeof ended.code === 'number' && ended.code > 0, 'with an exit code')
    t.match(ended.stderr, expected)
  }
})

t.test('7. and 8. Request headers: up to 1 MiB are accepted, larger ones are 431', async t => {
  const targetURL = await nodeBackend(t, (_, response) => response.end('large'))
  const { port } = await startWhole(t, {
    settings: { passthroughPaths: ['/open/'] },
    proxy: { targetURL },
  })
  const head = `GET /open/ HTTP/1.1\r\nHost: ${sp.domain}\r\nX-Large: \r\n\r\n`
  const fill = 1024 * 1024 - head.length
  for (const [size, status] of [
    [fill - 1000, 200],
    [fill + 1000, 431],
  ] as const) {
    const client = await RawClient.connect(t, port)
    const sent = client.write(head.replace('Large: ', `Large: ${'x'.repeat(size)}`))
    sent.catch(() => undefined)
    t.equal((await client.response()).status, status, `${size} bytes of value`)
  }
})

t.test('8. Browser cookies: none is larger than browsers keep', async t => {
  const { browser, idp } = await startWhole(t)
  const groups = Array.from({ length: 200 }, (_, i) => `${i}-${Math.sin(i)}`)
  await browser.signIn(idp, { user: { ...alice, groups } })
  for (const line of browser.lines) t.ok(line.split(';', 1).join('').length <= 4096)
  t.equal(htmlOf(await browser.navigate('/')), 'the application')
})
