/**
 * `/_cachesvc/build/NAME/…` and `http://build:NAME@proxy`: what a build was given is recorded, and given again byte for byte.
 */
import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { buildsDirectory } from '../../../../lib/cache/features/builds/records.ts'
import { Layout } from '../../../../lib/cache/store/disk/disk.ts'
import { keepingKey } from '../../../../lib/cache/store/key.ts'
import { isRecord } from '../../../../lib/json.ts'
import {
  type ChangingArchive,
  changingArchive,
} from '../../../fixtures/archive/changing-archive.ts'
import { hexOf } from '../../../fixtures/archive/tiny-archive.ts'
import { TestCache } from '../../../fixtures/cache/cache.ts'
import type { RawResponse } from '../../../fixtures/http/raw-client.ts'
import { file, reply, ScriptedOrigin } from '../../../fixtures/http/scripted-origin.ts'
import { attempt } from '../../../fixtures/process/command.ts'

t.setTimeout(300_000)

const program = join(import.meta.dirname, '../../../../bin/cachesvc.js')

/** Runs a command beside a service, or where none runs. */
async function run(directory: string, ...words: readonly string[]) {
  const given = [program, '--cache-dir', directory, ...words]
  const { code, stdout, stderr } = await attempt(process.execPath, given)
  return { code, out: stdout.toString(), complained: stderr }
}

/** The same as `cachesvc build`, asked within this process, so that a manual clock can be turned meanwhile. */
async function build(cache: TestCache, act: string, name: string, json = false) {
  const answer = await cache.command({ do: 'build', act, name, file: '', json })
  if (!isRecord(answer)) throw new Error(`no answer: ${answer}`)
  const { out, complaints = [], code } = answer
  return { out: String(out), complaints: Array.isArray(complaints) ? complaints : [], code }
}

const user = (name: string) => ({
  'Proxy-Authorization': `Basic ${Buffer.from(`build:${name}`).toString('base64')}`,
})

/** The files of a build of one package, as a client of the day would ask for them. */
function filesOf({ release, index, root }: ChangingArchive, day: number): readonly string[] {
  return [release, index, `${root}/pool/main/p/p_${day}_all.deb`, `${root}/dists/stable/none`]
}

/** Asks for files within a build, by prefix. */
async function within(
  { cache, origin }: ChangingArchive,
  name: string,
  paths: readonly string[],
): Promise<readonly RawResponse[]> {
  const answers: RawResponse[] = []
  for (const path of paths) {
    const prefix = `/_cachesvc/build/${name}/127.0.0.1:${origin.port}`
    answers.push(await cache.get(`${prefix}/${path}`, { 'Cache-Control': 'max-age=0' }))
  }
  return answers
}

const told = (answers: readonly RawResponse[]) =>
  answers.map(({ status, content }) => [status, status === 200 ? hexOf('sha256', content) : ''])

async function recorded(t: Test, settings: object = {}) {
  const archive = await changingArchive(t, { settings })
  const { cache } = archive
  archive.serve(await archive.ofDay(1))
  archive.origin.at(`/${archive.root}/dists/stable/none`, reply({ status: 404, content: 'no' }))
  t.equal((await build(cache, 'record', 'base')).code, 0)
  const files = filesOf(archive, 1)
  const first = told(await within(archive, 'base', files))
  await archive.settle()
  return { archive, cache, files, first }
}

