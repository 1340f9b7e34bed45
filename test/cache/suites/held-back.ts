/**
 * A Release file that names an index which cannot be had: it is held back for a bounded time, and the service says so.
 */
import { gzipSync } from 'node:zlib'
import t from 'tap'
import {
  asked,
  type ChangingArchive,
  changingArchive,
  changingArchives,
} from '../../fixtures/archive/changing-archive.ts'
import { releaseOf } from '../../fixtures/archive/tiny-archive.ts'
import { file, reply } from '../../fixtures/http/scripted-origin.ts'

const minute = 60_000
/** Services are started and archives updated some dozen times. */
const timeout = 110_000
const missing = () => reply({ status: 404, content: 'gone' })
const packages = 'main/binary-amd64/Packages.gz'

/** The bytes of a file of a suite, of a day. */
function contentOf(path: string, n: number): Buffer {
  const digest = String(n).repeat(64)
  const stanza = `Package: x\nFilename: pool/${path}_${n}.deb\nSize: 1\nSHA256: ${digest}\n`
  return gzipSync(path.includes('binary-') || path.includes('source') ? stanza : `${path} ${n}`)
}

/** Puts the Release file of a day in place, with these files of its suite. */
function publish({ suite, release, origin }: ChangingArchive, n: number, paths: readonly string[]) {
  const named = paths.map(path => [path, contentOf(path, n)] as const)
  const date = new Date(Date.UTC(2025, 0, 1, n)).toUTCString().replace('GMT', 'UTC')
  const text = `Version: ${n}\n${releaseOf(named, ['SHA256'], date)}`
  const files = [[release, Buffer.from(text)] as const, ...named]
  for (const [path, content] of files) {
    const at = path === release ? `/${release}` : `/${suite}/${path}`
    origin.at(at, file({ content, etag: `"${path} ${n}"` }))
  }
}

type Fault = (right: Buffer) => ReturnType<typeof file>

/** All that can be wrong with one file of an archive. */
const faults: Readonly<Record<string, Fault>> = {
  'has wrong content': right => file({ content: Buffer.alloc(right.length, 'x'), etag: '"wrong"' }),
  'has another length': right => file({ content: `${right}and more`, etag: '"longer"' }),
  'is 404': () => reply({ status: 404, content: 'gone' }),
  'is 403': () => reply({ status: 403, content: 'no' }),
  'is 500': () => reply({ status: 500, content: 'broken' }),
  'is a page': () =>
    file({ content: '<html>not here</html>', fields: { 'Content-Type': 'text/html' } }),
  'breaks off': right => file({ content: right.subarray(0, 5), claims: right.length }),
  'never ends': right => async answer => {
    await answer.write(`HTTP/1.1 200 OK\r\nContent-Length: ${right.length}\r\n\r\n`)
  },
}

/** Faults for which the service waits by its clock. */
const slow: ReadonlySet<string> = new Set(['breaks off', 'never ends'])

/** Which day the client gets from an origin that answers. No time passes meanwhile. */
async function dayOf(archive: ChangingArchive): Promise<string> {
  const { text } = await archive.get(archive.release)
  return /^Version: (\d+)/m.exec(text)?.[1] ?? ''
}

/** Looks that have to find the same work under way before time passes. */
const restingLooks = 50

/**
 * Which day the client gets from an origin that does not go on. Time passes only while the service has nothing to do but wait. Otherwise
 * the service would take an origin that answers for a slow one on a busy machine, and give the Release file of before.
 */
async function dayOfSlow(archive: ChangingArchive): Promise<string> {
  const { cache, clock, origin } = archive
  let found: string | undefined
  const answer = dayOf(archive).then(day => {
    found = day
  })
  let last = ''
  let looks = 0
  const isAnswered = (): boolean => {
    const { fetches, writes, adoptions, jobs } = cache.working
    const now = [origin.requests.length, fetches, writes, adoptions, jobs].join()
    looks = now === last ? looks + 1 : 0
    last = now
    if (looks > restingLooks && adoptions + jobs === 0 && writes <= fetches) clock.advance(50)
    return found !== undefined
  }
  await cache.until(isAnswered, () => false)
  await answer
  return found ?? ''
}

