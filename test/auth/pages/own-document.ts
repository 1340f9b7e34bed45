import { decodeProtectedHeader } from 'jose'
import t from 'tap'
import type { IdentityKey } from '../../../lib/auth/keys/dynamic-config.ts'
import { publishedFor, signingKey } from '../../../lib/auth/keys/dynamic-config.ts'
import { keySetPath } from '../../../lib/auth/pages/own-document.ts'
import { arranged } from '../../fixtures/gateway/attacked.ts'
import { domain } from '../../fixtures/gateway/gateway.ts'
import { minute, withTokens } from '../../fixtures/gateway/identity-token.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'

t.test('the keys are for everybody, kept by caches, and the same at both listeners', async t => {
  const settings = { admin: { listenAddress: '127.0.0.1:0' } }
  const { gateway, send, ask } = await withTokens(t, { settings })
  const { answer } = await ask(keySetPath, '')
  if (!('fields' in answer)) throw new Error('no answer')
  t.equal(answer.status, 200)
  t.equal(answer.fields.get('Content-Type'), 'application/jwk-set+json')
  t.equal(answer.fields.get('Cache-Control'), 'public, max-age=300')
  t.notMatch(answer.text, /"d"|PRIVATE/)
  const etag = answer.fields.get('ETag')
  t.equal((await ask(keySetPath, `If-None-Match: ${etag}\n`)).answer.status, 304)
  const post = `POST ${keySetPath} HTTP/1.1\nHost: ${domain}\nContent-Length: 0\n\n`
  t.equal((await send(post)).status, 405)
  const admin = await RawClient.connect(t, gateway.service.adminPort ?? 0)
  t.equal((await admin.get(keySetPath)).text, answer.text)
})

t.test('the listener of the operator has none while there are no tokens', async t => {
  const { gateway } = await arranged(t, { settings: { admin: { listenAddress: '127.0.0.1:0' } } })
  const admin = await RawClient.connect(t, gateway.service.adminPort ?? 0)
  t.equal((await admin.get(keySetPath)).status, 404)
})

t.test('a rotation publishes the new key before it signs, and keeps the old one', async t => {
  const { tokenOf, verify, published, clock, rotate } = await withTokens(t)
  const before = await published()
  const old = before.keys[0].kid
  await rotate()
  const during = await published()
  t.equal(during.keys.length, 2)
  t.equal(during.keys[1].kid, old)
  const kidNow = async () => decodeProtectedHeader(await tokenOf()).kid
  t.equal(await kidNow(), old, 'a backend that has the old set can still check')
  clock.advance(9 * minute)
  t.equal(await kidNow(), old)
  clock.advance(2 * minute)
  t.equal(await kidNow(), during.keys[0].kid)
  await verify(await tokenOf())
  clock.advance(50 * minute)
  t.strictSame((await published()).keys.length, 1, 'in the end the old one goes')
  await verify(await tokenOf())
})

t.test('which key signs', t => {
  const key = (kid: string, created: number): IdentityKey => {
    return { kid, created, privateKey: '', retires: undefined }
  }
  const [a, b, c] = [key('a', 0), key('b', 20 * minute), key('c', 25 * minute)]
  for (const [keys, now, kid] of [
    [[a], 0, 'a'],
    [[b, a], 20 * minute, 'a'],
    [[c, b, a], 29 * minute, 'a'],
    [[c, b, a], 30 * minute, 'b'],
    [[c, b, a], 35 * minute, 'c'],
    [[c, b], 25 * minute, 'b'],
    [[], 0, undefined],
  ] as const) {
    t.equal(
      signingKey(keys, now, publishedFor.identity)?.kid,
      kid,
      `${keys.length} keys at ${now / minute}`,
    )
  }
  const soon = { ...c, signs: 25 * minute }
  t.equal(
    signingKey([soon, b, a], 25 * minute, publishedFor.identity)?.kid,
    'c',
    'rotate-keys --now',
  )
  t.equal(signingKey([{ ...b, signs: 90 * minute }, a], 80 * minute, publishedFor.saml)?.kid, 'a')
  t.equal(signingKey([{ ...b, signs: 90 * minute }, a], 90 * minute, publishedFor.saml)?.kid, 'b')
  t.end()
})