t.test('after the archive has moved on, the same bytes', async t => {
  const { archive, cache, files, first } = await recorded(t)
  t.strictSame(
    first.map(([status]) => status),
    [200, 200, 200, 404],
  )
  t.match(await build(cache, 'lock', 'base'), {
    code: 0,
    complaints: [],
    out: /3 files, .* 1 without/,
  })
  const second = await archive.ofDay(2)
  archive.serve(second)
  archive.remove([`${archive.root}/pool/main/p/p_1_all.deb`])
  await archive.until('2', t)
  const asked = archive.origin.requests.length
  t.strictSame(told(await within(archive, 'base', files)), first)
  const [one] = await within(archive, 'base', files)
  t.equal(one?.fields.get('X-Cache'), 'HIT')
  t.match(one?.fields.get('Cache-Status'), /hit; detail=recorded/)

  await t.test('by the user of the proxy as well', async t => {
    const answers: RawResponse[] = []
    for (const path of files) {
      answers.push(await cache.get(archive.origin.url(`/${path}`), user('base')))
    }
    t.strictSame(told(answers), first)
    t.notOk(answers[0]?.fields.get('Content-Security-Policy'))
  })

  await t.test('preconditions, ranges and HEAD hold of the recorded file', async t => {
    const url = archive.origin.url(`/${archive.release}`)
    const { fields } = await cache.get(url, user('base'))
    const etag = fields.get('ETag') ?? ''
    t.equal((await cache.get(url, { ...user('base'), 'If-None-Match': etag })).status, 304)
    const part = await cache.get(url, { ...user('base'), Range: 'bytes=0-3' })
    t.strictSame([part.status, part.content.length], [206, 4])
    t.not((await cache.get(url)).fields.get('ETag'), etag, 'others get the new one')
  })

  await t.test('what was never recorded is 409, and the reason phrase names it', async t => {
    const path = `${archive.root}/pool/main/p/p_2_all.deb`
    const [answer] = await within(archive, 'base', [path])
    t.equal(answer?.status, 409)
    t.match(answer?.reason, /p_2_all\.deb is missing in the build base: it was never recorded/)
  })

  await t.test('the same after a restart, offline', async t => {
    await cache.restart({ freshness: { floor: '0s' }, offline: true })
    t.strictSame(told(await within(archive, 'base', files)), first)
  })
  t.equal(archive.origin.requests.length, asked, 'no origin was asked')
})

t.test('while it is recorded, a URL has one answer', async t => {
  const { archive, cache, files, first } = await recorded(t)
  archive.serve(await archive.ofDay(2))
  archive.remove([`${archive.root}/pool/main/p/p_1_all.deb`])
  await archive.until('2', t)
  t.strictSame(
    told(await within(archive, 'base', files)),
    first,
    'a second update is the first one',
  )
  const shown = await build(cache, 'show', 'base', true)
  t.match(JSON.parse(shown.out), { answers: { length: 4 }, notRecorded: 0 })
})

t.test(
  'an index that is asked for after the archive moved on is that of the recorded Release',
  async t => {
    const archive = await changingArchive(t)
    const { cache } = archive
    const day1 = await archive.ofDay(1, { byHash: true })
    archive.serve(day1)
    await archive.until('1', t)
    await build(cache, 'record', 'base')
    await within(archive, 'base', [archive.release])
    archive.serve(await archive.ofDay(2, { byHash: true }))
    await archive.until('2', t)
    const [release, index] = await within(archive, 'base', [archive.release, archive.index])
    t.match(release?.content.toString(), hexOf('sha256', index?.content ?? Buffer.alloc(0)))
    t.ok(day1.get(archive.index)?.equals(index?.content ?? Buffer.alloc(0)))
  },
)

t.test('a file that is gone from the disk is 409, with its name', async t => {
  const { archive, cache, files } = await recorded(t)
  await build(cache, 'lock', 'base')
  const digest = hexOf('sha256', Buffer.from('content 1 of debian'))
  await cache.stop()
  await rm(new Layout(cache.directory).blob(digest))
  await cache.restart()
  const [, , deb] = await within(archive, 'base', files)
  t.equal(deb?.status, 409)
  t.match(deb?.reason, /p_1_all\.deb is missing: the build base has 19 bytes with the SHA-256/)
  const [release] = await within(archive, 'base', files)
  t.equal(release?.status, 200, 'the others are there')
  t.match(await build(cache, 'show', 'base'), { complaints: [/p_1_all\.deb is not in the store/] })
})

