/**
 * An origin that needs long for each head: what clients ask for after a missed deadline comes in the end, in whatever order they ask.
 */
import t, { type Test } from 'tap'
import { pause } from '../../lib/async/deadline.ts'
import { asked, changingArchives } from '../fixtures/archive/changing-archive.ts'
import { TestCache } from '../fixtures/cache/cache.ts'
import { file, reply, type Script, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'
import { Gate } from '../fixtures/time/gate.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

const second = 1000
const headTime = 20 * second
const minutes = 60 * second
const directory = '/debian/dists/stable/main/installer-amd64/current/images/'
const together = ['SHA256SUMS', 'linux', 'initrd.gz', 'vmlinuz'].map(name => `${directory}${name}`)

/** A cache and the clock that its origins need for their heads. Time passes fast only while a head is owed. */
class SlowOrigins {
  readonly cache: TestCache
  readonly clock: ManualClock
  #owed = 0

  constructor(cache: TestCache, clock: ManualClock) {
    this.cache = cache
    this.clock = clock
  }

  slow(script: Script, head: Promise<unknown> = Promise.resolve()): Script {
    return async answer => {
      this.#owed += 1
      const late = Promise.all([head, pause(this.clock, headTime)])
      await Promise.race([late, answer.request.gone])
      this.#owed -= 1
      return script(answer)
    }
  }

  /** What a client gets that fetches these files one after the other. */
  async visit(urls: readonly string[]): Promise<readonly string[]> {
    const texts: string[] = []
    for (const url of urls) {
      let done = false
      const answer = this.cache.get(url, asked).finally(() => {
        done = true
      })
      await this.#until(() => done)
      texts.push((await answer).text)
    }
    return texts
  }

  /** Waits until the cache asks nothing and reads nothing, and for some minutes more. */
  async rest(): Promise<void> {
    const { cache, clock } = this
    // What was asked just before has arrived when this is answered.
    await cache.get('/_cachesvc/healthz')
    await this.#until(() => Object.values(cache.working).every(count => count === 0))
    await cache.quiet()
    clock.advance(5 * minutes)
  }

  async #until(condition: () => boolean): Promise<void> {
    for (let n = 1; !condition(); n += 1) {
      await this.cache.get('/_cachesvc/healthz')
      if (this.#owed > 0 || n % 20 === 0) this.clock.advance(second)
    }
  }
}

async function started(t: Test, connections: number) {
  const origin = await ScriptedOrigin.listen(t)
  const clock = new ManualClock(Date.now())
  const archives = [{ origins: [origin.url('/debian')], connections }]
  const cache = await TestCache.start(t, {
    origins: [origin],
    clock,
    settings: { archives },
  })
  const origins = new SlowOrigins(cache, clock)
  const urls = together.map(path => origin.url(path))
  for (const path of together) {
    origin.at(path, file({ content: 'one', etag: '"1"' }))
    await cache.warm(origin.url(path))
    origin.at(path, origins.slow(file({ content: 'two', etag: '"2"' })))
  }
  await origins.rest()
  return { origin, origins, urls }
}

for (const connections of [16, 1]) {
  t.test(`files that belong together arrive over connections: ${connections}`, async t => {
    const { origins, urls } = await started(t, connections)
    t.strictSame(await origins.visit(urls), ['one', 'one', 'one', 'one'], 'no client waits longer')
    await origins.rest()
    t.strictSame(await origins.visit(urls), ['two', 'two', 'two', 'two'])
  })
}

t.test('a file whose head never comes keeps no other file waiting for ever', async t => {
  const { origin, origins, urls } = await started(t, 1)
  const [first = '', ...others] = together
  origin.at(first, origins.slow(reply({}), new Gate().pass()))
  await origins.visit(urls)
  await origins.rest()
  t.strictSame(
    await origins.visit(urls.slice(1)),
    others.map(() => 'two'),
  )
})

t.test('each suite of an archive gets its new Release file', async t => {
  const roots = ['one', 'two', 'three', 'four']
  const archiveBelow = await changingArchives(t)
  const suites = roots.map(root => archiveBelow(root))
  const { cache, clock } = archiveBelow('one')
  const origins = new SlowOrigins(cache, clock)
  for (const suite of suites) {
    suite.serve(await suite.ofDay(1))
    await suite.update()
    for (const [path, content] of await suite.ofDay(2)) {
      suite.origin.at(`/${path}`, origins.slow(file({ content, etag: `"2-${path}"` })))
    }
  }
  const urls = suites.map(({ origin, release }) => origin.url(`/${release}`))
  const days = async () =>
    (await origins.visit(urls)).map(text => /^Version: (\d)/m.exec(text)?.[1]).join(' ')
  t.equal(await days(), '1 1 1 1', 'no client waits for it')
  await origins.rest()
  t.equal(await days(), '2 2 2 2')
})
