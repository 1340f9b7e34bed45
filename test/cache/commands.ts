/**
 * `cachesvc list`, `explain` and `--check-config`, as programs beside a running service.
 */
import { readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { TestCache } from '../fixtures/cache/cache.ts'
import { file, reply, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'
import { attempt, command } from '../fixtures/process/command.ts'

t.setTimeout(600_000)

const program = join(import.meta.dirname, '../../bin/cachesvc.js')
const deb = '/debian/pool/main/h/hello_1_all.deb'

t.test('list and explain tell what a running service has', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const settings = { freshness: { floor: '0s', negative: '1h' } }
  const cache = await TestCache.start(t, { origins: [origin], settings })
  origin.at('*', file({ content: 'hello', lastModified: 'Wed, 01 Jan 2025 00:00:00 GMT' }))
  origin.at('/debian/none', reply({ status: 404 }))
  await cache.warm(origin.url(deb))
  const config = join(t.testdir(), 'c.yaml')
  await writeFile(config, `domains: ["127.0.0.1:${origin.port}"]\n`)
  const run = async (...words: readonly string[]) => {
    const given = ['-c', config, '--cache-dir', cache.directory, ...words]
    const { code, stdout, stderr } = await attempt(process.execPath, [program, ...given])
    return { code, text: stdout.toString(), stderr }
  }

  const list = await run('list')
  t.equal(list.code, 0)
  const [head, line = ''] = list.text.split('\n')
  t.equal(head, 'bytes\tlast used\tSHA-256\tURL')
  const [size, used, digest, key] = line.split('\t')
  t.strictSame([size, key], ['5', origin.url(deb)])
  t.match(digest, /^[0-9a-f]{64}$/)
  t.ok(Math.abs(Date.parse(used ?? '') - Date.now()) < 600_000)
  t.equal((await run('list', 'debian*hello')).text, list.text)
  t.match(JSON.parse((await run('list', '--json')).text), [
    { url: origin.url(deb), bytes: 5, sha256: digest, lastUsed: used },
  ])
  for (const order of ['url', 'size', 'used']) {
    t.equal((await run('list', '--sort', order)).text, list.text)
  }
  t.match(await run('list', '--sort', 'age'), { code: 2, stderr: /expected url, size or used/ })
  t.match(await run('remove', '--dry-run', 'hello'), {
    ...{ code: 1, text: '' },
    stderr: /1 file would be meant by \*hello\*: cachesvc remove '\*hello\*'/,
  })
  t.match(await run('list', 'other', '--json'), { code: 1, text: '[\n]\n' })
  t.match(await run('list', 'other'), {
    code: 1,
    text: '',
    stderr: /holds nothing that matches "other"/,
  })

  const explained = await run('explain', origin.url(deb))
  t.match(
    explained.stderr,
    `the running service answered with the settings in force, and did not read ${config} for that`,
  )
  t.equal(explained.code, 0)
  for (const line of [
    /Admitted by +127\.0\.0\.1:\d+ \(at any address\)/,
    /Kind +pool, never changes/,
    /Stored +5 bytes, \d{4}-\d\d-\d\d \d\d:\d\d UTC/,
    /^A request now +is answered from the store \(immutable\)/,
  ]) {
    t.match(explained.text, line)
  }
  t.notMatch(explained.text, 'apt update now', 'a package is asked for in one way only')
  const release = origin.url('/debian/dists/stable/InRelease')
  await cache.warm(release)
  const index = (await run('explain', release)).text
  t.match(index, /A request now +is answered from the store \(fresh\)/)
  t.match(index, /apt update now +is answered .*asked .*\(max-age\)/)
  t.match((await run('explain', 'http://other.example.org/x')).text, /Refused by +domains/)
  t.match((await run('explain', `${origin.url('')}/new`)).text, /fetched from the origin/)
  t.match(await run('explain', 'ftp://x/y'), { code: 2, text: /Asked for +\S+/ })
  await cache.get(origin.url('/debian/none'))
  const none = await run('explain', origin.url('/debian/none'))
  t.match(none.text, /^A request now +is answered 404/, 'the running service is asked')
  await cache.stop()
  t.match((await run('explain', origin.url(deb))).text, /is answered from the store \(immutable\)/)
  t.match(await run('explain', 'ftp://x/y'), { code: 2, text: /Asked for +\S+/ })
  t.match((await run('--check-config')).text, 'no problems')
  t.match((await run('--dump-config')).text, /^cache_directory: ".+" {2}# \S+\n/)
})

t.test('get fetches through the running proxy', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  const content = Buffer.alloc(300_000, 'some bytes ')
  origin.at(deb, file({ content, etag: '"1"' }))
  origin.at('/cut', reply({ content: 'hello', cut: { at: 3, by: 'reset' } }))
  const directory = t.testdir({ file: 'before' })
  const output = join(directory, 'file')
  const get = async (...words: readonly string[]) => {
    const at = ['--listen', `127.0.0.1:${cache.port}`, '--cache-dir', cache.directory]
    return attempt(process.execPath, [program, 'get', ...at, ...words])
  }
  t.match(await get(origin.url('/none'), '-o', output), { code: 1, stderr: /404: .*answered 404/ })
  t.not((await get(origin.url('/cut'), '-o', output)).code, 0)
  t.equal(await readFile(output, 'utf8'), 'before', 'what was there stays')
  t.match(await get(origin.url(deb), '-o', output), { code: 0, stderr: /: MISS\n$/ })
  t.ok((await readFile(output)).equals(content))
  const pipe = join(directory, 'pipe')
  await command('mkfifo', [pipe])
  const reader = command('cat', [pipe])
  t.equal((await get(origin.url(deb), '-o', pipe)).code, 0)
  t.ok((await stat(pipe)).isFIFO(), 'a pipe or a device is written to and not replaced')
  t.ok((await reader).equals(content))
  await cache.quiet()
  const again = await get(origin.url(deb).replace('http://', ''))
  t.match(again, { code: 0, stderr: /: HIT\n$/ })
  t.ok(again.stdout.equals(content), 'to standard output')
  t.equal((await get('ftp://x/y')).code, 2)
  t.strictSame((await readdir(directory)).sort(), ['file', 'pipe'])
  await cache.stop()
  t.match(await get(origin.url(deb)), { code: 1, stderr: /does not answer/ })
})

t.test('verify-repos says so when there is nothing to check', async t => {
  const directory = t.testdir()
  const given = ['verify-repos', '--cache-dir', directory]
  const { code, stdout } = await attempt(process.execPath, [program, ...given])
  t.equal(code, 0)
  t.equal(stdout.toString(), `${directory} holds nothing to check\n`)
})