t.test('replay from the bundle on another machine, offline; a list and SPDX', async t => {
  const { archive, cache, files, first } = await recorded(t)
  const outside = t.testdir({})
  const bundle = join(outside, 'base.tar')
  t.match(await run(cache.directory, 'build', 'export', 'base', bundle), {
    code: 1,
    complained: /recorded still, so lock it first/,
  })
  await build(cache, 'lock', 'base')
  t.match(await run(cache.directory, 'build', 'export', 'base', bundle), {
    code: 0,
    out: /^exported 3 files/,
  })
  const list = await run(cache.directory, 'build', 'export', 'base', '--format', 'list')
  t.match(list.out, /^# cachesvc build 1 base .*\n- 404 .*none\n|[0-9a-f]{64} 19 .*p_1_all.deb\n/)
  const spdx = await run(cache.directory, 'build', 'export', 'base', '--format=spdx')
  t.equal(JSON.parse(spdx.out).packages.length, 3)
  for (const kind of ['tar', 'directory']) {
    const from = kind === 'tar' ? bundle : join(outside, 'bundle')
    if (kind === 'directory') await run(cache.directory, 'build', 'export', 'base', from)
    const there = join(outside, `there-${kind}`)
    t.match(await run(there, 'import', from), {
      code: 0,
      out: /^imported 3 files.*\nthe build base, 4 answers\n$/,
    })
    t.match(await run(there, 'import', from), { code: 0, out: /3 files stored already/ }, 'again')
    const other = await TestCache.start(t, {
      directory: there,
      origins: [archive.origin],
      settings: { offline: true },
    })
    const asked = archive.origin.requests.length
    const elsewhere = { ...archive, cache: other } as ChangingArchive
    t.strictSame(told(await within(elsewhere, 'base', files)), first, kind)
    t.equal(archive.origin.requests.length, asked)
    t.match(await build(other, 'list', ''), { out: /^base\tlocked .*3 files, 3 contents/ })
  }
})

t.test('a list makes a build of what the store has, and names what it lacks', async t => {
  const { archive, cache, files, first } = await recorded(t)
  await build(cache, 'lock', 'base')
  const path = join(t.testdir({}), 'base.list')
  await run(cache.directory, 'build', 'export', 'base', path, '--format', 'list')
  t.match(await run(cache.directory, 'build', 'import', 'copy', path), {
    code: 0,
    out: /^locked: 3/,
  })
  t.strictSame(told(await within(archive, 'copy', files)), first)
  t.match(await run(cache.directory, 'build', 'import', 'copy', path), {
    code: 1,
    complained: /already/,
  })
  const other = await TestCache.start(t, { origins: [archive.origin] })
  t.match(await run(other.directory, 'build', 'import', 'base', path), {
    code: 0,
    complained: /p_1_all\.deb is not in the store: 19 bytes, SHA-256 [0-9a-f]{64}/,
  })
  const elsewhere = { ...archive, cache: other } as ChangingArchive
  t.strictSame(
    (await within(elsewhere, 'base', files)).map(({ status }) => status),
    [409, 409, 409, 404],
  )
  await other.warm(archive.origin.url(`/${files[2]}`))
  t.strictSame(
    (await within(elsewhere, 'base', files)).map(({ status }) => status),
    [409, 409, 200, 404],
    'once the store has it, it is given',
  )

  await t.test('and fetches what the archive still has', async t => {
    archive.serve(await archive.ofDay(2), path => path === archive.release)
    t.match(await build(other, 'fetch', 'base'), { code: 0, out: /^fetching 2 files/ })
    await other.until(async () =>
      other.log.lines.some(({ message }) => message === 'fetched what a build lacks'),
    )
    t.strictSame(
      (await within(elsewhere, 'base', files)).map(({ status }) => status),
      [409, 200, 200, 404],
      'and nothing else in place of what it has not',
    )
    t.match(await build(other, 'show', 'base'), { complaints: [/InRelease is not in the store/] })
    const failed = other.log.lines.filter(({ message }) => /cannot be fetched/.test(message))
    t.match(failed, [{ facts: { url: /InRelease/ } }])
    t.match(await build(other, 'fetch', 'none'), { code: 1 })
  })
})

t.test('what is recorded stays: quota, expiry, cachesvc remove', async t => {
  const { archive, cache, files, first } = await recorded(t)
  await build(cache, 'lock', 'base')
  t.match(await run(cache.directory, 'remove', '*'), { code: 0 })
  await archive.cache.restart({
    freshness: { floor: '0s' },
    retention: { size: '1K' },
    expiration: { unused_days: 1 },
    offline: true,
  })
  archive.clock.advance(2 * 24 * 3600 * 1000)
  await archive.cache.quiet()
  t.match(
    (await cache.get('/_cachesvc/cache')).text,
    /1 build and .* stay until the build is removed/,
  )
  t.strictSame(told(await within(archive, 'base', files)), first)
  t.match(await build(cache, 'remove', 'base'), { code: 0, out: 'removed base\n' })
  t.strictSame(
    (await within(archive, 'base', files)).map(({ status }) => status),
    [409, 409, 409, 409],
  )
  t.equal((await build(cache, 'list', '')).out, 'there are no builds\n')
  const key = keepingKey(hexOf('sha256', Buffer.from('content 1 of debian')))
  t.notMatch((await run(cache.directory, 'list')).out, key, 'and their contents are gone')
})

t.test('who may begin and add, names, bounds', async t => {
  const archive = await changingArchive(t)
  const { cache } = archive
  archive.serve(await archive.ofDay(1))
  const statuses = async (name: string) =>
    (await within(archive, name, [archive.release])).map(({ status, reason }) => [status, reason])

  await t.test('by the command alone unless the client is listed', async t => {
    t.match(await statuses('new'), [[409, /no build new: cachesvc build record new/]])
    t.match(await build(cache, 'list', ''), { out: 'there are no builds\n' })
  })
  await t.test('hostile names', async t => {
    for (const name of ['..', '%2e%2e', 'a%2Fb', '', '-x', 'x'.repeat(65), 'a%00b']) {
      const [found] = await statuses(name)
      // Without a name, what follows is a path of its own, and /debian leads to an archive that is not listed here.
      t.ok([400, 403, 404, 409].includes(Number(found?.[0])), `${name} ${found}`)
      t.equal((await build(cache, 'record', name)).code, 1, name)
    }
    const own = await cache.get('/_cachesvc/build/x/_cachesvc/metrics')
    t.equal(own.status, 404)
    t.equal((await cache.get('/_cachesvc/build/x/192.168.1.1/debian/InRelease')).status, 403)
  })
  await t.test('a listed client begins one by asking, a stranger adds nothing', async t => {
    await cache.restart({ builds: { clients: ['127.0.0.1'], most: 1, size: '1M' } })
    t.match(await statuses('first'), [[200]])
    t.match(await statuses('second'), [[409, /1 build, as many as builds\.most/]])
    await cache.restart({ builds: { clients: ['192.0.2.1'] } })
    t.match(await statuses('first'), [[200]], 'what is recorded is given to each')
    const [answer] = await within(archive, 'first', [archive.index])
    t.match([answer?.status, answer?.reason], [409, /may not add to it/])
  })
})

t.test('what is not stored is not recorded, and lock says so', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, {
    origins: [origin],
    settings: { retention: { size: '6M' } },
  })
  origin.at('/a/secret', file({ content: 'secret' }))
  origin.at('/a/large.deb', file({ content: Buffer.alloc(2 * 1024 * 1024, 1), etag: '"1"' }))
  origin.at('/a/second.deb', file({ content: Buffer.alloc(2 * 1024 * 1024, 2), etag: '"2"' }))
  origin.at('/a/broken', reply({ status: 500, content: 'x' }))
  origin.at('/a/moved', reply({ status: 302, fields: { Location: origin.url('/a/small.deb') } }))
  origin.at('/a/small.deb', file({ content: 'small', etag: '"1"' }))
  await build(cache, 'record', 'base')
  const get = (path: string, fields = {}) =>
    cache.get(origin.url(path), { ...user('base'), ...fields })
  t.equal((await get('/a/secret', { Authorization: 'Basic eDp5' })).status, 200)
  t.equal((await get('/a/large.deb')).content.length, 2 * 1024 * 1024)
  await cache.quiet()
  t.equal((await get('/a/second.deb')).content.length, 2 * 1024 * 1024)
  t.equal((await get('/a/broken')).status, 503)
  t.equal((await get('/a/small.deb')).status, 200)
  await cache.quiet()
  const lock = await build(cache, 'lock', 'base')
  t.equal(lock.code, 0)
  const complaints = lock.complaints.join('\n')
  t.match(complaints, /a\/secret is not recorded: it was passed through .* \(authorization\)/)
  t.match(
    complaints,
    /a\/second\.deb is not recorded: the builds have as much as builds\.size allows, 3/,
  )
  t.match(complaints, /a\/broken is not recorded: it was answered 503/)
  t.match((await get('/a/second.deb')).reason, /was asked for and not recorded: the builds have/)
  t.equal((await get('/a/secret')).status, 409, 'and no secret is given')
})

