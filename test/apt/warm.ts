/**
 * What apt fetched once through the proxy is not fetched from the origin again.
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { updatedPackages } from '../fixtures/archive/archive.ts'
import type { SeenRequest } from '../fixtures/archive/archive-origin.ts'
import { noLab, report, setUp } from '../fixtures/cache/lab.ts'
import { peerUnderTest } from '../fixtures/cache/proxy-process.ts'

const pool = /\/pool\/|\.deb$|\.dsc$|\.tar/
const wanted = ['zeta', 'delta', 'epsilon']

function unconditional(requests: readonly SeenRequest[]): string[] {
  return requests
    .filter(({ fields }) => !fields['if-modified-since'] && !fields['if-none-match'])
    .map(request => request.target)
}

t.test('cold, warm, again, updated', { skip: noLab }, async t => {
  const lab = await setUp(t)
  const { archive, origin } = lab

  await t.test('cold: every kind of source updates and downloads', async t => {
    const apt = await lab.apt('first')
    const update = await apt.update()
    t.strictSame([update.code, update.warnings, update.errors], [0, [], []], report(update))
    const install = await apt.download(...wanted)
    t.equal(install.code, 0, report(install))
    t.equal((await apt.downloaded()).length, 6)
    const source = await apt.source('alpha')
    t.equal(source.code, 0, report(source))
    t.match(await readFile(join(apt.work, 'alpha_1.0.dsc'), 'utf8'), /Source: alpha/)
    t.strictSame(
      origin.seen(pool).map(request => request.status),
      Array(8).fill(200),
      'each pool file once',
    )
  })

  await t.test(
    'warm: another machine costs the origin no package and no by-hash index',
    async t => {
      origin.forget()
      const apt = await lab.apt('second')
      const update = await apt.update()
      t.strictSame([update.code, update.warnings, update.errors], [0, [], []], report(update))
      t.equal((await apt.download(...wanted)).code, 0)
      t.equal((await apt.source('alpha')).code, 0)
      t.strictSame(origin.seen(pool), [])
      t.strictSame(origin.seen(/by-hash/), [], { skip: peerUnderTest })
      t.strictSame(unconditional(origin.requests), [], { skip: peerUnderTest })
    },
  )

  await t.test(
    'again: an update that finds nothing new makes only conditional requests',
    async t => {
      origin.forget()
      const update = await (await lab.apt('first')).update()
      t.strictSame([update.code, update.warnings, update.errors], [0, [], []], report(update))
      t.strictSame(unconditional(origin.requests), [])
      t.notMatch(update.output, /^Get:/m, 'apt itself was told nothing changed')
    },
  )

  await t.test(
    'updated: the next generation arrives whole, with what did not change kept',
    async t => {
      await archive.publish(updatedPackages)
      origin.forget()
      for (const name of ['first', 'third']) {
        const apt = await lab.apt(name)
        const update = await apt.update()
        t.strictSame([update.code, update.warnings, update.errors], [0, [], []], report(update))
        const install = await apt.download(...wanted)
        t.equal(install.code, 0, report(install))
        t.match(await apt.downloaded(), /alpha_1\.1\+deb~1/)
      }
      t.equal(origin.seen(pool).length, 1, 'only the new version of alpha was fetched')
    },
  )
})
