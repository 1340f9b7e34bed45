/**
 * Two suites that list one pool and contradict each other about a file: a client gets what its own suite says, as far as the origin has it.
 */
import t from 'tap'
import { tinyArchive } from '../../fixtures/archive/tiny-archive.ts'
import { TestCache } from '../../fixtures/cache/cache.ts'
import { file, ScriptedOrigin } from '../../fixtures/http/scripted-origin.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const name = 'pool/main/a/app-365_amd64.deb'
const asked = { 'Cache-Control': 'max-age=0' }

t.test('the origin has what the older of two suites names', { timeout: 60_000 }, async t => {
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
  origin.at(`/debian/${name}`, file({ content: 'as testing has it' }))
  const asks = async (localAddress: string) => {
    const client = await cache.client({ localAddress })
    return (await client.get(url(name))).text
  }
  t.not(await asks('127.0.0.3'), 'as stable has it')
  t.equal(await asks('127.0.0.2'), 'as testing has it')
})
