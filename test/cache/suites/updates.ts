/**
 * Suites updated as a whole: whatever a mirror does in the middle of an update, clients get a Release and indexes that fit each
 * other.
 */
import t, { type Test } from 'tap'
import { ManualClock } from '../../../lib/async/clock.ts'
import { TestCache } from '../../fixtures/cache.ts'
import { file, reply, ScriptedOrigin } from '../../fixtures/scripted-origin.ts'
import { noSigningKey, SigningKey } from '../../fixtures/signing-key.ts'
import { type Files, hexOf, tinyArchive } from '../../fixtures/tiny-archive.ts'

const suite = 'debian/dists/stable'
const index = `${suite}/main/binary-all/Packages.gz`
const release = `${suite}/InRelease`
const asked = { 'Cache-Control': 'max-age=0' }

/** The files of a day's archive, by path. */
function ofDay(day: number, { byHash = false, until = '' } = {}): Files {
  const date = `0${day} Jan 2025 00:00:00 UTC`
  const packages = { [`pool/main/p/p_${day}_all.deb`]: `content ${day}` }
  const files = tinyArchive({ base: suite, packages, date, root: 'debian', packings: ['.gz'] })
  const text = files.get(`${suite}/Release`)?.toString() ?? ''
  const yes = byHash ? 'Acquire-By-Hash: yes\n' : ''
  files.delete(`${suite}/Release`)
  files.set(release, Buffer.from(`${until}${yes}${text}`))
  const packed = files.get(index) ?? Buffer.alloc(0)
  if (byHash) files.set(hashPath(packed), packed)
  return files
}

function hashPath(content: Buffer): string {
  return `${suite}/main/binary-all/by-hash/SHA256/${hexOf('sha256', content)}`
}

interface Mirror {
  readonly origin: ScriptedOrigin
  readonly cache: TestCache
  readonly serve: (files: Files, only?: (path: string) => boolean) => void
  readonly get: (path: string) => Promise<{ readonly status: number; readonly content: Buffer }>
  /** A client's whole update; whether its index is the one its Release names. */
  readonly update: () => Promise<{ readonly day: string; readonly fits: boolean }>
}

async function mirrored(
  t: Test,
  options: { settings?: object; archive?: object; now?: number } = {},
): Promise<Mirror> {
  const origin = await ScriptedOrigin.listen(t)
  const clock = new ManualClock(options.now ?? Date.parse('2025-03-14T12:00:00Z'))
  const { archive } = options
  const archives = archive && [{ origins: [`127.0.0.1:${origin.port}/debian`], ...archive }]
  const settings = { ...options.settings, ...(archives && { archives }) }
  const cache = await TestCache.start(t, { origins: [origin], clock, settings })
  const serve: Mirror['serve'] = (files, only = () => true) => {
    for (const [path, content] of files) {
      if (only(path))
        origin.at(`/${path}`, file({ content, etag: `"${hexOf('sha256', content)}"` }))
    }
  }
  const get: Mirror['get'] = async path => {
    const answer = await cache.get(origin.url(`/${path}`), asked)
    return { status: answer.status, content: answer.content }
  }
  const update: Mirror['update'] = async () => {
    const { content } = await get(release)
    const packages = await get(index)
    const named = content.toString().includes(hexOf('sha256', packages.content))
    const day = /^Date: 0(\d)/m.exec(content.toString())?.[1] ?? ''
    await cache.quiet()
    await cache.until(async () => {
      const text = (await cache.get('/_cachesvc/metrics')).text
      return /cachesvc_suites_being_adopted 0\n/.test(text)
    })
    return { day, fits: named && packages.status === 200 }
  }
  return { origin, cache, serve, get, update }
}

/** Updates until the client gets the archive of a day; every update on the way must fit. */
async function until({ cache, update }: Mirror, day: string, t: Test): Promise<void> {
  await cache.until(async () => {
    const found = await update()
    t.ok(found.fits, `day ${found.day} fits`)
    return found.day === day
  })
}

t.test('a new Release comes with its indexes, by hash and by name', async t => {
  for (const byHash of [true, false]) {
    const mirror = await mirrored(t)
    mirror.serve(ofDay(1, { byHash }))
    t.strictSame(await mirror.update(), { day: '1', fits: true })
    mirror.serve(ofDay(2, { byHash }))
    await until(mirror, '2', t)
    const old = ofDay(1, { byHash }).get(index) ?? Buffer.alloc(0)
    const kept = await mirror.get(hashPath(old))
    t.ok(kept.content.equals(old), 'what the generation before had can still be had by hash')
  }
})

t.test('while a mirror has only half of an update, clients get the one before', async t => {
  for (const byHash of [true, false]) {
    const mirror = await mirrored(t)
    mirror.serve(ofDay(1, { byHash }))
    await mirror.update()
    mirror.serve(ofDay(2, { byHash }), path => path === release)
    for (let n = 0; n < 4; n += 1) {
      t.strictSame(await mirror.update(), { day: '1', fits: true })
      await mirror.cache.until(() => true)
    }
    mirror.serve(ofDay(2, { byHash }))
    await until(mirror, '2', t)
  }
})