t.test('redirects within a prefix stay within it', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin], settings: { redirects: 'pass' } })
  origin.at('/a/moved', reply({ status: 302, fields: { Location: origin.url('/a/small.deb') } }))
  origin.at('/a/small.deb', file({ content: 'small', etag: '"1"' }))
  await build(cache, 'record', 'base')
  const prefix = `/_cachesvc/build/base/127.0.0.1:${origin.port}`
  for (const state of ['recorded', 'locked']) {
    const moved = await cache.get(`${prefix}/a/moved`)
    t.equal(moved.status, 302, state)
    t.equal(moved.fields.get('Location'), `${prefix}/a/small.deb`, state)
    t.equal((await cache.get(`${prefix}/a/small.deb`)).text, 'small')
    await cache.quiet()
    if (state === 'recorded') await build(cache, 'lock', 'base')
  }
})

t.test('a tunnel that is carried unread is refused', async t => {
  const cache = await TestCache.start(t, { settings: { domains: ['archive.example.org'] } })
  const client = await cache.client()
  const field = user('base')['Proxy-Authorization']
  await client.write(
    `CONNECT archive.example.org:443 HTTP/1.1\r\nHost: archive.example.org:443\r\nProxy-Authorization: ${field}\r\n\r\n`,
  )
  const { status, text } = await client.response()
  t.equal(status, 409)
  t.match(text, /HTTPS\/\/\/archive\.example\.org/)
})

