import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { writeFileAtomically } from '../../lib/files/atomic-file.ts'

t.test('a file is replaced whole and nothing temporary stays behind', async t => {
  const directory = t.testdir({ state: 'old' })
  const path = join(directory, 'state')
  await writeFileAtomically(path, 'new', { mode: 0o600 })
  t.equal(await readFile(path, 'utf8'), 'new')
  t.equal((await stat(path)).mode & 0o777, 0o600)
  t.strictSame(await readdir(directory), ['state'])
})

t.test('a failed write leaves the old file and no temporary one', async t => {
  const directory = t.testdir({ state: { 'a-directory-cannot-be-replaced': '' } })
  await t.rejects(writeFileAtomically(join(directory, 'state'), 'new'))
  const names = await readdir(directory)
  t.notOk(names.some(name => name.startsWith('.tmp-')))
})

t.test(
  'exclusively means that of several who come at once one writes, and a name that is taken stays',
  async t => {
    const directory = t.testdir()
    const path = join(directory, 'state')
    const writes = ['a', 'b', 'c'].map(text => writeFileAtomically(path, text, { exclusive: true }))
    const outcomes = await Promise.allSettled(writes)
    t.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 1)
    const first = await readFile(path, 'utf8')
    await t.rejects(writeFileAtomically(path, 'd', { exclusive: true }), { code: 'EEXIST' })
    t.equal(await readFile(path, 'utf8'), first)
    t.strictSame(await readdir(directory), ['state'])
  },
)
