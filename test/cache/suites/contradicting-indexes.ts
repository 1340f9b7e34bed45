/**
 * Two indexes of one suite that name one path with different contents: a client gets what the index it has fetched names.
 */
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { hexOf, releaseOf } from '../../fixtures/archive/tiny-archive.ts'
import { TestCache } from '../../fixtures/cache/cache.ts'
import { file, ScriptedOrigin } from '../../fixtures/http/scripted-origin.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const path = 'pool/main/t/tool_1.0_all.deb'
const asked = { 'Cache-Control': 'max-age=0' }
const settings = { freshness: { other: '1m' } }

/** A suite with one index in each of these directories. Each names the same path with a content of its own. */
async function suiteOf(t: Test, directories: readonly string[], name = 'Packages') {
  const origin = await ScriptedOrigin.listen(t)
  const clock = new ManualClock(Date.parse('2025-03-14T12:00:00Z'))
  const cache = await TestCache.start(t, { origins: [origin], clock, settings })
  const url = (of: string): string => origin.url(`/debian/${of}`)
  const stanza = (content: string): string =>
    name === 'Packages'
      ? `Package: tool\nVersion: 1.0\nFilename: ${path}\nSize: ${content.length}\nSHA256: ${hexOf('sha256', content)}\n`
      : `Package: tool\nDirectory: pool/main/t\nChecksums-Sha256:\n ${hexOf('sha256', content)} ${content.length} tool_1.0_all.deb\n`
  const indexes = directories.map(
    directory => [`${directory}/${name}.gz`, gzipSync(stanza(`that of ${directory}`))] as const,
  )
  for (const [of, content] of indexes) {
    origin.at(
      `/debian/dists/stable/${of}`,
      file({ content, etag: `"${hexOf('sha256', content)}"` }),
    )
  }
  origin.at('/debian/dists/stable/InRelease', file({ content: releaseOf(indexes) }))
  const has = (directory: string, content = `that of ${directory}`): void => {
    origin.at(`/debian/${path}`, file({ content, etag: `"${content}"` }))
  }
  /** Each client has an address of its own. */
  const client = (n: number) => cache.client({ localAddress: `127.0.0.${n}` })
  const update = async (n: number, ...of: readonly string[]): Promise<void> => {
    const connection = await client(n)
    for (const one of ['InRelease', ...of.map(directory => `${directory}/${name}.gz`)]) {
      await connection.get(url(`dists/stable/${one}`), asked)
      await cache.quiet()
      await cache.until(
        () => cache.working.adoptions === 0,
        () => false,
      )
    }
  }
  const gets = async (n: number) => {
    clock.advance(5000)
    const connection = await client(n)
    const response = await connection.get(url(path))
    await cache.quiet()
    return response
  }
  return { origin, cache, clock, has, update, gets, url }
}

const pairs: ReadonlyArray<readonly [what: string, one: string, other: string, name?: string]> = [
  ['architectures', 'main/binary-i386', 'main/binary-amd64'],
  ['components', 'main/binary-amd64', 'contrib/binary-amd64'],
  ['binary-all beside an architecture', 'main/binary-all', 'main/binary-amd64'],
  ['sources', 'main/source', 'contrib/source', 'Sources'],
]

for (const [what, one, other, name] of pairs) {
  t.test(`the index of another machine decides nothing: ${what}`, async t => {
    const { has, update, gets, cache, clock, url } = await suiteOf(t, [one, other], name)
    const right = { status: 200, text: `that of ${one}` }
    has(one)
    await update(2, one)
    await update(3, one)
    t.match(await gets(2), right, 'fetched')
    t.match(await gets(3), right, 'stored')
    await update(4, other)
    const refused = await gets(4)
    t.equal(refused.status, 520, 'the origin does not have what the index of this client names')
    t.match(refused.reason, /indexes of the archive contradict each other/)
    for (const machine of [2, 3]) t.match(await gets(machine), right, `machine ${machine}, still`)
    await update(5, one)
    const stored = await gets(5)
    t.match(stored, right, 'a machine that has updated since')
    t.match(stored.fields.get('X-Cache'), /^HIT/)
    await cache.restart()
    t.match(await gets(3), right, 'after a restart')
    clock.advance(120_000)
    has(other)
    await update(4, other)
    t.match(await gets(4), { status: 200, text: `that of ${other}` }, 'the other one gets its own')
    t.match(await cache.command({ do: 'explain', of: url(path) }), {
      out: new RegExp(`Contradiction +.*(${one}|${other}).* and .*(${one}|${other}).* error of`),
    })
  })
}

t.test(
  'a client whose index is not known gets what the origin has, if an index names it',
  async t => {
    const [one, other] = ['main/binary-i386', 'main/binary-amd64']
    const { has, update, gets, clock, origin } = await suiteOf(t, [one, other])
    await update(2, one, other)
    for (const directory of [one, other, one]) {
      has(directory)
      clock.advance(120_000)
      t.match(await gets(9), { status: 200, text: `that of ${directory}` }, directory)
      t.match(await gets(2), { status: 200, text: `that of ${directory}` }, 'one with both indexes')
    }
    const before = origin.requests.length
    t.match((await gets(9)).fields.get('X-Cache'), /^HIT/)
    t.equal(origin.requests.length, before, 'it is fresh for a while')
    clock.advance(120_000)
    has(one, 'that of nobody at all..')
    t.not((await gets(9)).text, 'that of nobody at all..', 'no index names it')
  },
)

t.test('the suite and its package, one after the other with another Release', async t => {
  const [one, other] = ['main/binary-i386', 'main/binary-amd64']
  const { has, update, gets, cache } = await suiteOf(t, [one, other])
  has(one)
  await update(2, one)
  await update(3, other)
  const lines = cache.log.lines.filter(({ message }) => /contradict/.test(message))
  t.equal(lines.length, 1, 'said once')
  t.match(lines[0]?.facts, { path, files: 1 })
  t.match(String(lines[0]?.facts['indexes']), /binary-i386.*binary-amd64/)
  t.match(await gets(2), { status: 200 })
  t.match(await cache.command({ do: 'status' }), {
    out: new RegExp(`Disputed +http.*stable: .*${path}`),
  })
  t.match(await cache.command({ do: 'status', json: true }), { out: /"contradictions": \[/ })
})