t.test('a record from before a crash, a damaged one and a newer one', async t => {
  const { archive, cache, files, first } = await recorded(t)
  const records = buildsDirectory(cache.directory)
  const path = join(records, 'base.jsonl')
  archive.clock.advance(6000)
  await cache.until(async () => (await readFile(path, 'utf8').catch(() => '')).includes('"open"'))
  const [head = '', ...lines] = (await readFile(path, 'utf8')).split('\n')
  await cache.stop()
  // What the disk has of it when the power fails in the middle of a recording.
  const kept = [head, ...lines.filter(line => !line.includes('p_1_all'))].join('\n')
  await writeFile(path, kept)
  await writeFile(join(records, 'torn.jsonl'), '{"version":1,"na')
  const newer = [head.replace('"version":1', '"version":2'), ...lines].join('\n')
  await writeFile(join(records, 'next.jsonl'), newer)
  await cache.restart()
  t.match(await build(cache, 'show', 'base'), { complaints: [/killed while this was recorded/] })
  t.match(await build(cache, 'lock', 'base'), { code: 0, complaints: [/killed/] })
  const again = told(await within(archive, 'base', files))
  t.strictSame(
    again.map(([status]) => status),
    [200, 200, 409, 404],
  )
  t.strictSame([again[0], again[1]], [first[0], first[1]])
  for (const [name, because] of [
    ['torn', /cannot be read: it is not a record/],
    ['next', /cannot be read: .* newer cachesvc/],
  ] as const) {
    const [answer] = await within(archive, name, [archive.release])
    t.equal(answer?.status, 409)
    t.match(answer?.reason, because)
    t.equal((await build(cache, 'record', name)).code, 1, 'it is not written over')
  }
  t.equal(await readFile(join(records, 'torn.jsonl'), 'utf8'), '{"version":1,"na')
  t.equal((await build(cache, 'remove', 'torn')).code, 0)
  t.strictSame((await readdir(records)).sort(), ['base.jsonl', 'next.jsonl'])
  await build(cache, 'remove', 'base')
  const key = keepingKey(hexOf('sha256', Buffer.from('content 1 of debian')))
  t.ok((await cache.stored()).includes(key), 'what the newer record names stays')
})

t.test('explain tells what a build makes of a URL', async t => {
  const { archive, cache, files } = await recorded(t)
  const explained = async (path: string) => {
    const url = `http://127.0.0.1:${cache.port}/_cachesvc/build/base/127.0.0.1:${archive.origin.port}/${path}`
    return (await cache.get(`/_cachesvc/explain?url=${encodeURIComponent(url)}`)).text
  }
  t.match(await explained(`${archive.root}/new`), /which records the answer/)
  await build(cache, 'lock', 'base')
  t.match(await explained(files[2] ?? ''), /what the build base has recorded: 19 bytes, SHA-256/)
  t.match(await explained(files[3] ?? ''), /answered 404, as it was recorded/)
  t.match(await explained(`${archive.root}/new`), /answered 409.*never recorded/)
})
