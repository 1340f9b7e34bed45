/**
 * The commands that ask a running service, as programs beside it: status, stats, remove, refresh and reload.
 */
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { TestCache } from '../fixtures/cache/cache.ts'
import { file, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'
import { attempt } from '../fixtures/process/command.ts'

t.setTimeout(600_000)

const program = join(import.meta.dirname, '../../bin/cachesvc.js')
const deb = '/debian/pool/main/h/hello_1_all.deb'
const index = '/debian/dists/stable/InRelease'

async function run(directory: string, ...words: readonly string[]) {
  const given = [program, '--cache-dir', directory, ...words]
  const { code, stdout, stderr } = await attempt(process.execPath, given)
  return { code, out: stdout.toString(), complained: stderr }
}

async function running(t: Test) {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  origin.at('*', file({ content: 'hello', lastModified: 'Wed, 01 Jan 2025 00:00:00 GMT' }))
  return {
    ...{ origin, cache },
    run: (...words: readonly string[]) => run(cache.directory, ...words),
  }
}

t.test('status says whether the service is well and what it does', async t => {
  const { origin, cache, run } = await running(t)
  await cache.warm(origin.url(deb))
  const { code, out } = await run('status')
  t.equal(code, 0)
  for (const line of [
    /^cachesvc \S+ is ready$/m,
    /^Running +for less than a minute, process \d+$/m,
    /^Listening +http:\/\/127\.0\.0\.1:\d+$/m,
    /^Downloads +none$/m,
    /^Store +1 file, 5 bytes, .* free$/m,
  ]) {
    t.match(out, line)
  }
  t.match(JSON.parse((await run('status', '--json')).out), {
    state: 'ready',
    cautions: [],
    process: process.pid,
    downloads: [],
    store: { directory: cache.directory, files: 1, bytes: 5 },
  })
})

t.test('retention --dry-run says what goes next, and why', async t => {
  const { origin, cache, run } = await running(t)
  await cache.warm(origin.url(deb))
  const { code, out } = await run('retention', '--dry-run')
  t.equal(code, 0)
  t.match(out, /^The daily sweep would remove nothing now\.$/m)
  t.match(
    out,
    /^5 bytes are stored; retention\.size sets no limit; .* retention\.free keeps .* free\.$/m,
  )
  t.match(out, /^When room is needed, files go in this order \(the first 1, 5 bytes\):$/m)
  t.match(out, new RegExp(`^floor\tno index names it\t\\S+\t5\t${origin.url(deb)}$`, 'm'))
  t.match(JSON.parse((await run('retention', '--dry-run', '--json')).out), {
    stored: 5,
    sweep: { files: 0, bytes: 0, first: [] },
    room: [{ reason: 'floor', because: 'no index names it', bytes: 5, url: origin.url(deb) }],
  })
  t.match(await run('retention'), { code: 2, complained: /removes files by itself/ })
})

t.test('stats shows today and the days, as the statistics interface has them', async t => {
  const { origin, cache, run } = await running(t)
  t.match((await run('stats')).out, /^today +0 .* 0%/m, 'before the first request')
  await cache.warm(origin.url(deb))
  await cache.get(origin.url(deb))
  const { code, out } = await run('stats')
  t.equal(code, 0)
  t.match(out, /^ +requests +hits +misses +tunnels +hit rate +sent +fetched +saved$/m)
  t.match(out, /^today +2 +1 +1 +0 +50\.0% +10 bytes +5 bytes +5 bytes$/m)
  t.match(out, /^total +2 /m)
  const json = JSON.parse((await run('stats', '--json')).out)
  t.strictSame(json, JSON.parse((await cache.get('/_cachesvc/api/stats')).text))
})

t.test('remove takes a URL or a pattern, and says how much went', async t => {
  const { origin, cache, run } = await running(t)
  for (const path of [deb, index, '/other/pool/x_1_all.deb']) await cache.warm(origin.url(path))
  t.match(await run('remove', '--dry-run', '*/debian/*'), {
    code: 0,
    out: `${origin.url(index)}\n${origin.url(deb)}\n`,
    complained: 'cachesvc: 2 files; nothing was changed\n',
  })
  t.equal((await cache.stored()).length, 3)
  t.match(await run('remove', origin.url(deb)), { code: 0, out: 'removed 1 file, 5 bytes\n' })
  t.match(await run('remove', origin.url(deb)), {
    code: 1,
    out: '',
    complained: `cachesvc: no stored file is meant by ${origin.url(deb)}\n`,
  })
  t.match(await run('remove', 'foo bar'), { code: 2, complained: /visible ASCII/ })
  t.equal((await cache.get(origin.url(deb))).fields.get('X-Cache'), 'MISS')
  await cache.quiet()
  t.match(await run('remove', '*'), { code: 0, out: 'removed 3 files, 15 bytes\n' })
  t.strictSame(await cache.stored(), [])
})

t.test('refresh has the next request ask the origin, for packages as well', async t => {
  const { origin, cache, run } = await running(t)
  await cache.warm(origin.url(deb))
  t.match(await run('refresh', '--dry-run', origin.url(deb)), { code: 0 })
  t.match((await cache.get(origin.url(deb))).fields.get('Cache-Status'), /hit; detail=immutable/)
  t.match(await run('refresh', origin.url(deb)), {
    code: 0,
    out: 'will ask the origin at the next request for 1 file, 5 bytes\n',
  })
  t.match((await cache.get(origin.url(deb))).fields.get('Cache-Status'), /detail=validated/)
  t.equal(origin.seen(deb).length, 2)
  t.equal(
    origin.seen(deb)[1]?.fields.get('If-Modified-Since'),
    'Wed, 01 Jan 2025 00:00:00 GMT',
    'the content is not fetched again when it is the same',
  )
  t.match((await cache.get(origin.url(deb))).fields.get('Cache-Status'), /detail=immutable/)
})

t.test('what is to be refreshed is still served when the origin cannot be asked', async t => {
  const { origin, cache, run } = await running(t)
  await cache.warm(origin.url(deb))
  await run('refresh', '*')
  await origin.close()
  const { fields, text } = await cache.get(origin.url(deb))
  t.equal(text, 'hello')
  t.match(fields.get('Cache-Status'), /stale-origin-failed/)
})

t.test('reload says whether the new configuration is in force, and what waits', async t => {
  const { cache, run } = await running(t)
  t.match(await run('reload'), {
    code: 0,
    out: 'reloaded: the new configuration is in force\n',
    complained: '',
  })
  cache.settings = { limits: { connections: 7 } }
  for (let n = 0; n < 2; n += 1) {
    const complained = /^cachesvc: changed, and in force after a restart: limits\.connections/
    t.match(await run('reload'), { code: 0, complained })
  }
  cache.settings = {}
  t.match(await run('reload'), { code: 0, complained: '' }, 'as at the start: nothing waits')
  cache.settings = { domains: ['http://'] }
  t.match(await run('reload'), {
    code: 78,
    out: '',
    complained:
      /^cachesvc: .*\ncachesvc: not reloaded: the running configuration stays in force\n$/,
  })
})

t.test('without a service each says so in one sentence', async t => {
  const directory = t.testdir({})
  for (const words of [['status'], ['stats'], ['remove', '*'], ['refresh', '*'], ['reload']]) {
    t.match(
      await run(directory, ...words),
      {
        code: 1,
        out: '',
        complained: `cachesvc: No cachesvc runs with the cache directory ${directory}: start it, or name its directory with --cache-dir.\n`,
      },
      words.join(' '),
    )
  }
  t.match(await run(directory, 'remove', '--dry-run', '*'), { code: 1, out: '' })
})
