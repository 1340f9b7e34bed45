import { once } from 'node:events'
import { chmod, chown, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { createConnection, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import t, { type Test } from 'tap'
import {
  type AdminSocket,
  askOwner,
  type RequestHandler,
  takeOwnership,
  wholeDirectory,
} from '../lib/admin-socket.ts'
import { systemClock } from '../lib/async/clock.ts'
import { Failure } from '../lib/errors.ts'
import { createMemoryLog } from './fixtures/log/memory-log.ts'
import { startChild } from './fixtures/store/child.ts'
import { ManualClock } from './fixtures/time/manual-clock.ts'

const clock = systemClock
const cacheDirectory = (directory: string) => ({
  ...{ directory, lock: 'lock', name: `cache directory ${directory}` },
  mend: 'name another directory',
})
const parts = () => ({ clock, log: createMemoryLog() })

async function owned(t: Test, handle?: RequestHandler) {
  const directory = t.testdir({})
  const socket = await takeOwnership(cacheDirectory(directory), parts())
  t.teardown(() => socket.release())
  socket.answer(handle)
  return { directory, socket }
}

t.test('the second owner is refused with a sentence that names the first', async t => {
  const directory = t.testdir({})
  const socket = await takeOwnership(cacheDirectory(directory), parts())
  const refusal = await takeOwnership(cacheDirectory(directory), parts()).catch(error => error)
  t.ok(refusal instanceof Failure)
  t.match(refusal, {
    code: 'directory-in-use',
    message: new RegExp(
      `^The cache directory ${directory} is in use by process ${process.pid} on .*, running since 20`,
    ),
  })
  await socket.release()
  const next = await takeOwnership(cacheDirectory(directory), parts())
  await next.release()
})

t.test('several files of a directory have owners of their own', async t => {
  const directory = t.testdir({})
  const file = (name: string) => ({
    ...{ directory, lock: `${name}.lock`, name: `file ${name}` },
    mend: 'take another',
  })
  const [first, second] = await Promise.all(
    ['a', 'a.b'].map(name => takeOwnership(file(name), parts())),
  )
  t.strictSame((await readdir(directory)).sort(), ['a.b.lock.1', 'a.lock.1'])
  await t.rejects(takeOwnership(file('a'), parts()), {
    message: /^The file a is in use by process/,
  })
  await Promise.all([first?.release(), second?.release()])
})

t.test('of many that begin at once exactly one wins, also over a dead owner', async t => {
  const directory = t.testdir({})
  for (let round = 0; round < 5; round += 1) {
    const outcomes = await Promise.allSettled(
      Array.from({ length: 8 }, () => takeOwnership(cacheDirectory(directory), parts())),
    )
    const winners = outcomes.flatMap(one => (one.status === 'fulfilled' ? [one.value] : []))
    t.equal(winners.length, 1)
    await Promise.all(winners.map((socket: AdminSocket) => socket.release()))
  }
  t.equal((await readdir(directory)).length, 1, 'dead ones are cleared away')
})

t.test('a killed owner does not keep the directory', async t => {
  const directory = t.testdir({})
  const child = startChild(t, 'hold', { directory })
  t.equal(await child.line(), 'open')
  await t.rejects(takeOwnership(cacheDirectory(directory), parts()), {
    message: new RegExp(`in use by process ${child.pid} on `),
  })
  await child.kill()
  const socket = await takeOwnership(cacheDirectory(directory), parts())
  await socket.release()
})

t.test('an owner that does not answer still owns the directory', async t => {
  const directory = await mkdtemp(join(tmpdir(), 'silent-'))
  t.teardown(() => rm(directory, { recursive: true }))
  const manual = new ManualClock(0)
  const silent = createServer(() => manual.advance(1000))
  await new Promise<void>(resolve => silent.listen(join(directory, 'lock.3'), resolve))
  t.teardown(() => silent.close())
  await t.rejects(
    takeOwnership(cacheDirectory(directory), { clock: manual, log: createMemoryLog() }),
    {
      message: /in use by another process \(.* does not answer\)/,
    },
  )
})

const asRoot = { skip: process.geteuid?.() === 0 ? false : 'needs root, to give files away' }

t.test('a run as root does not keep the owner of the directory out', asRoot, async t => {
  const directory = await mkdtemp(join(tmpdir(), 'lock-'))
  t.teardown(() => rm(directory, { recursive: true }))
  await chown(directory, 65_534, 65_534)
  const socket = await takeOwnership(cacheDirectory(directory), parts())
  await socket.release()
  t.match(await stat(join(directory, 'lock.1')), { uid: 65_534, gid: 65_534 })
  const child = startChild(t, 'hold', { directory, uid: 65_534 })
  t.equal(await child.line(), 'open')
})

t.test('a link in the place of the socket leads root to no other file', asRoot, async t => {
  const directory = await mkdtemp(join(tmpdir(), 'lock-'))
  t.teardown(() => rm(directory, { recursive: true }))
  await chown(directory, 65_534, 65_534)
  const other = join(t.testdir({ other: '' }), 'other')
  await chmod(other, 0o644)
  // The owner of the directory: puts a link in the place of each socket as soon as it is there.
  const replacing = `
    const { readdirSync, renameSync, symlinkSync } = require('node:fs')
    const { workerData: { directory, other, ended }, parentPort } = require('node:worker_threads')
    const seen = new Set()
    parentPort.postMessage('ready')
    while (Atomics.load(ended, 0) === 0) {
      for (const name of readdirSync(directory)) {
        if (!name.startsWith('.lock-') || seen.has(name)) continue
        seen.add(name)
        const path = directory + '/' + name
        try {
          renameSync(path, directory + '/away')
          symlinkSync(other, path)
          Atomics.add(ended, 1, 1)
        } catch {}
      }
    }`
  const ended = new Int32Array(new SharedArrayBuffer(8))
  const workerData = { directory, other, ended }
  const owner = new Worker(replacing, { eval: true, workerData })
  await once(owner, 'message')
  for (let i = 0; i < 100; i += 1) {
    const socket = await takeOwnership(cacheDirectory(directory), parts()).catch(() => undefined)
    await socket?.release()
  }
  Atomics.store(ended, 0, 1)
  await once(owner, 'exit')
  t.comment(`${ended[1]} of 100 sockets were replaced`)
  t.match(await stat(other), { uid: 0, mode: 0o100644 })
})

t.test(
  'where root may not give files away the directory is owned all the same',
  asRoot,
  async t => {
    const directory = await mkdtemp(join(tmpdir(), 'lock-'))
    t.teardown(() => rm(directory, { recursive: true }))
    await chown(directory, 65_534, 65_534)
    const child = startChild(t, 'hold', { directory, mayGive: false })
    t.equal(await child.line(), 'open')
    await t.rejects(takeOwnership(cacheDirectory(directory), parts()), { code: 'directory-in-use' })
  },
)

t.test('a lock that may not be asked is named with its owner', asRoot, async t => {
  const directory = await mkdtemp(join(tmpdir(), 'lock-'))
  t.teardown(() => rm(directory, { recursive: true }))
  const socket = await takeOwnership(cacheDirectory(directory), parts())
  await socket.release()
  await chown(directory, 65_534, 65_534)
  const child = startChild(t, 'hold', { directory, uid: 65_534 })
  t.equal(
    await child.line(),
    `The file ${directory}/lock.1 belongs to user 0, so this one (65534) cannot ask whether a process has the cache directory ${directory}: if none runs as user 0, remove the file.`,
  )
})

t.test('a path longer than a socket address may be is no obstacle', async t => {
  const name = 'd'.repeat(150)
  const directory = join(t.testdir({ [name]: {} }), name)
  const socket = await takeOwnership(cacheDirectory(directory), parts())
  await t.rejects(takeOwnership(cacheDirectory(directory), parts()), { code: 'directory-in-use' })
  await socket.release()
})

t.test('a plain file of that name, from a careless copy, is no owner', async t => {
  const directory = t.testdir({})
  await writeFile(join(directory, 'lock.7'), '')
  t.equal(await askOwner({ directory, lock: wholeDirectory }, 1, clock), undefined)
  const socket = await takeOwnership(cacheDirectory(directory), parts())
  t.strictSame(await readdir(directory), ['lock.8'])
  t.equal((await stat(join(directory, 'lock.8'))).mode & 0o777, 0o600)
  await socket.release()
})

t.test('a request and its answer', async t => {
  const { directory, socket } = await owned(t, async request => ({ got: request }))
  t.strictSame(await askOwner({ directory, lock: wholeDirectory }, { a: ['ü', 1] }, clock), {
    answer: { got: { a: ['ü', 1] } },
  })
  const many = await Promise.all(
    Array.from({ length: 10 }, (_, n) => askOwner({ directory, lock: wholeDirectory }, n, clock)),
  )
  t.strictSame(
    many.map(reply => reply?.answer),
    Array.from({ length: 10 }, (_, n) => ({ got: n })),
  )
  socket.answer(undefined)
  t.equal(
    await askOwner({ directory, lock: wholeDirectory }, 1, clock),
    undefined,
    'it takes no commands any more',
  )
})

t.test('an absent owner is no error', async t => {
  const { directory, socket } = await owned(t)
  t.equal(
    await askOwner({ directory, lock: wholeDirectory }, 1, clock),
    undefined,
    'an owner that takes no commands',
  )
  await socket.release()
  t.equal(await askOwner({ directory, lock: wholeDirectory }, 1, clock), undefined, 'a dead owner')
  t.equal(
    await askOwner({ directory: join(directory, 'absent'), lock: wholeDirectory }, 1, clock),
    undefined,
    'no directory',
  )
  t.equal(
    await askOwner({ directory: t.testdir({}), lock: wholeDirectory }, 1, clock),
    undefined,
    'no socket',
  )
})

t.test('what the owner refuses is told with its reason', async t => {
  const { directory } = await owned(t, async () => {
    throw new Error('not today')
  })
  await t.rejects(askOwner({ directory, lock: wholeDirectory }, 1, clock), { message: 'not today' })
  const silly = 'x'.repeat(300 * 1024)
  await t.rejects(
    askOwner({ directory, lock: wholeDirectory }, silly, clock),
    'a line that is too long',
  )
})

t.test('connections that bring nothing, or nonsense, do no harm', async t => {
  const { directory } = await owned(t, async () => 'fine')
  const path = join(directory, 'lock.1')
  for (const text of ['', 'nonsense\n', '{"a"', '\n\n\n', '\0'.repeat(1000)]) {
    const socket = createConnection({ path })
    socket.on('error', () => undefined)
    socket.end(text)
    await new Promise(resolve => socket.resume().on('close', resolve))
  }
  t.strictSame(await askOwner({ directory, lock: wholeDirectory }, 1, clock), { answer: 'fine' })
})

t.test('an owner that does not answer a request is given up', async t => {
  const manual = new ManualClock(0)
  let asked = () => undefined as unknown
  const began = new Promise(resolve => {
    asked = () => resolve(undefined)
  })
  const { directory } = await owned(t, () => {
    asked()
    return new Promise(() => undefined)
  })
  const reply = askOwner({ directory, lock: wholeDirectory }, 1, manual)
  await began
  manual.advance(60_000)
  await t.rejects(reply, { message: /does not answer/ })
})
