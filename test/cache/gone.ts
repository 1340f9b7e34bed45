/**
 * An origin that says that a stored file is gone: one broken server among several removes nothing, an archive that has dropped a file
 * is believed.
 */
import t, { type Test } from 'tap'
import { TestCache } from '../fixtures/cache/cache.ts'
import { file, reply, type Script, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

const base = '/debian/dists/stable'
const insist = { 'Cache-Control': 'max-age=0' }
const gone = reply({ status: 404, content: 'gone' })

async function stored(
  t: Test,
  files: readonly string[],
  { negative = '0s', goneAfter = '1h' } = {},
) {
  const origin = await ScriptedOrigin.listen(t)
  const clock = new ManualClock(Date.now())
  const settings = { freshness: { floor: '0s', negative }, suites: { gone_after: goneAfter } }
  const cache = await TestCache.start(t, { origins: [origin], clock, settings })
  const url = (name: string): string => origin.url(`${base}/${name}`)
  for (const name of files) {
    origin.at(`${base}/${name}`, file({ content: name, etag: '"1"' }))
    await cache.warm(url(name))
  }
  const ask = async (name: string) => {
    const { status, fields } = await cache.get(url(name), insist)
    return `${status} ${/detail=([^;\s]+)/.exec(fields.get('Cache-Status') ?? '')?.[1]}`
  }
  return { origin, clock, cache, url, ask }
}

/** A 404 for the first so many requests. */
function once(times: number, then: Script): Script {
  let left = times
  return answer => {
    left -= 1
    return left >= 0 ? gone(answer) : then(answer)
  }
}

for (const name of ['InRelease', 'Release', 'main/binary-all/Packages.gz']) {
  t.test(`one 404 for ${name} of one of several servers is not believed`, async t => {
    const { origin, cache, url, ask } = await stored(t, [name])
    origin.at(`${base}/${name}`, once(1, file({ content: name, etag: '"1"' })))
    t.equal(await ask(name), '200 validated')
    t.strictSame(await cache.stored(), [url(name)])
  })
}

t.test('one of several servers does not have a file: each connection leads to another', async t => {
  for (const name of ['InRelease', 'main/binary-all/Packages.gz']) {
    const { origin, cache, url, ask } = await stored(t, [name])
    const there = file({ content: name, etag: '"1"' })
    origin.at(`${base}/${name}`, answer => {
      return answer.request.connection === 1 ? gone(answer) : there(answer)
    })
    t.equal(await ask(name), '200 validated', name)
    t.strictSame(await cache.stored(), [url(name)])
  }
})

t.test('an index that its origin has dropped is gone', async t => {
  const name = 'main/binary-all/Packages.gz'
  const { origin, cache, ask } = await stored(t, [name])
  origin.at(`${base}/${name}`, gone)
  t.match(await ask(name), /^404/)
  t.strictSame(await cache.stored(), [])
})

for (const [name, other] of [
  ['InRelease', 'Release'],
  ['Release', 'InRelease'],
  ['Release.gpg', 'Release'],
] as const) {
  t.test(`${name} is gone when its origin still has ${other}`, async t => {
    const { origin, cache, url, ask } = await stored(t, [name])
    origin.at(`${base}/${other}`, file({ content: other }))
    origin.at(`${base}/${name}`, gone)
    t.match(await ask(name), /^404/)
    t.notOk((await cache.stored()).includes(url(name)))
  })

  t.test(`that there is no ${other} is not said from memory`, async t => {
    const { origin, ask } = await stored(t, [name], { negative: '5s' })
    origin.at(`${base}/${other}`, gone)
    t.match(await ask(other), /^404/)
    origin.at(`${base}/${name}`, gone)
    origin.at(`${base}/${other}`, file({ content: other }))
    t.match(await ask(other), /^200/)
    t.match(await ask(name), /^404/)
  })
  t.test(`an origin without ${name} and ${other} is broken, for an hour`, async t => {
    const { origin, clock, cache, url, ask } = await stored(t, [name])
    const minute = 60_000
    const both = (script: Script): void => {
      for (const path of [name, other]) origin.at(`${base}/${path}`, script)
    }
    both(gone)
    t.equal(await ask(name), '200 stale-origin-failed')
    t.equal((await cache.head(url(name), insist)).status, 200)
    const warned = () =>
      cache.log.lines.filter(({ message }) => /no longer has a Release file/.test(message))
    t.equal(warned().length, 1)
    const passMinutes = async (count: number): Promise<void> => {
      // What the disk is doing in this moment has its deadlines by the same clock.
      await cache.quiet()
      clock.advance(count * minute)
    }
    await passMinutes(50)
    t.equal(await ask(name), '200 stale-origin-failed')
    both(file({ content: name, etag: '"1"' }))
    t.equal(await ask(name), '200 validated', 'it is back')
    both(gone)
    // Waiting for the disk moves the clock as well: some minutes are left for that.
    for (const passes of [0, 40, 10]) {
      await passMinutes(passes)
      t.equal(await ask(name), '200 stale-origin-failed', `for ${passes} minutes more`)
    }
    await passMinutes(11)
    t.match(await ask(name), /^404/)
    t.strictSame(await cache.stored(), [])
  })
}

t.test('an origin without InRelease and Release is believed at once where that is set', async t => {
  const { origin, cache, ask } = await stored(t, ['InRelease'], { goneAfter: '0s' })
  for (const name of ['InRelease', 'Release']) origin.at(`${base}/${name}`, gone)
  t.match(await ask('InRelease'), /^404/)
  t.strictSame(await cache.stored(), [])
  t.notOk(cache.log.lines.some(({ message }) => /no longer has a Release file/.test(message)))
})

t.test('an origin that cannot say whether it has the other one is not believed', async t => {
  const { origin, ask } = await stored(t, ['InRelease'])
  origin.at(`${base}/InRelease`, gone)
  for (const [status, answer] of [
    [503, /^200 stale-origin-failed/],
    [403, /^200 stale-origin-failed/],
  ] as const) {
    origin.at(`${base}/Release`, reply({ status }))
    t.match(await ask('InRelease'), answer, String(status))
  }
})

for (const status of [400, 403, 405, 501]) {
  t.test(`an origin that answers ${status} to HEAD alone is believed`, async t => {
    const { origin, ask } = await stored(t, ['InRelease'])
    origin.at(`${base}/InRelease`, gone)
    const [refused, there] = [reply({ status }), file({ content: 'Release' })]
    origin.at(`${base}/Release`, answer => {
      return answer.request.method === 'HEAD' ? refused(answer) : there(answer)
    })
    t.match(await ask('InRelease'), /^404/)
  })
}
