/**
 * Packages of a list with all that they depend on reach a site without a connection: fetched by `cachesvc fetch`, carried by a bundle, and
 * installed there by real apt.
 */
import { cp, mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { packageRoot } from '../../lib/package.ts'
import { directoryFor, noLab, report, setUp } from '../fixtures/cache/lab.ts'
import { ProxyProcess, peerUnderTest } from '../fixtures/cache/proxy-process.ts'
import { attempt } from '../fixtures/process/command.ts'

const skip = noLab || (peerUnderTest && 'SKIPPED: fetch is a command of cachesvc')
const program = join(packageRoot(), 'bin/cachesvc')

t.setTimeout(600_000)

t.test('a list reaches a site without a connection', { skip }, async t => {
  const directory = directoryFor(t)
  const packages = [
    { name: 'tool', version: '1.0', depends: 'middle' },
    { name: 'middle', version: '2.0', depends: 'base' },
    { name: 'base', version: '3.0', size: 60_000 },
    { name: 'other', version: '1.0' },
  ]
  const lab = await setUp(t, { directory, packages })
  const list = join(directory, 'packages')
  // apt-get download leaves out what its working directory has; the command must not.
  const cwd = join(directory, 'here')
  await mkdir(cwd)
  for (const path of await readdir(lab.archive.root, { recursive: true }))
    if (path.endsWith('/tool_1.0_amd64.deb'))
      await cp(join(lab.archive.root, path), join(cwd, 'tool_1.0_amd64.deb'))
  const cachesvc = async (...words: readonly string[]) => {
    const { code, stdout, stderr } = await attempt(program, words, { cwd })
    return { code, said: `${stdout}${stderr}` }
  }
  const from = [
    ...['--config', join(directory, 'proxy/cachesvc.yaml'), '--packages', list],
    ...['--from', `${lab.origin.url}/debian`, '--suite', 'test', '--arch', 'amd64'],
    ...['--keyring', lab.archive.keyring],
  ]
  const pool = () => lab.origin.seen(/\/pool\//).map(({ target }) => target.split('/').at(-1))

  await writeFile(list, '# what the site needs\ntool   # and no more\n\n')
  const alone = await cachesvc('fetch', ...from)
  t.match(alone, { code: 0, said: /^1 file, .*; 0 of them were stored already$/m })
  t.strictSame(pool(), ['tool_1.0_amd64.deb'])

  const all = await cachesvc('fetch', ...from, '--with-dependencies', '--sources')
  t.match(all.said, /; 1 of them were stored already$/m)
  t.equal(all.code, 1, 'two packages have no sources in this archive')
  for (const name of ['middle', 'base'])
    t.match(all.said, `Unable to find a source package for ${name}`)
  const names = pool()
  for (const name of ['middle_2.0_amd64.deb', 'base_3.0_amd64.deb', 'tool_1.0.dsc'])
    t.ok(names.includes(name), `${name} of ${names}`)
  t.notOk(names.includes('other_1.0_amd64.deb'))

  const bundle = join(directory, 'site.tar')
  const cache = join(directory, 'proxy/cache')
  t.match(await cachesvc('export', bundle, '--cache-dir', cache), { code: 0 })
  const there = join(directory, 'there')
  t.match(await cachesvc('import', bundle, '--cache-dir', join(there, 'cache')), { code: 0 })
  await lab.origin.goAway()
  const offline = await ProxyProcess.start({
    directory: there,
    domains: [lab.origin.authority],
    settings: { offline: true },
  })
  t.teardown(() => offline.stop())
  const sources = [
    { uri: `${lab.origin.url}/debian`, suite: 'test', components: ['main'] },
    { uri: `${lab.origin.url}/debian`, suite: 'test', components: ['main'], type: 'deb-src' },
  ] as const
  const apt = await lab.apt('there', { proxy: offline.url, sources })
  const update = await apt.update()
  t.strictSame([update.code, update.errors], [0, []], report(update))
  const install = await apt.download('tool')
  t.equal(install.code, 0, report(install))
  t.equal((await apt.downloaded()).length, 3)
  const source = await apt.source('tool')
  t.equal(source.code, 0, report(source))
})

t.test('what cannot be fetched is named', { skip }, async t => {
  const directory = directoryFor(t)
  const lab = await setUp(t, { directory, packages: [{ name: 'tool', version: '1.0' }] })
  const list = join(directory, 'packages')
  const run = async (...words: readonly string[]) => {
    const config = ['--config', join(directory, 'proxy/cachesvc.yaml')]
    const { code, stdout, stderr } = await attempt(program, ['fetch', ...config, ...words])
    return { code, said: `${stdout}${stderr}` }
  }
  const archive = ['--from', `${lab.origin.url}/debian`, '--keyring', lab.archive.keyring]
  const from = [...archive, '--suite', 'test', '--packages', list]
  await writeFile(list, 'tool\nunheard-of\n')
  t.match(await run(...from), { code: 1, said: /Unable to locate package unheard-of/ })
  await writeFile(list, 'tool\n')
  lab.origin.behaviour = 'missing'
  lab.origin.only = /\.deb$/
  const lacks = await run(...from)
  t.match(lacks, { code: 1, said: /^0 files/m })
  t.match(lacks.said, /tool_1\.0_\w+\.deb: 404/)
  t.match(await run(...archive, '--suite', 'none', '--packages', list), { code: 1, said: /none/ })
  t.match(await run(...archive, '--packages', list), { code: 2, said: /needs a --suite/ })
  t.match(await run('--suite', 'test', '--packages', list), { code: 2, said: /need --from/ })
  t.match(await run(...archive, '--suite', 'test'), { code: 2, said: /needs --packages=FILE/ })
  await writeFile(list, '# nothing\n')
  t.match(await run(...from), { code: 1, said: /names no package/ })
})
