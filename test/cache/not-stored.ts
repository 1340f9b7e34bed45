/**
 * Responses that must not be stored: every place that tells of them tells why, and an operator can have them stored.
 */
import t, { type Test } from 'tap'
import { type Settings, TestCache } from '../fixtures/cache/cache.ts'
import { reply, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'

const path = '/debian/pool/main/h/hello_1_all.deb'

type Case = readonly [because: string, fields: Readonly<Record<string, string>>, explained: RegExp]

const forbidden: readonly Case[] = [
  ['private', { 'Cache-Control': 'private, max-age=21600' }, /had `Cache-Control: private`/],
  ['private', { 'Cache-Control': 'max-age=0, private, must-revalidate' }, /`store: always`/],
  ['no-store', { 'Cache-Control': 'no-store' }, /had `Cache-Control: no-store`/],
  ['vary', { Vary: '*' }, /had `Vary: \*`/],
]

const notTheFile: readonly Case[] = [
  ['partial', { 'Content-Range': 'bytes 0-4/9' }, /was a part of the file/],
  ['page', { 'Content-Type': 'text/html' }, /was a page and not the file/],
]

async function begun(t: Test, more: Readonly<Record<string, unknown>> = {}) {
  const origin = await ScriptedOrigin.listen(t)
  const settings: Settings = {
    archives: [{ origins: [`127.0.0.1:${origin.port}/debian`], ...more }],
  }
  const cache = await TestCache.start(t, { origins: [origin], settings })
  const explained = async (): Promise<string> =>
    (await cache.get(`/_cachesvc/explain?url=${encodeURIComponent(origin.url(path))}`)).text
  return { origin, cache, explained }
}

t.test('the reason stands in the answer, the log, the figures and the explanation', async t => {
  for (const [because, fields, pattern] of [...forbidden, ...notTheFile]) {
    const { origin, cache, explained } = await begun(t)
    origin.at(path, reply({ content: 'hello', fields }))
    for (const time of [1, 2]) {
      const answer = await cache.warm(origin.url(path))
      t.equal(answer.text, 'hello')
      t.equal(answer.fields.get('X-Cache'), `MISS (not stored: ${because})`)
      t.match(answer.fields.get('Cache-Status'), `detail=absent; not-stored=${because}`)
      t.notMatch(answer.fields.get('Cache-Status'), /; stored/)
      t.equal(origin.seen(path).length, time)
    }
    const { text } = await cache.get('/_cachesvc/metrics')
    t.match(text, `cachesvc_not_stored_total{because="${because}"} 2\n`)
    const logged = cache.log.lines.filter(({ facts }) => facts['notStored'] === because)
    t.equal(logged.length, 2)
    t.match((await explained()).replace(/<\/?code>/g, '`'), pattern)
    origin.at(path, reply({ content: 'hello' }))
    const stored = await cache.warm(origin.url(path))
    t.equal(stored.fields.get('X-Cache'), 'MISS')
    t.notMatch(await explained(), 'and not stored')
  }
})

t.test(
  'an operator has what an archive marks stored, but nothing that is not the file',
  async t => {
    for (const [because, fields] of forbidden) {
      const { origin, cache } = await begun(t, { store: 'always' })
      origin.at(path, reply({ content: 'hello', fields }))
      t.equal((await cache.warm(origin.url(path))).fields.get('X-Cache'), 'MISS')
      t.equal((await cache.get(origin.url(path))).fields.get('X-Cache'), 'HIT', because)
      origin.at('/elsewhere', reply({ content: 'hello', fields }))
      await cache.warm(origin.url('/elsewhere'))
      const other = await cache.get(origin.url('/elsewhere'))
      t.equal(other.fields.get('X-Cache'), `MISS (not stored: ${because})`, 'no other archive')
    }
    for (const [because, fields] of notTheFile) {
      const { origin, cache } = await begun(t, { store: 'always' })
      origin.at(path, reply({ content: 'hello', fields }))
      await cache.warm(origin.url(path))
      const again = await cache.get(origin.url(path))
      t.equal(again.fields.get('X-Cache'), `MISS (not stored: ${because})`)
    }
  },
)
