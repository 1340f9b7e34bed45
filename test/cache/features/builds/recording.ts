/**
 * The recording of builds: what is written while one is recorded, and requests while it is being locked.
 */
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { decodeBuild } from '../../../../lib/cache/features/builds/build-file.ts'
import { Builds } from '../../../../lib/cache/features/builds/builds.ts'
import { buildsDirectory } from '../../../../lib/cache/features/builds/records.ts'
import type { Entry } from '../../../../lib/cache/store/entry.ts'
import { silentLog as log } from '../../../../lib/log/log.ts'
import { Gate } from '../../../fixtures/time/gate.ts'
import { ManualClock } from '../../../fixtures/time/manual-clock.ts'

const url = (n: number) => `http://archive.example.org/${n}`
const entry = (n: number): Entry => ({
  key: url(n),
  fields: [],
  digest: n.toString(16).padStart(64, '0'),
  size: 10,
  lastModified: 'Wed, 01 Jan 2025 00:00:00 GMT',
  stored: 0,
  validated: 0,
  initialAge: 0,
})

async function recorded(t: Test, checkpoint: () => Promise<void> = async () => undefined) {
  const cacheDirectory = t.testdir({})
  const clock = new ManualClock(Date.parse('2025-06-01T00:00:00Z'))
  const store = {
    put: () => ({ stored: true as const }),
    get: async () => undefined,
    remove: () => undefined,
    has: () => false,
    checkpoint,
    removeContents: async () => undefined,
  } as unknown as Parameters<typeof Builds.open>[0]['store']
  const settings = () => ({ most: 10, size: 1e9, clients: [] })
  const builds = await Builds.open({ cacheDirectory, store, clock, log, settings })
  t.teardown(() => builds.close())
  t.type(builds.begin('base'), 'object')
  const path = join(buildsDirectory(cacheDirectory), 'base.jsonl')
  const answer = (n: number) => builds.recording('base', url(n))?.given(entry(n))
  /** The text of the record, once it names this URL. */
  const written = async (n: number): Promise<string> => {
    for (;;) {
      const text = await readFile(path, 'utf8').catch(() => '')
      if (text.includes(`${url(n)}"`)) return text
      clock.advance(5000)
      await new Promise(resolve => setImmediate(resolve))
    }
  }
  return { builds, clock, path, answer, written, cacheDirectory, store, settings }
}

t.test('one more answer is appended, and the record is sorted when it is locked', async t => {
  const { builds, answer, written, path } = await recorded(t)
  for (const n of [5, 3, 4]) answer(n)
  const first = await written(3)
  answer(1)
  const second = await written(1)
  t.ok(second.startsWith(first), 'what stands there is not written again')
  t.match(second.slice(first.length), /^\{"url":"http:..archive.example.org.1",[^\n]*\}\n$/)
  builds.recording('base', url(2))?.failed('it was answered 503')
  t.match(await written(2), /lacking/)
  answer(2)
  await written(2)
  t.type(await builds.lock('base'), Array)
  const locked = (await readFile(path, 'utf8')).trimEnd().split('\n').slice(1)
  t.strictSame(
    locked.map(line => JSON.parse(line).url),
    [1, 2, 3, 4, 5].map(url),
  )
  t.notMatch(locked.join(), /lacking/)
})

t.test('a record that cannot be appended to is written as a whole', async t => {
  const { answer, written, path } = await recorded(t)
  answer(1)
  await written(1)
  await rm(path)
  answer(2)
  const read = decodeBuild(await written(2))
  t.strictSame(typeof read === 'string' ? read : [...read.answers.keys()], [url(1), url(2)])
})

t.test('a request that begins while a build is being locked is refused in words', async t => {
  const held = new Gate()
  const { builds, answer, path } = await recorded(t, () => held.pass())
  answer(1)
  const locking = builds.lock('base')
  await held.reached
  const decision = builds.decide('base', url(2), '192.0.2.1')
  t.match(decision, { use: 'refuse', sentence: /2 is missing .* is being locked/ })
  t.match(builds.decide('base', url(1), '192.0.2.1'), { use: 'file' })
  t.match(builds.decide('base', url(2)), { use: 'refuse' })
  t.match(await builds.lock('base'), /is being locked/)
  held.open()
  t.type(await locking, Array)
  t.match(await readFile(path, 'utf8'), /"locked":/)
})

t.test('a build that could not be locked records again', async t => {
  const { builds, answer } = await recorded(t, async () => {
    throw new Error('the disk does not answer')
  })
  answer(1)
  await t.rejects(builds.lock('base'), { message: /does not answer/ })
  t.equal(builds.named('base')?.locked, undefined)
  t.equal(builds.decide('base', url(2), '192.0.2.1').use, 'record')
})
