import { chown, link, lstat, readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { writeFileAtomically } from '../../lib/files/atomic-file.ts'
import { fromTo, makeDirectory, ownerIn, userName } from '../../lib/files/directory-owner.ts'
import { TestCache } from '../fixtures/cache/cache.ts'
import { reply, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'

const skip = process.geteuid?.() !== 0 && 'SKIPPED: giving files away wants root'
const user = { uid: 43_210, gid: 43_211 }

async function ownersBelow(directory: string): Promise<ReadonlySet<string>> {
  const names = await readdir(directory, { recursive: true })
  const found = await Promise.all(
    names.map(async name => {
      const { uid, gid } = await lstat(join(directory, name))
      return uid === user.uid && gid === user.gid ? 'theirs' : `${name} of ${uid}:${gid}`
    }),
  )
  return new Set(found)
}

t.test(
  'what a service of root stores belongs to the owner of the cache directory',
  { skip },
  async t => {
    const directory = t.testdir({ 'entries of an earlier run': {} })
    await chown(directory, user.uid, user.gid)
    await chown(join(directory, 'entries of an earlier run'), user.uid, user.gid)
    const origin = await ScriptedOrigin.listen(t)
    const cache = await TestCache.start(t, { origins: [origin], directory })
    origin.at('/debian/pool/main/h/hello_1_all.deb', reply({ content: 'hello' }))
    origin.at('/debian/dists/x/InRelease', reply({ content: 'no release' }))
    for (const path of ['/debian/pool/main/h/hello_1_all.deb', '/debian/dists/x/InRelease']) {
      await cache.warm(origin.url(path))
    }
    await cache.stop()
    const files = await readdir(directory, { recursive: true })
    for (const expected of [
      /^statistics\.json$/,
      /^CACHEDIR\.TAG$/,
      /entries\.log$/,
      /blobs\/..\/./,
    ]) {
      t.ok(
        files.some(name => expected.test(name)),
        `${expected} is there`,
      )
    }
    t.strictSame([...(await ownersBelow(directory))], ['theirs'])
  },
)

t.test(
  'a file of root that is there already is given back; one with another name is not',
  { skip },
  async t => {
    const directory = t.testdir({})
    await chown(directory, user.uid, user.gid)
    const first = await TestCache.start(t, { directory })
    await first.stop()
    const log = join(directory, 'v2/entries.log')
    await chown(log, 0, 0)
    const tag = join(directory, 'CACHEDIR.TAG')
    await chown(tag, 0, 0)
    const second = await TestCache.start(t, { directory })
    await second.stop()
    t.equal((await stat(log)).uid, user.uid)
    t.equal((await stat(tag)).uid, 0, 'nothing that it does not open to write')
    await chown(log, 0, 0)
    await link(log, join(directory, 'another name'))
    await (await TestCache.start(t, { directory })).stop()
    t.equal((await stat(log)).uid, 0, 'it may be any file of the machine')
  },
)

t.test('small files and new directories go to the owner of the directory', { skip }, async t => {
  const directory = t.testdir({})
  t.equal(await ownerIn(directory), undefined, 'it is root’s')
  t.equal(await ownerIn(join(directory, 'missing')), undefined)
  await chown(directory, user.uid, user.gid)
  t.strictSame(await ownerIn(directory), user)
  await writeFileAtomically(join(directory, 'a.json'), '{}')
  await makeDirectory(join(directory, 'b/c/d'))
  await makeDirectory(join(directory, 'b'))
  t.strictSame([...(await ownersBelow(directory))], ['theirs'])
  await writeFileAtomically(join(directory, 'mine'), 'x', { owner: { uid: 0, gid: 0 } })
  t.equal((await stat(join(directory, 'mine'))).uid, 0)
})

t.test('the directories between', t => {
  t.strictSame(fromTo('/a/b', '/a/b/c/d'), ['/a/b', '/a/b/c', '/a/b/c/d'])
  t.strictSame(fromTo('/a', '/a'), ['/a'])
  t.equal(userName(0), 'root')
  t.equal(userName(43_210), 'user 43210')
  t.end()
})
