/**
 * One file, many spellings: they share one entry, and the origin is asked for the canonical one.
 */
import t from 'tap'
import { TestCache } from '../fixtures/cache/cache.ts'
import { ScriptedDns } from '../fixtures/http/dns.ts'
import { reply, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'

t.test('spellings of one target share one entry', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const host = `archive.example.org:${origin.port}`
  const dns = new ScriptedDns({ 'archive.example.org': ['127.0.0.1'] })
  const cache = await TestCache.start(t, { lookup: dns.lookup, settings: { domains: [host] } })
  const canonical = '/debian/pool/g++_1.0~rc1_all.deb'
  origin.at('*', reply({ content: 'hello' }))
  await cache.warm(`http://${host}${canonical}`)
  t.equal(origin.requests[0]?.target, '/debian/pool/g%2B%2B_1.0~rc1_all.deb')

  const spellings = [
    `http://${host}/debian/pool/g%2b%2b_1.0~rc1_all.deb`,
    `http://${host}/debian/pool/g%2B+_1.0%7Erc1_all.deb`,
    `http://${host}/debian/pool/g%2B%2B_1.0%7erc1_all.deb`,
    `http://${host}/debian/./pool//g++_1.0~rc1_all.deb`,
    `http://${host}/debian/main/../pool/g++_1.0~rc1_all.deb`,
    `http://${host.toUpperCase()}${canonical}`,
    `HTTP://${host}${canonical}`,
    `/${host}${canonical}`,
  ]
  for (const url of spellings) {
    const answer = await cache.get(url, { Host: `127.0.0.1:${cache.port}` })
    t.equal(answer.fields.get('X-Cache'), 'HIT', url)
  }
  t.equal(origin.requests.length, 1)
  t.equal((await cache.stored()).length, 1)
})

t.test('the default port is no part of the key', async t => {
  const dns = new ScriptedDns({ 'archive.example.org': ['127.0.0.1'] })
  const cache = await TestCache.start(t, {
    lookup: dns.lookup,
    settings: { domains: ['archive.example.org'] },
  })
  const ask = (url: string) => cache.get(url, { 'Cache-Control': 'only-if-cached' })
  for (const url of ['http://archive.example.org/a.deb', 'http://archive.example.org:80/a.deb']) {
    t.equal((await ask(url)).status, 504)
  }
  const keys = cache.log.lines.flatMap(({ facts }) => facts['key'] ?? facts['target'] ?? [])
  t.strictSame([...new Set(keys)], ['http://archive.example.org/a.deb'])
})

t.test('different queries and different case of the path are different targets', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  origin.at('*', reply({ content: 'hello' }))
  for (const path of ['/a.deb', '/A.deb', '/a.deb?', '/a.deb?b', '/a%2Fb.deb', '/a/b.deb']) {
    t.equal((await cache.warm(origin.url(path))).fields.get('X-Cache'), 'MISS', path)
  }
  t.equal((await cache.stored()).length, 6)
})

t.test('paths that climb out or hide control characters are refused', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  for (const path of ['/../etc/passwd', '/a/%2e%2e/%2e%2e/b', '/a%00b', '/a%0Ab', '/a%7f']) {
    t.equal((await cache.get(origin.url('') + path)).status, 400, path)
  }
  t.equal(origin.requests.length, 0)
})
