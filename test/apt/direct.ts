/**
 * The archive, the origin and apt of the fixtures together, without a proxy between them: what they cannot do alone, they
 * cannot prove of a proxy.
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { Apt, noApt } from '../fixtures/archive/apt.ts'
import { Archive, noArchive, updatedPackages } from '../fixtures/archive/archive.ts'
import { ArchiveOrigin } from '../fixtures/archive/archive-origin.ts'

t.test(
  'apt reads, downloads and follows the test archive',
  { skip: noApt || noArchive },
  async t => {
    const archive = await Archive.create()
    t.teardown(() => archive.close())
    const origin = await ArchiveOrigin.start({ root: archive.root })
    t.teardown(() => origin.close())
    const apt = await Apt.create({
      directory: t.testdir(),
      keyring: archive.keyring,
      sources: [
        { uri: `${origin.url}/debian`, suite: 'test', components: ['main', 'contrib'] },
        { uri: `${origin.url}/debian`, suite: 'test', components: ['main'], type: 'deb-src' },
        { uri: `${origin.url}/debian`, suite: 'jessie/updates', components: ['main'] },
        { uri: `${origin.url}/flat`, suite: './' },
      ],
    })

    const first = await apt.update()
    t.strictSame([first.code, first.warnings, first.errors], [0, [], []], first.output)
    t.ok(origin.seen(/by-hash/).length > 3, 'indexes are asked for by hash')

    const install = await apt.download('zeta', 'delta', 'epsilon')
    t.equal(install.code, 0, install.output)
    t.strictSame(await apt.downloaded(), [
      'alpha_1.0_amd64.deb',
      'beta++_1.0+b~2_amd64.deb',
      'delta_1%3a3.0_amd64.deb',
      'epsilon_1%3a3.1_amd64.deb',
      'gamma_2%3a1.4~rc1+dfsg-1_amd64.deb',
      'zeta_0.9_amd64.deb',
    ])

    const source = await apt.source('alpha')
    t.equal(source.code, 0, source.output)
    t.match(await readFile(join(apt.work, 'alpha_1.0.dsc'), 'utf8'), /Source: alpha/)

    origin.forget()
    const again = await apt.update()
    t.equal(again.code, 0)
    t.strictSame([...new Set(origin.requests.map(request => request.status))], [304])

    await archive.publish(updatedPackages)
    const updated = await apt.update()
    t.strictSame([updated.code, updated.warnings, updated.errors], [0, [], []], updated.output)
    t.match((await apt.download('alpha')).output, /alpha .*1\.1\+deb~1/)
  },
)
