import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { ManualClock, systemClock } from '../../../../lib/async/clock.ts'
import { type Lock, lockDirectory } from '../../../../lib/cache/store/disk/lock.ts'
import { Failure } from '../../../../lib/errors.ts'
import { createMemoryLog } from '../../../../lib/log/log.ts'
import { startChild } from '../../../fixtures/store/child.ts'

const parts = () => ({ clock: systemClock, log: createMemoryLog() })

t.test('the second owner is refused with a sentence that names the first', async t => {
  const directory = t.testdir({})
  const lock = await lockDirectory(directory, parts())
  const refusal = await lockDirectory(directory, parts()).catch(error => error)
  t.ok(refusal instanceof Failure)
  t.match(refusal, {
    code: 'directory-in-use',
    message: new RegExp(
      `^The cache directory ${directory} is in use by process ${process.pid} on `,
    ),
  })
  await lock.release()
  const next = await lockDirectory(directory, parts())
  await next.release()
})

t.test('of many that begin at once exactly one wins, also over a dead lock', async t => {
  const directory = t.testdir({})
  for (let round = 0; round < 5; round += 1) {
    const outcomes = await Promise.allSettled(
      Array.from({ length: 8 }, () => lockDirectory(directory, parts())),
    )
    const locks = outcomes.flatMap(one => (one.status === 'fulfilled' ? [one.value] : []))
    t.equal(locks.length, 1)
    await Promise.all(locks.map((lock: Lock) => lock.release()))
  }
  t.equal((await readdir(directory)).length, 1, 'dead ones are cleared away')
})

t.test('a killed owner does not keep the directory', async t => {
  const directory = t.testdir({})
  const child = startChild(t, 'hold', { directory })
  t.equal(await child.line(), 'open')
  await t.rejects(lockDirectory(directory, parts()), {
    message: new RegExp(`in use by process ${child.pid} on `),
  })
  await child.kill()
  const lock = await lockDirectory(directory, parts())
  await lock.release()
})

t.test('a path longer than a socket address may be is no obstacle', async t => {
  const name = 'd'.repeat(150)
  const directory = join(t.testdir({ [name]: {} }), name)
  const lock = await lockDirectory(directory, parts())
  await t.rejects(lockDirectory(directory, parts()), { code: 'directory-in-use' })
  await lock.release()
})

t.test('a plain file of that name, from a careless copy, is no owner', async t => {
  const directory = t.testdir({})
  await writeFile(join(directory, 'lock.7'), '')
  const lock = await lockDirectory(directory, { clock: new ManualClock(0), log: createMemoryLog() })
  t.strictSame(await readdir(directory), ['lock.8'])
  await lock.release()
})
