/**
 * `cachesvc export` and `cachesvc import` as programs.
 */
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { systemClock } from '../../../../lib/async/clock.ts'
import { importRules } from '../../../../lib/cache/features/bundle/command.ts'
import { silentLog } from '../../../../lib/log/log.ts'
import { hexOf, tinyArchive } from '../../../fixtures/archive/tiny-archive.ts'
import { configOf, TestCache } from '../../../fixtures/cache/cache.ts'
import { file, ScriptedOrigin } from '../../../fixtures/http/scripted-origin.ts'
import { attempt, command, lacking } from '../../../fixtures/process/command.ts'

const program = join(import.meta.dirname, '../../../../bin/cachesvc.js')
const deb = '/debian/pool/main/h/hello_1_all.deb'

t.setTimeout(600_000)

async function run(directory: string, ...words: readonly string[]) {
  const given = [program, '--cache-dir', directory, ...words]
  const { code, stdout, stderr } = await attempt(process.execPath, given)
  return { code, out: stdout.toString(), complained: stderr }
}

t.test('export beside the running service, import where none runs', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  origin.at('*', file({ content: 'hello', lastModified: 'Wed, 01 Jan 2025 00:00:00 GMT' }))
  await cache.warm(origin.url(deb))
  const outside = t.testdir({})
  const bundle = join(outside, 'bundle.tar')
  t.match(await run(cache.directory, 'export', '--suite', 'none', bundle), {
    code: 1,
    out: '',
    complained: 'cachesvc: nothing stored is meant: no bundle was written\n',
  })
  t.match(await run(cache.directory, 'export', bundle), {
    code: 0,
    out: `exported 1 file, 5 bytes, to ${bundle}\n`,
    complained: '',
  })
  t.match(await run(cache.directory, 'export', bundle), { code: 1, complained: /exists: name/ })
  t.match(await run(cache.directory, 'import', bundle), {
    code: 1,
    complained: /in use by process \d+.*stop that process/,
  })
  const store = join(outside, 'store')
  t.match(await run(store, 'import', bundle), { code: 0, out: 'imported 1 file, 5 bytes\n' })
  t.match(await run(store, 'import', bundle), { code: 0, out: /1 file stored already\n/ })
  t.match(await run(store, 'list'), { out: new RegExp(`\t${origin.url(deb)}\n$`) })
})

const notRoot = process.geteuid?.() !== 0 && 'SKIPPED: to run as another user wants root'

t.test(
  'a user who may not read the files is told why and what to type',
  { skip: notRoot || lacking('setpriv') },
  async t => {
    const origin = await ScriptedOrigin.listen(t)
    const cache = await TestCache.start(t, { origins: [origin] })
    origin.at('*', file({ content: 'hello', lastModified: 'Wed, 01 Jan 2025 00:00:00 GMT' }))
    await cache.warm(origin.url(deb))
    await cache.stop()
    await command('chmod', ['-R', 'a+rX', cache.directory])
    for (const path of await cache.files('v2/blobs')) await chmod(path, 0o600)
    const as = async (...words: readonly string[]) => {
      const line = ['--reuid=65534', '--regid=65534', '--clear-groups', process.execPath, program]
      const { code, stderr } = await attempt('setpriv', [
        ...line,
        '--cache-dir',
        cache.directory,
        ...words,
      ])
      return { code, complained: stderr }
    }
    const outside = t.testdir({})
    await chmod(outside, 0o777)
    t.match(await as('export', join(outside, 'bundle.tar')), {
      code: 1,
      complained:
        /its content cannot be read: permission denied\n.*1 file left out: no bundle was written/s,
    })
    const verified = await as('verify-repos')
    t.match(verified, { code: 1, complained: /could not be read and checked: permission denied/ })
    t.match(verified.complained, `chown -R nobody: ${cache.directory}`)
  },
)

t.test('an import says what it left out, and why', async t => {
  const outside = t.testdir({ tree: {} })
  const tree = join(outside, 'tree')
  await mkdir(join(tree, 'archive.example.org/pool'), { recursive: true })
  await writeFile(join(tree, 'stray_1_all.deb'), '!<arch>\n')
  await writeFile(join(tree, 'archive.example.org/pool/a_1_all.deb'), '!<arch>\n')
  t.match(await run(join(outside, 'store'), 'import', tree), {
    code: 1,
    out: [
      'imported 0 files, 0 bytes',
      'left out 1 file, incomplete, or their length is not known:',
      '  archive.example.org/pool/a_1_all.deb',
      'left out 1 file, named by no index, and their place does not show a URL:',
      '  stray_1_all.deb',
      '',
    ].join('\n'),
  })
  t.match(await run(join(outside, 'store'), 'import', join(tree, 'absent')), { code: 1 })
})

t.test('an import that could not store a file fails', async t => {
  const outside = t.testdir({
    'cachesvc.yaml': 'retention: { object_size: 10 }\n',
    tree: { 'archive.example.org': { pool: {} } },
  })
  const pool = join(outside, 'tree/archive.example.org/pool')
  for (const [name, length] of Object.entries({ small: 9, large: 11 })) {
    const path = join(pool, `${name}_1_all.deb`)
    await writeFile(path, '!<arch>\n'.padEnd(length, 'x'))
    await writeFile(`${path}.head`, `HTTP/1.1 200 OK\r\nContent-Length: ${length}\r\n\r\n`)
  }
  const config = ['--config', join(outside, 'cachesvc.yaml')]
  t.match(await run(join(outside, 'store'), ...config, 'import', join(outside, 'tree')), {
    code: 1,
    out: /^imported 1 file, 9 bytes\nleft out 1 file, not stored:\n.*large_1_all.deb: 11 bytes are more/,
  })
})

t.test('an import makes room as the service does, and removes nothing for its age', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  const packages = { 'pool/main/a_1_all.deb': '!<arch>\na' }
  for (const [path, content] of tinyArchive({ base: 'dists/stable', packages })) {
    origin.at(`/debian/${path}`, file({ content, lastModified: 'Wed, 01 Jan 2025 00:00:00 GMT' }))
    await cache.warm(origin.url(`/debian/${path}`))
  }
  await cache.until(async () => (await cache.metric('cachesvc_suites_being_adopted')) === 0)
  const release = await cache.get(origin.url('/debian/dists/stable/Release'))
  await cache.stop()
  const config = configOf(
    { expiration: { unused_days: 1 }, retention: { versions: 1, size: 1000 } },
    cache.directory,
  )
  const put = new Set([hexOf('sha256', 'just imported')])
  const { standing, ...rules } = await importRules(config, {
    put,
    records: [],
    clock: systemClock,
    log: silentLog,
  })
  t.match(rules, { size: 1000, unusedDays: 0, versions: 0 })
  const standings = [release.content, '!<arch>\na', 'x', 'just imported'].map(bytes =>
    standing?.(hexOf('sha256', bytes)),
  )
  t.strictSame(standings, ['generation', 'named', 'unknown', 'generation'])
})
