import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { End } from '../../lib/async/race.ts'

const never = new Promise<never>(() => {})

t.test('work that settles first is the answer, or the error', async t => {
  const end = new End()
  t.equal(await end.before(Promise.resolve('done')), 'done')
  await t.rejects(end.before(Promise.reject(new Error('broken'))), { message: 'broken' })
  t.equal(await end.before(Promise.resolve('again')), 'again')
})

t.test(
  'an end that comes first is undefined, for the wait under way and for later ones',
  async t => {
    const end = new End()
    const waiting = end.before(never)
    end.come()
    t.equal(await waiting, undefined)
    t.equal(await end.before(Promise.resolve('late')), undefined)
    t.equal(await end.before(Promise.reject(new Error('nobody hears'))), undefined)
  },
)

t.test('nothing of what has been waited for is kept', async t => {
  setFlagsFromString('--expose-gc')
  const collect: () => void = runInNewContext('gc')
  const end = new End()
  const seen: Array<WeakRef<Buffer>> = []
  for (let i = 0; i < 20; i += 1) {
    const block = await end.before(Promise.resolve(Buffer.alloc(100_000)))
    if (block !== undefined) seen.push(new WeakRef(block))
  }
  await new Promise(resolve => setImmediate(resolve))
  collect()
  const kept = seen.filter(reference => reference.deref() !== undefined).length
  t.ok(kept <= 2, `${kept} of 20 blocks`)
  end.come()
})
