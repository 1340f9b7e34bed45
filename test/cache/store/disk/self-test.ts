import { chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { systemClock } from '../../../../lib/async/clock.ts'
import { openStore } from '../../../../lib/cache/store/store.ts'
import { Failure } from '../../../../lib/errors.ts'
import { createMemoryLog } from '../../../fixtures/log/memory-log.ts'
import { startChild } from '../../../fixtures/store/child.ts'
import { opened } from '../../../fixtures/store/opened.ts'
import { mountTmpfs, withTmpfs } from '../../../fixtures/store/tmpfs.ts'

async function refusal(directory: string): Promise<Failure> {
  const options = { directory, clock: systemClock, log: createMemoryLog(), memory: 0 }
  const failure = await openStore(options).catch(error => error)
  if (!(failure instanceof Failure)) throw new Error('it was not refused')
  return failure
}

t.test('a fit directory gets its layout, its tag, and nothing else', async t => {
  const { directory } = await opened(t, { directory: join(t.testdir({}), 'deep', 'cache') })
  t.strictSame((await readdir(directory)).sort(), ['CACHEDIR.TAG', 'lock.1', 'v2'])
  t.strictSame((await readdir(join(directory, 'v2'))).sort(), ['blobs', 'entries.log', 'tmp'])
  t.strictSame(await readdir(join(directory, 'v2', 'tmp')), [])
  const tag = await readFile(join(directory, 'CACHEDIR.TAG'), 'utf8')
  t.ok(tag.startsWith('Signature: 8a477f597d28d172789f06886806bc55\n'))
})

t.test('what an earlier run left half-written is cleared away and said', async t => {
  const directory = t.testdir({ v2: { tmp: { 'a.part': 'half', odd: { file: '' } } } })
  const { log } = await opened(t, { directory })
  t.strictSame(await readdir(join(directory, 'v2', 'tmp')), [])
  t.match(log.lines, [{ level: 'info', facts: { removed: 2 } }])
})

t.test('a file where the directory should be', async t => {
  const directory = t.testdir({ cache: 'a file' })
  const path = join(directory, 'cache')
  t.equal(
    (await refusal(path)).message,
    `The cache directory ${path} is not a directory, or is below something that is not a directory: move that file away or name another with cache_directory or --cache-dir.`,
  )
  t.match((await refusal(join(path, 'below'))).message, /is not a directory, or is below/)
})

t.test('a newer layout is refused', async t => {
  const newer = t.testdir({ v2: {}, v3: {} })
  const failure = await refusal(newer)
  t.equal(failure.code, 'directory-too-new')
  t.match(failure.message, /written by a newer cachesvc \(layout v3, this one knows v2\)/)
  t.strictSame((await readdir(newer)).sort(), ['v2', 'v3'], 'and nothing is touched')
})

t.test('a directory of somebody else', withTmpfs, async t => {
  const path = await mkdtemp(join(tmpdir(), 'store-'))
  t.teardown(() => rm(path, { recursive: true }))
  await mkdir(join(path, 'cache'))
  await chmod(path, 0o755)
  const child = startChild(t, 'hold', { directory: join(path, 'cache'), uid: 65_534 })
  const said = (await child.line()) ?? ''
  t.match(said, `The cache directory ${path}/cache may not be read and written by user 65534`)
  t.match(said, '(it belongs to user 0): give it and everything in it to that user with chown -R')
})

t.test('a command that may not read the directory is not told to take it', withTmpfs, async t => {
  const path = await mkdtemp(join(tmpdir(), 'store-'))
  t.teardown(() => rm(path, { recursive: true }))
  await chmod(path, 0o755)
  await mkdir(join(path, 'cache/v2'), { recursive: true })
  await chmod(join(path, 'cache'), 0o750)
  const child = startChild(t, 'read', { directory: join(path, 'cache'), uid: 65_534 })
  t.match(
    (await child.line()) ?? '',
    `The cache directory ${path}/cache may not be read by user 65534 (it belongs to user 0): try it with sudo, or name another with cache_directory or --cache-dir.`,
  )
})

t.test('a directory that may not be created', withTmpfs, async t => {
  const path = await mkdtemp(join(tmpdir(), 'store-'))
  t.teardown(() => rm(path, { recursive: true }))
  await chmod(path, 0o755)
  const child = startChild(t, 'hold', { directory: join(path, 'cache'), uid: 65_534 })
  t.match(
    (await child.line()) ?? '',
    `The cache directory ${path}/cache is not there, or out of reach, and user 65534 may not create it: create it and give it to that user with chown, or name another with cache_directory or --cache-dir.`,
  )
})

t.test('a read-only file system', withTmpfs, async t => {
  const directory = mountTmpfs(t, 'size=1m,ro')
  t.match(await refusal(directory), {
    code: 'directory-unusable',
    message: `The cache directory ${directory} is on a read-only file system: if systemd runs the service, run \`sudo install -d`,
  })
})

t.test('a full file system is no reason not to start: it can still be read', withTmpfs, async t => {
  const directory = mountTmpfs(t, 'size=256k')
  await writeFile(join(directory, 'ballast'), Buffer.alloc(200_000))
  const { store } = await opened(t, { directory })
  t.strictSame(store.health(), {
    writable: false,
    because: 'self-test: no space left on the file system',
    full: true,
  })
})