/** Lets time pass on the clock, once everything is put away. */
async function passing({ cache, clock }: ChangingArchive, milliseconds: number): Promise<void> {
  const isPutAway = (): boolean => cache.working.writes <= cache.working.fetches
  await cache.until(isPutAway, () => false)
  clock.advance(milliseconds)
}

/** An archive of which clients use some files: the Packages of amd64 more often than the others. */
async function inUse(archive: ChangingArchive, paths: readonly string[] = []) {
  const all = [...new Set([packages, ...paths])]
  publish(archive, 1, all)
  await archive.get(archive.release)
  await archive.settle()
  for (const path of [...all, packages, packages]) await archive.get(`${archive.suite}/${path}`)
  await archive.settle()
  const broken = (path: string, n: number, fault: Fault): void => {
    publish(archive, n, all)
    archive.origin.at(`/${archive.suite}/${path}`, fault(contentOf(path, n)))
  }
  return broken
}

async function status({ cache }: ChangingArchive): Promise<string> {
  return (await cache.get('/_cachesvc/healthz')).text
}

const secondary = [
  'Contents-amd64.gz',
  'main/Contents-amd64.gz',
  'main/i18n/Translation-de.gz',
  'main/dep11/Components-amd64.yml.gz',
  'main/cnf/Commands-amd64.gz',
  'main/binary-i386/Packages.gz',
  'main/source/Sources.gz',
]

const [contents = ''] = secondary
const lacking: ReadonlyArray<readonly [path: string, name: string]> = [
  ...Object.keys(faults).map(name => [contents, name] as const),
  ...secondary.slice(1).map(path => [path, 'is 404'] as const),
]
t.test('few files hold a Release back for long', { timeout }, async t => {
  const archiveAt = await changingArchives(t)
  for (const [n, [path, name]] of lacking.entries()) {
    const archive = archiveAt(`archive${n}`)
    const broken = await inUse(archive, [path])
    broken(path, 2, faults[name] ?? missing)
    const day = () => (slow.has(name) ? dayOfSlow(archive) : dayOf(archive))
    await day()
    await passing(archive, 8000)
    t.equal(await day(), '2', `${path} ${name}`)
    await archive.cache.until(async () => (await status(archive)) === 'ok\n')
  }
})

t.test(
  'the Packages most clients use: ten minutes, and then as the origin',
  { timeout },
  async t => {
    const archiveAt = await changingArchives(t)
    for (const [name, fault] of Object.entries(faults)) {
      const archive = archiveAt(name.replaceAll(' ', '-'))
      const broken = await inUse(archive)
      const { cache, clock } = archive
      const day = () => (slow.has(name) ? dayOfSlow(archive) : dayOf(archive))
      t.equal(await status(archive), 'ok\n')
      broken(packages, 2, fault)
      t.equal(await day(), '1')
      const begun = clock.elapsed()
      const until = (minutes: number) =>
        passing(archive, minutes * minute + begun - clock.elapsed())
      await cache.until(async () => (await status(archive)).includes(packages))
      t.match(await status(archive), 'earlier Release')
      t.equal(await cache.metric('cachesvc_suites_behind'), 1)
      await until(9)
      t.equal(await day(), '1', `${name}: held back for nine minutes`)
      const seconds = (await cache.metric('cachesvc_suites_behind_seconds')) ?? 0
      t.ok(seconds >= 530 && seconds < 560, `${seconds} seconds behind`)
      await until(10)
      // A client whose question came while the last try was under way may still get the one before.
      await cache.until(async () => (await day()) === '2')
      await cache.until(async () => (await status(archive)) === 'ok\n')
      t.equal(await cache.metric('cachesvc_suites_behind'), 0)
      publish(archive, 3, [packages])
      t.equal(await dayOf(archive), '3', 'the next one is not held back')
    }
  },
)

t.test('a restart does not begin the ten minutes afresh', async t => {
  const archive = await changingArchive(t)
  const broken = await inUse(archive)
  const { cache } = archive
  broken(packages, 2, faults['is 404'] ?? missing)
  t.equal(await dayOf(archive), '1')
  for (let n = 0; n < 3; n += 1) {
    await passing(archive, 3 * minute)
    await cache.restart()
    t.match(await status(archive), 'earlier Release', 'it is said before a client asks')
    t.equal(await dayOf(archive), '1')
  }
  await passing(archive, minute)
  t.equal(await dayOf(archive), '2')
})

