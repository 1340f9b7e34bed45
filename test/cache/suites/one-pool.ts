/**
 * Two suites that list one pool and contradict each other about a file: a client gets what its own suite says, as far as the origin has it.
 */
import t, { type Test } from 'tap'
import { tinyArchive } from '../../fixtures/archive/tiny-archive.ts'
import { TestCache } from '../../fixtures/cache/cache.ts'
import { file, ScriptedOrigin } from '../../fixtures/http/scripted-origin.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const [name, versioned] = ['pool/main/a/app-365_amd64.deb', 'pool/main/t/tool_1.1_amd64.deb']
const asked = { 'Cache-Control': 'max-age=0' }

/** Two suites whose indexes are adopted, and what a client of one of them gets of the package. */
async function twoSuites(t: Test, name: string) {
  const origin = await ScriptedOrigin.listen(t)
  const clock = new ManualClock(Date.parse('2025-03-14T12:00:00Z'))
  const cache = await TestCache.start(t, { origins: [origin], clock })
  const url = (path: string): string => origin.url(`/debian/${path}`)
  const suites = [
    { suite: 'testing', date: 'Sat, 01 Feb 2025 10:00:00 UTC', address: '127.0.0.2' },
    { suite: 'stable', date: 'Sun, 02 Feb 2025 10:00:00 UTC', address: '127.0.0.3' },
  ]
  for (const { suite, date, address } of suites) {
    const base = `dists/${suite}`
    const packages = { [name]: `as ${suite} has it` }
    for (const [path, content] of tinyArchive({ base, packages, date, packings: ['.gz'] })) {
      const place = path.replace(/Release$/, 'InRelease')
      if (path !== name) origin.at(`/debian/${place}`, file({ content }))
    }
    const client = await cache.client({ localAddress: address })
    for (const path of ['InRelease', 'main/binary-all/Packages.gz']) {
      await client.get(url(`${base}/${path}`), asked)
      await cache.quiet()
      await cache.until(async () => (await cache.metric('cachesvc_suites_being_adopted')) === 0)
    }
  }
  const has = (suite: string) =>
    origin.at(`/debian/${name}`, file({ content: `as ${suite} has it`, etag: `"${suite}"` }))
  const asks = async (suite: string) => {
    const localAddress = suites.find(one => one.suite === suite)?.address ?? ''
    const client = await cache.client({ localAddress })
    const { text } = await client.get(url(name))
    await cache.quiet()
    return text
  }
  return { has, asks, clock, cache }
}

t.test('the origin has what the older of two suites names', { timeout: 60_000 }, async t => {
  const { has, asks, clock, cache } = await twoSuites(t, name)
  await cache.quiet()
  clock.advance(11 * 60_000)
  has('testing')
  t.not(await asks('stable'), 'as stable has it')
  t.equal(await asks('testing'), 'as testing has it')
})

t.test('what fits one of two suites says nothing to clients of the other', async t => {
  for (const [first, second] of [
    ['testing', 'stable'],
    ['stable', 'testing'],
  ] as const) {
    const { has, asks } = await twoSuites(t, versioned)
    has(first)
    for (const again of ['fetched', 'stored']) {
      t.equal(await asks(first), `as ${first} has it`, again)
    }
    has(second)
    t.equal(await asks(second), `as ${second} has it`)
    t.equal(await asks(second), `as ${second} has it`, 'stored')
  }
})

t.test(
  'a client whose suites are not known gets what the origin has, if a suite names it',
  async t => {
    const { has, asks, cache } = await twoSuites(t, versioned)
    await cache.restart()
    for (const suite of ['testing', 'stable']) {
      has(suite)
      await cache.command({ do: 'refresh', of: '*' })
      t.equal(await asks('testing'), `as ${suite} has it`)
    }
  },
)