t.test('the answer says that the one before was given', async t => {
  const mirror = await mirrored(t, { settings: { freshness: { floor: '0s' } } })
  mirror.serve(ofDay(1))
  await mirror.update()
  mirror.serve(ofDay(2), path => path === release)
  const answer = await mirror.cache.get(mirror.origin.url(`/${release}`), asked)
  t.match(answer.fields.get('Cache-Status'), 'detail=stale-suite-incomplete')
  t.equal(answer.fields.get('X-Cache'), 'HIT')
})

t.test('a mirror that has its indexes before its Release', async t => {
  const mirror = await mirrored(t)
  mirror.serve(ofDay(1))
  await mirror.update()
  mirror.serve(ofDay(2), path => path !== release)
  t.strictSame(await mirror.update(), { day: '1', fits: true })
  mirror.serve(ofDay(2))
  await until(mirror, '2', t)
})

t.test('a client in the middle of its update ends it with the indexes of its Release', async t => {
  const mirror = await mirrored(t)
  mirror.serve(ofDay(1))
  await mirror.update()
  const own = (await mirror.get(release)).content.toString()
  mirror.serve(ofDay(2))
  const packages = await mirror.get(index)
  t.ok(own.includes(hexOf('sha256', packages.content)))
})

t.test('a mirror that goes back to an older archive is not followed', async t => {
  const mirror = await mirrored(t, { settings: { freshness: { floor: '0s' } } })
  mirror.serve(ofDay(2))
  await mirror.update()
  mirror.serve(ofDay(1))
  t.strictSame(await mirror.update(), { day: '2', fits: true })
  const answer = await mirror.cache.get(mirror.origin.url(`/${release}`), asked)
  t.match(answer.fields.get('Cache-Status'), 'detail=stale-suite-refused')
  mirror.serve(ofDay(3))
  await until(mirror, '3', t)
})

t.test('clients wait so long for a new generation and no longer', async t => {
  const mirror = await mirrored(t, { settings: { freshness: { floor: '0s' } } })
  mirror.serve(ofDay(1))
  await mirror.update()
  mirror.serve(ofDay(2), path => path === release)
  mirror.origin.at(`/${index}`, async answer => {
    await answer.write('HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n')
  })
  let done = false
  const answer = mirror.get(release).finally(() => {
    done = true
  })
  await mirror.cache.until(() => done)
  t.match((await answer).content.toString(), '01 Jan')
})

t.test('an origin that has gone, and one that says no, as ever', async t => {
  const mirror = await mirrored(t, { settings: { freshness: { floor: '0s' } } })
  mirror.serve(ofDay(1))
  await mirror.update()
  mirror.origin.at(`/${release}`, reply({ status: 503, content: 'busy' }))
  const stale = await mirror.cache.get(mirror.origin.url(`/${release}`), asked)
  t.match(stale.fields.get('Cache-Status'), 'detail=stale-origin-failed')
  mirror.origin.at(`/${release}`, reply({ status: 404, content: 'gone' }))
  t.equal((await mirror.get(release)).status, 404)
  t.equal((await mirror.get(release)).status, 404, 'and it is not stored any more')
})

t.test(
  'what is wrongly signed does not take the place of the good one',
  { skip: noSigningKey },
  async t => {
    const key = await SigningKey.create()
    t.teardown(() => key.close())
    const signed = async (day: number): Promise<Files> => {
      const files = ofDay(day)
      files.set(release, await key.clearSign(files.get(release)?.toString() ?? ''))
      return files
    }
    const tampered = async (day: number): Promise<Files> => {
      const files = await signed(day)
      const text = files.get(release)?.toString() ?? ''
      files.set(
        release,
        Buffer.from(text.replace('Hash: SHA512\n\n', 'Hash: SHA512\n\nLabel: x\n')),
      )
      return files
    }
    const other = await SigningKey.create()
    t.teardown(() => other.close())
    const foreign = async (day: number): Promise<Files> => {
      const files = ofDay(day)
      files.set(release, await other.clearSign(files.get(release)?.toString() ?? ''))
      return files
    }
    const expired = async (day: number): Promise<Files> => {
      const files = ofDay(day, { until: 'Valid-Until: Thu, 02 Jan 2025 00:00:00 UTC\n' })
      files.set(release, await key.clearSign(files.get(release)?.toString() ?? ''))
      return files
    }
    const cases = [
      ['require', tampered, '1'],
      ['require', foreign, '1'],
      ['require', expired, '1'],
      ['require', async (day: number) => ofDay(day), '1'],
      ['prefer', tampered, '1'],
      ['prefer', async (day: number) => ofDay(day), '1'],
      ['prefer', foreign, '2'],
      ['prefer', expired, '2'],
      ['off', tampered, '2'],
    ] as const
    for (const [verify, next, expected] of cases) {
      // Signatures are of today.
      const archive = { verify, signed_by: [key.keyring] }
      const settings = { freshness: { floor: '0s' } }
      const mirror = await mirrored(t, { settings, archive, now: Date.now() + 5000 })
      mirror.serve(await signed(1))
      await mirror.update()
      mirror.serve(await next(2))
      await mirror.update()
      const { day } = await mirror.update()
      t.equal(day, expected, `${verify}, ${next.name}`)
    }
  },
)
