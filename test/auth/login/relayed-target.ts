/**
 * Where a login that the identity provider began leads to.
 */
import t from 'tap'
import { relayedTarget } from '../../../lib/auth/login/addresses.ts'
import { hrefOf } from '../../fixtures/saml/browser.ts'
import { SamlLab } from '../../fixtures/saml/lab.ts'

const base = 'https://app.example.org'

t.test('each form that can mean only one path of this host is taken', t => {
  for (const [relayState, path] of [
    ['', '/'],
    ['/deep?a=b#c', '/deep?a=b#c'],
    [`${base}/deep`, '/deep'],
    [base, '/'],
    [`${base}?x`, '/?x'],
    ['https://APP.example.org/x', '/x'],
    ['HTTPS://app.example.org/x', '/x'],
    ['https://app.example.org:443/x', '/x'],
    ['http://app.example.org/x', '/x'],
    ['http://app.example.org:80/x', '/x'],
    [`${base}/größe`, '/gr%C3%B6%C3%9Fe'],
    [`${base}/a b`, '/a%20b'],
    [` ${base}/x `, '/x'],
    ['https%3A%2F%2Fapp.example.org%2Fx%3Fa%3Db', '/x?a=b'],
    ['%2Fdeep%2Flink', '/deep/link'],
    ['/a%2Fb', '/a%2Fb'],
  ] as const) {
    t.same(relayedTarget(base, relayState), { path }, relayState)
  }
  t.end()
})

t.test('40: what could be another host, or leads back to the login, is not used', t => {
  for (const [relayState, ignored] of [
    ['https://evil.example/x', 'other-host'],
    ['https://app.example.org.evil.example/', 'other-host'],
    ['https://app.example.org@evil.example/', 'other-host'],
    ['https://app.example.org:8443/', 'other-host'],
    ['http://app.example.org:443/', 'other-host'],
    ['https://app.example.org%2eevil.example/', 'other-host'],
    ['https%3A%2F%2Fevil.example%2F', 'other-host'],
    ['https://app.example.org//evil.example/', 'other-host'],
    ['https://app.example.org/\\evil.example/', 'other-host'],
    ['https://app.example.org\\@evil.example/', 'other-host'],
    ['//evil.example/', 'other-host'],
    ['/\\evil.example/', 'other-host'],
    ['%2F%2Fevil.example/', 'other-host'],
    ['%2F%5Cevil.example/', 'other-host'],
    ['/.//evil.example/', 'own-path'],
    ['https:/evil.example/', 'no-address'],
    ['https:evil.example', 'no-address'],
    ['javascript:alert(1)', 'no-address'],
    ['data:text/html,x', 'no-address'],
    ['deep/link', 'no-address'],
    ['evil.example', 'no-address'],
    ['/x\r\nSet-Cookie: a=b', 'no-address'],
    ['%2Fx%0d%0aSet-Cookie:%20a=b', 'no-address'],
    ['%2F%', 'no-address'],
    ['/\ud800', 'no-address'],
    ['/saml/slo', 'own-path'],
    ['/__authproxy-redirect?login=/', 'own-path'],
    [`/${'x'.repeat(2000)}`, 'too-long'],
  ] as const) {
    t.same(relayedTarget(base, relayState), { path: '/', ignored }, relayState)
  }
  t.end()
})

t.test('a RelayState that is not used has a line in the log, without its query', async t => {
  const lab = await SamlLab.open(t, 'entra', { config: { idpInitiated: true } })
  const answer = (relayState: string) =>
    lab.browser.other().deliver(lab.idp.respond({ inResponseTo: undefined }), relayState)
  const to = (address: string) => new URL(address).searchParams.get('login')
  t.equal(to(hrefOf(await answer('HTTPS://APP.example.org/a b'))), '/a%20b')
  const ignored = () => lab.log.lines.filter(({ message }) => /RelayState/.test(message))
  t.equal(ignored().length, 0)
  t.equal(to(hrefOf(await answer('https://evil.example/x?secret=1'))), '/')
  t.match(ignored()[0]?.facts, { because: 'other-host', target: 'https://evil.example/x' })
})