t.test('a Release file that is refused takes no time from the next one', async t => {
  const archive = await changingArchive(t)
  const broken = await inUse(archive)
  // A mirror lags for longer than a Release file may be held back.
  publish(archive, 0, [packages])
  for (let n = 0; n < 5; n += 1) {
    t.equal(await dayOf(archive), '1')
    await passing(archive, 3 * minute)
  }
  broken(packages, 2, faults['is 404'] ?? missing)
  t.equal(await dayOf(archive), '1', 'the next one is held back for its own ten minutes')
  await passing(archive, 9 * minute)
  t.equal(await dayOf(archive), '1')
  await passing(archive, 2 * minute)
  await archive.cache.until(async () => (await dayOf(archive)) === '2')
})

t.test('an origin that confirms the one before in between does not begin them afresh', async t => {
  const archive = await changingArchive(t)
  const broken = await inUse(archive)
  for (let n = 0; n < 5; n += 1) {
    broken(packages, 2, faults['is 404'] ?? missing)
    t.equal(await dayOf(archive), '1')
    publish(archive, 1, [packages])
    await passing(archive, 2 * minute)
    // On a busy machine the question before may end later than its client.
    await archive.cache.until(async () => {
      const { fields } = await archive.get(archive.release)
      return fields.get('Cache-Status')?.includes('detail=validated') === true
    })
    t.equal(await status(archive), 'ok\n')
  }
  broken(packages, 2, faults['is 404'] ?? missing)
  await archive.cache.until(async () => (await dayOf(archive)) === '2')
})

t.test('a bad file is fetched once, and the questions back off', async t => {
  const archive = await changingArchive(t)
  const broken = await inUse(archive)
  const { clock, origin, release, suite } = archive
  broken(packages, 2, faults['has wrong content'] ?? missing)
  const before = [release, `${suite}/${packages}`].map(path => origin.seen(`/${path}`).length)
  const end = clock.elapsed() + 9 * minute
  const days = new Set<string>()
  for (; clock.elapsed() < end; await passing(archive, 2000)) days.add(await dayOf(archive))
  t.strictSame([...days], ['1'])
  const [releases = 0, indexes = 0] = [release, `${suite}/${packages}`].map(
    (path, n) => origin.seen(`/${path}`).length - (before[n] ?? 0),
  )
  t.ok(releases <= 10, `${releases} questions for the Release file`)
  const whole = origin
    .seen(`/${suite}/${packages}`)
    .slice(-indexes)
    .filter(({ fields }) => !fields.has('If-None-Match'))
  t.equal(whole.length, 1)
})

t.test('a bad file is mended, and has the same date', async t => {
  const archive = await changingArchive(t)
  const broken = await inUse(archive)
  const lastModified = 'Fri, 14 Mar 2025 10:00:00 GMT'
  const right = contentOf(packages, 2)
  broken(packages, 2, () => file({ content: Buffer.alloc(right.length, 'x'), lastModified }))
  t.equal(await dayOf(archive), '1')
  archive.origin.at(`/${archive.suite}/${packages}`, file({ content: right, lastModified }))
  await passing(archive, 10_000)
  t.equal(await dayOf(archive), '2')
})

t.test('an index that may not be stored holds nothing back', async t => {
  const large = 'Contents-amd64.gz'
  const archive = await changingArchive(t)
  const settings = {
    freshness: { floor: '0s' },
    domains: [`127.0.0.1:${archive.origin.port}`],
    retention: { object_size: '2K' },
  }
  publish(archive, 1, [packages, large])
  await archive.get(archive.release)
  for (const path of [packages, large]) await archive.get(`${archive.suite}/${path}`)
  await archive.settle()
  await archive.cache.reload(settings)
  for (const [path, day] of [
    [packages, 2],
    [large, 3],
  ] as const) {
    publish(archive, day, [packages, large])
    const content = Buffer.concat([contentOf(path, day), Buffer.alloc(4096)])
    const named = [packages, large].map(
      one => [one, one === path ? content : contentOf(one, day)] as const,
    )
    const date = new Date(Date.UTC(2025, 0, 1, day)).toUTCString().replace('GMT', 'UTC')
    const text = `Version: ${day}\n${releaseOf(named, ['SHA256'], date)}`
    archive.origin.at(`/${archive.release}`, file({ content: text, etag: `"${day}"` }))
    archive.origin.at(`/${archive.suite}/${path}`, file({ content, etag: `"large ${day}"` }))
    t.equal(await dayOf(archive), String(day))
    const answer = await archive.get(`${archive.suite}/${path}`)
    t.ok(answer.content.equals(content), 'and the client gets it')
    await archive.settle()
  }
})

