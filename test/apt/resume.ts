/**
 * Interrupted downloads: apt comes back with Range and If-Range, the origin breaks off, the partial file is of another version.
 */
import { createHash } from 'node:crypto'
import { readFile, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { Apt } from '../fixtures/archive/apt.ts'
import { type Lab, noLab, report, setUp } from '../fixtures/cache/lab.ts'
import { peerUnderTest } from '../fixtures/cache/proxy-process.ts'

const file = 'alpha_1.0_amd64.deb'
const path = '/debian/pool/main/a/alpha/alpha_1.0_amd64.deb'
const verbose = { 'Debug::Acquire::http': 'true', 'Acquire::Retries': '3' }

t.setTimeout(600_000)

/** Leaves `content` behind as apt does when it is interrupted; the time is the Last-Modified it saw. */
async function interrupted(apt: Apt, content: Buffer, lastModified: Date): Promise<void> {
  const partial = join(apt.archives, 'partial', file)
  await writeFile(partial, content)
  await utimes(partial, lastModified, lastModified)
}

async function lastModified(lab: Lab): Promise<Date> {
  const { fields } = await lab.fetch(lab.origin.url + path, { Range: 'bytes=0-0' })
  return new Date(fields['last-modified'] ?? 0)
}

/** As the origin says it, so that the proxy has not been asked. */
async function lastModifiedOf(lab: Lab): Promise<Date> {
  const { headers } = await fetch(lab.origin.url + path, { method: 'HEAD' })
  return new Date(headers.get('last-modified') ?? 0)
}

async function isWhole(lab: Lab, apt: Apt): Promise<boolean> {
  const got = await readFile(join(apt.archives, file))
  return got.equals(await readFile(join(lab.archive.root, path)))
}

t.test('apt resumes what the proxy has', { skip: noLab }, async t => {
  const lab = await setUp(t)
  const whole = await readFile(join(lab.archive.root, path))
  const warm = await lab.apt('warm')
  await warm.update()
  t.equal((await warm.download('alpha')).code, 0)

  const cases = [
    ['the first half', whole.subarray(0, 30_000), 206],
    ['all but the last byte', whole.subarray(0, -1), 206],
    ['one byte', whole.subarray(0, 1), 206],
  ] as const
  for (const [title, partial, status] of cases) {
    await t.test(`from ${title}: ${status}`, async t => {
      const apt = await lab.apt(title.replaceAll(' ', '-'), { settings: verbose })
      await apt.update()
      await interrupted(apt, Buffer.from(partial), await lastModified(lab))
      const install = await apt.download('alpha')
      t.equal(install.code, 0, report(install))
      t.match(install.output, new RegExp(`If-Range: .*[\\s\\S]*HTTP/1.1 ${status}`))
      t.match(install.output, `Content-Range: bytes ${partial.length}-${whole.length - 1}/`)
      t.ok(await isWhole(lab, apt))
    })
  }

  await t.test('from bytes of another version: 200 with everything', async t => {
    const apt = await lab.apt('other-version', { settings: verbose })
    await apt.update()
    await interrupted(apt, Buffer.alloc(30_000, 'x'), new Date('2001-01-01'))
    const install = await apt.download('alpha')
    t.equal(install.code, 0, report(install))
    t.match(install.output, /If-Range: .*2001[\s\S]*HTTP\/1.1 200/)
    t.ok(await isWhole(lab, apt))
  })

  await t.test('a partial file that is complete: nothing more to come', async t => {
    const answer = await lab.fetch(lab.origin.url + path, { Range: `bytes=${whole.length}-` })
    t.equal(answer.status, 416)
    t.equal(answer.fields['content-range'], `bytes */${whole.length}`)
    const apt = await lab.apt('complete')
    await apt.update()
    await interrupted(apt, whole, await lastModified(lab))
    const install = await apt.download('alpha')
    t.equal(install.code, 0, report(install))
    t.ok(await isWhole(lab, apt))
  })
})

t.test('apt resumes what the proxy does not have', { skip: noLab }, async t => {
  const lab = await setUp(t)
  const whole = await readFile(join(lab.archive.root, path))
  const apt = await lab.apt('cold')
  await apt.update()
  await interrupted(apt, Buffer.from(whole.subarray(0, 20_000)), await lastModifiedOf(lab))
  const install = await apt.download('alpha')
  t.equal(install.code, 0, report(install))
  t.ok(await isWhole(lab, apt))
  const again = await lab.fetch(lab.origin.url + path)
  t.ok(again.content.equals(whole), 'and the proxy has not stored a part as the whole')
})

t.test('apt resumes the end of what a slow origin is still sending', { skip: noLab }, async t => {
  // The whole takes forty seconds, and apt waits for five without a byte, once.
  const lab = await setUp(t, { packages: [{ name: 'alpha', version: '1.0', size: 4_000_000 }] })
  const whole = await readFile(join(lab.archive.root, path))
  const apt = await lab.apt('impatient', {
    settings: { 'Acquire::http::Timeout': '5', 'Acquire::Retries': '0' },
  })
  await apt.update()
  const modified = await lastModifiedOf(lab)
  await interrupted(apt, Buffer.from(whole.subarray(0, -50_000)), modified)
  lab.origin.rate = 100_000
  const install = await apt.download('alpha')
  t.equal(install.code, 0, report(install))
  t.ok(await isWhole(lab, apt))
  const ranges = lab.origin.seen(/alpha_/).map(request => request.fields.range)
  t.ok(ranges.includes(`bytes=${whole.length - 50_000}-${whole.length - 1}`), ranges.join(), {
    skip: peerUnderTest,
  })
  lab.origin.rate = undefined
})

t.test('an origin that breaks off does not spoil the download', { skip: noLab }, async t => {
  const lab = await setUp(t, { packages: [{ name: 'alpha', version: '1.0', size: 3_000_000 }] })
  const apt = await lab.apt('cut', { settings: { 'Acquire::Retries': '5' } })
  await apt.update()
  lab.origin.behaviour = 'cut'
  lab.origin.only = /alpha_/
  lab.origin.cutAfter = 900_000
  const install = await apt.download('alpha')
  t.equal(install.code, 0, report(install))
  t.ok(await isWhole(lab, apt))
  const ranges = lab.origin.seen(/alpha_/).map(request => request.fields.range ?? 'all')
  t.ok(ranges.length >= 4, `the origin saw ${ranges.join(', ')}`)
  t.notMatch(install.output, /^(Err|Ign):/m, 'apt noticed nothing', { skip: peerUnderTest })

  lab.origin.behaviour = 'serve'
  const content = (await lab.fetch(lab.origin.url + path)).content
  const digest = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')
  t.equal(digest(content), digest(await readFile(join(lab.archive.root, path))))
})
