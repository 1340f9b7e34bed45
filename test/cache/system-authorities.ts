/** Authorities that the system trusts are trusted for origins, and what a person reads when one is missing. */

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { systemAuthorities } from '../../lib/cache/fetch/origin-client.ts'
import { TestCache } from '../fixtures/cache/cache.ts'
import { makeAuthority } from '../fixtures/certificates/certificate.ts'
import { reply, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'

const deb = '/debian/pool/main/h/hello_1_all.deb'
const house = makeAuthority()

t.test('a CA of the house, in the store of the system, and after a reload', async t => {
  const tls = house.issue({ names: ['127.0.0.1'] })
  const origin = await ScriptedOrigin.listen(t, { tls })
  origin.at(deb, reply({ content: 'hello' }))
  const store = join(t.testdir({ 'ca-certificates.crt': '' }), 'ca-certificates.crt')
  const before = process.env['SSL_CERT_FILE']
  process.env['SSL_CERT_FILE'] = store
  t.teardown(() => {
    if (before === undefined) delete process.env['SSL_CERT_FILE']
    else process.env['SSL_CERT_FILE'] = before
  })
  const settings = { domains: [`127.0.0.1:${origin.port}`] }
  const cache = await TestCache.start(t, { settings })
  const url = `http://HTTPS///127.0.0.1:${origin.port}${deb}`
  const refused = await cache.get(url)
  t.equal(refused.status, 503)
  t.match(refused.text, '`https.origin_ca`')
  await writeFile(store, house.cert)
  t.strictSame(await cache.reload(settings), [])
  t.equal((await cache.get(url)).text, 'hello')
})

t.test('a CA of the settings counts from the reload on that names it', async t => {
  const tls = house.issue({ names: ['127.0.0.1'] })
  const origin = await ScriptedOrigin.listen(t, { tls })
  origin.at(deb, reply({ content: 'hello' }))
  const file = join(t.testdir({ 'house.pem': house.cert }), 'house.pem')
  const settings = { domains: [`127.0.0.1:${origin.port}`] }
  const cache = await TestCache.start(t, { settings })
  const url = `http://HTTPS///127.0.0.1:${origin.port}${deb}`
  t.equal((await cache.get(url)).status, 503)
  t.strictSame(await cache.reload({ ...settings, https: { origin_ca: [file] } }), [])
  t.equal((await cache.get(url)).text, 'hello')
  await cache.reload({ ...settings, https: { origin_ca: [`${file}.away`] } })
  t.ok(cache.log.lines.some(({ message }) => message === 'the earlier authorities stay in force'))
  t.notOk(cache.log.lines.some(({ message }) => String(message).includes('after a restart')))
})

t.test('files that are not there, and files that are none', async t => {
  const directory = t.testdir({ 'house.pem': house.cert, 'none.pem': 'nonsense' })
  const at = (name: string) => join(directory, name)
  const warnings: string[] = []
  const read = (environment: Record<string, string>) =>
    systemAuthorities(environment, sentence => warnings.push(sentence))
  t.equal((await read({ SSL_CERT_FILE: at('house.pem') })).length, 1)
  t.equal((await read({ SSL_CERT_FILE: at('away.pem') })).length, 0)
  const both = { SSL_CERT_FILE: at('house.pem'), NODE_EXTRA_CA_CERTS: at('house.pem') }
  t.equal((await read(both)).length, 2)
  t.strictSame(warnings, [])
  t.equal((await read({ SSL_CERT_FILE: directory })).length, 0)
  t.equal(warnings.length, 1)
  t.match(warnings[0], directory)
})

t.test('one damaged certificate in the store takes none of the others away', async t => {
  const damaged = house.cert.replace(/\n[A-Za-z0-9+/]{60}/, '\nMIIB')
  const all = `${damaged}${house.cert}`
  const file = join(t.testdir({ 'ca-certificates.crt': all }), 'ca-certificates.crt')
  const warnings: string[] = []
  const found = await systemAuthorities({ SSL_CERT_FILE: file }, one => warnings.push(one))
  t.equal(found.length, 1)
  t.equal(warnings.length, 1)
  t.match(warnings[0], file)
})
