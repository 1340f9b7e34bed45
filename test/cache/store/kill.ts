/**
 * A process that stores under load is killed with SIGKILL at random moments: afterwards everything served has its digest.
 */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readdir } from 'node:fs/promises'
import t from 'tap'
import { Layout } from '../../../lib/cache/store/disk/disk.ts'
import { seeded } from '../../fixtures/chance/seeded-random.ts'
import { startChild } from '../../fixtures/store/child.ts'
import { contentBytes, opened, sha256 } from '../../fixtures/store/opened.ts'

const kills = 50

t.test('killed at fifty moments, never a wrong byte', { timeout: 600_000 }, async t => {
  const directory = t.testdir({})
  const chance = seeded(9)
  let served = 0
  for (let kill = 1; kill <= kills; kill += 1) {
    const child = startChild(t, 'commit', { directory })
    for (let lines = 1 + chance.below(12); lines > 0; lines -= 1) {
      if ((await child.line()) === undefined) throw new Error('the child ended by itself')
    }
    for (let turns = chance.below(200); turns > 0; turns -= 1) {
      await new Promise(resolve => setImmediate(resolve))
    }
    await child.kill()
    if (chance.below(4) > 0 && kill < kills) continue
    const { store, log } = await opened(t, { directory })
    for await (const { key } of store.entries()) {
      const entry = await store.get(key)
      if (entry === undefined) throw new Error(`${key} is lost`)
      const bytes = await contentBytes(await store.content(entry))
      t.equal(bytes && sha256(bytes), entry.digest)
      const hash = createHash('sha256')
      for await (const block of createReadStream(new Layout(directory).blob(entry.digest))) {
        hash.update(block)
      }
      t.equal(hash.digest('hex'), entry.digest)
      served += 1
    }
    t.strictSame(
      log.lines.filter(({ level }) => level === 'warn').map(({ message }) => message),
      [],
    )
    await store.close()
  }
  t.ok(served > 50, `${served} contents were served`)
})

t.test('what kill -9 leaves of a large download is removed at the next start', async t => {
  const directory = t.testdir({})
  const child = startChild(t, 'download', { directory })
  while ((await child.line()) !== 'under way');
  await child.kill()
  const { temporary } = new Layout(directory)
  t.equal((await readdir(temporary)).length, 1)
  const { log } = await opened(t, { directory })
  t.strictSame(await readdir(temporary), [])
  t.match(log.lines, [{ facts: { removed: 1 } }])
})