t.test('after ten minutes a 404 of the origin is a 404', async t => {
  const archive = await changingArchive(t)
  const broken = await inUse(archive)
  broken(packages, 2, faults['is 404'] ?? missing)
  t.equal(await dayOf(archive), '1')
  await passing(archive, 10 * minute)
  // A client that has been given the one before gets its index, too.
  await archive.cache.until(async () => (await dayOf(archive)) === '2')
  await archive.settle()
  t.equal((await archive.get(`${archive.suite}/${packages}`)).status, 404)
})

t.test('a detached signature that cannot be had', async t => {
  const archiveAt = await changingArchives(t)
  const archive = archiveAt('debian')
  const [release, signature] = [`${archive.suite}/Release`, `${archive.suite}/Release.gpg`]
  const serve = (n: number): void => {
    publish(archive, n, [packages])
    const date = new Date(Date.UTC(2025, 0, 1, n)).toUTCString().replace('GMT', 'UTC')
    const text = `Version: ${n}\n${releaseOf([[packages, contentOf(packages, n)]], ['SHA256'], date)}`
    archive.origin.at(`/${release}`, file({ content: text, etag: `"Release ${n}"` }))
  }
  serve(1)
  archive.origin.at(`/${signature}`, reply({ status: 404, content: 'none' }))
  const day = async (): Promise<string> => {
    const { text } = await archive.get(release)
    return /^Version: (\d+)/m.exec(text)?.[1] ?? ''
  }
  t.equal(await day(), '1')
  await archive.get(`${archive.suite}/${packages}`)
  await archive.settle()
  serve(2)
  archive.origin.at(`/${signature}`, reply({ status: 403, content: 'no' }))
  t.equal(await day(), '1')
  t.match(await status(archive), 'Release.gpg')
  await passing(archive, 10 * minute)
  t.equal(await day(), '2')
})

t.test('the page of the cache names the file', async t => {
  const archive = await changingArchive(t)
  const broken = await inUse(archive)
  broken(packages, 2, faults['is 403'] ?? missing)
  t.equal(await dayOf(archive), '1')
  await passing(archive, 2 * minute)
  const { text } = await archive.cache.get('/_cachesvc/cache', asked)
  t.match(text, /main\/binary-amd64\/Packages\.gz.*403/)
  t.match(text, /2 minutes/)
  const metrics = await archive.cache.get('/_cachesvc/metrics')
  t.match(
    metrics.text,
    /cachesvc_suite_behind_seconds\{suite=".*dists\/stable",file="main\/binary-amd64\/Packages.gz"\} 12\d/,
  )
})

t.test('a slow origin is asked for a few files at a time', { timeout }, async t => {
  const archive = (await changingArchives(t))('debian')
  const { origin, suite } = archive
  const languages = ['cs', 'da', 'de', 'es', 'fi', 'fr', 'it', 'ja', 'nl', 'pl', 'pt', 'sv']
  const paths = languages.map(language => `main/i18n/Translation-${language}.gz`)
  publish(archive, 1, [...paths, packages])
  await archive.get(archive.release)
  await archive.settle()
  for (const path of [...paths, packages]) await archive.get(`${suite}/${path}`)
  await archive.settle()
  publish(archive, 2, [...paths, packages])
  const asked: string[] = []
  for (const path of paths) {
    origin.at(`/${suite}/${path}`, async ({ request }) => {
      asked.push(path)
      await request.gone
    })
  }
  t.equal(await dayOfSlow(archive), '2')
  await archive.get(`${suite}/${packages}`)
  t.ok(asked.length > 0 && asked.length <= 4, `${asked.length}`)
})
