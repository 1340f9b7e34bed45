/**
 * `cachesvc verify-repos` beside a proxy that works, and without one: what is wrong is found, removed, and fetched again.
 */
import { createHash } from 'node:crypto'
import { readFile, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { systemClock } from '../../lib/async/clock.ts'
import { Layout } from '../../lib/cache/store/disk/disk.ts'
import { openStoreForReading } from '../../lib/cache/store/store.ts'
import { silentLog as log } from '../../lib/log/log.ts'
import { updatedPackages } from '../fixtures/archive/archive.ts'
import { directoryFor, type Lab, noLab, report, setUp } from '../fixtures/cache/lab.ts'
import { peerUnderTest } from '../fixtures/cache/proxy-process.ts'
import { attempt } from '../fixtures/process/command.ts'
import { eventually } from '../fixtures/process/ports.ts'

const skip = noLab || peerUnderTest

/** The proxy, an archive that one machine has updated from, and ways to spoil what is stored. */
async function used(t: Test) {
  const state = directoryFor(t)
  const lab = await setUp(t, { directory: state })
  const apt = await lab.apt('first')
  const update = await apt.update()
  t.equal(update.code, 0, report(update))
  const download = await apt.download('alpha', 'zeta')
  t.equal(download.code, 0, report(download))
  const directory = join(state, 'proxy/cache')
  const layout = new Layout(directory)
  const stored = async () => {
    const store = await openStoreForReading({ directory, clock: systemClock, log })
    const found = new Map<string, string>()
    for await (const { key, digest } of store.entries()) found.set(key, layout.blob(digest))
    await store.close()
    return found
  }
  const keyOf = async (name: RegExp): Promise<string> => {
    let key: string | undefined
    // A client has its file a moment before the entry is written.
    await eventually(async () => {
      key = [...(await stored()).keys()].find(one => name.test(one))
      return key !== undefined
    }, 5000)
    if (key === undefined) throw new Error(`nothing stored is like ${name}`)
    return key
  }
  const pathOf = async (key: string): Promise<string> => (await stored()).get(key) ?? ''
  const verify = async (...args: readonly string[]) => {
    const file = join(state, 'proxy/cachesvc.yaml')
    const program = join(import.meta.dirname, '../../bin/cachesvc.js')
    const run = await attempt(process.execPath, [program, 'verify-repos', '-c', file, ...args])
    return { code: run.code, text: run.stdout.toString(), stderr: run.stderr }
  }
  return { lab, stored, keyOf, pathOf, verify, origin: lab.origin.url }
}

async function flip(path: string): Promise<void> {
  const content = await readFile(path)
  content.writeUInt8(content.readUInt8(content.length >> 1) ^ 1, content.length >> 1)
  await writeFile(path, content)
}

const digestOf = (content: Buffer) => createHash('sha256').update(content).digest('hex')

/** What the origin has under a key. */
async function original(lab: Lab, key: string): Promise<string> {
  return digestOf(await readFile(join(lab.archive.root, decodeURIComponent(new URL(key).pathname))))
}

t.test('beside a proxy that works', { skip }, async t => {
  const { lab, stored, keyOf, pathOf, verify } = await used(t)

  await t.test('everything is right after an update', async t => {
    const { code, text, stderr } = await verify()
    t.strictSame([code, stderr], [0, ''])
    t.match(
      text,
      /^(.*InRelease: key not known\n){3}\d+ files, .*, 3 suites, in .*\n\d+ confirmed .*, 0 wrong\n/,
    )
  })

  const deb = await keyOf(/alpha_1\.0_amd64\.deb$/)
  const index = await keyOf(/flat\/Packages\.xz$/)
  const nested = await keyOf(/jessie\/updates\/main\/binary-amd64\//)
  const cut = await keyOf(/zeta_0\.9_amd64\.deb$/)
  const spoilt = [deb, index, nested, cut]

  await t.test('a dry run reports and changes nothing', async t => {
    // The proxy has them in memory and open.
    for (const key of spoilt) for (let n = 0; n < 3; n += 1) await lab.fetch(key)
    for (const key of [deb, index, nested]) await flip(await pathOf(key))
    await truncate(await pathOf(cut), 500)
    const before = await stored()
    const { code, text, stderr } = await verify('--dry-run', '--json')
    t.strictSame([code, stderr], [1, ''])
    const told = JSON.parse(text)
    t.match(told, { version: 1, dryRun: true, files: before.size, unread: [] })
    const found = told.wrong.filter((one: { because: string }) => one.because === 'content')
    t.strictSame(
      [...new Set(found.map(({ key }: { key: string }) => key))].sort(),
      [...new Set([...spoilt, ...alsoNamed(before, spoilt)])].sort(),
    )
    for (const one of found)
      t.match(one, { evicted: false, kept: 'only reported', digest: /^[0-9a-f]{64}$/ })
    t.strictSame(await stored(), before)
  })

  await t.test('what is wrong is removed; the next request gets the right bytes', async t => {
    const { code, text } = await verify('--json')
    t.equal(code, 1)
    for (const one of JSON.parse(text).wrong) t.match(one, { evicted: true })
    t.match(lab.proxy.output, /repository-verification warning/)
    lab.origin.forget()
    for (const key of spoilt) {
      const answer = await lab.fetch(key)
      t.equal(answer.status, 200)
      t.equal(digestOf(answer.content), await original(lab, key), key)
      t.match(answer.fields, { 'x-cache': 'MISS' })
    }
    t.equal(lab.origin.requests.length, spoilt.length)
    t.equal((await verify()).code, 0)
  })

  await t.test('an index from before the Release file', async t => {
    const plain = `${lab.origin.url}/debian/dists/test/main/binary-amd64/Packages.xz`
    await lab.fetch(plain)
    await lab.archive.publish(updatedPackages)
    await lab.fetch(`${lab.origin.url}/debian/dists/test/InRelease`, {
      'Cache-Control': 'no-cache',
    })
    const { code, text } = await verify()
    t.equal(code, 1)
    t.ok(text.includes(`${plain}: older than its Release file`), text)
    const answer = await lab.fetch(plain)
    t.match(answer.fields, { 'x-cache': 'HIT' }, 'it came with the new Release file')
    t.equal(digestOf(answer.content), await original(lab, plain))
    t.notOk((await verify()).text.includes(plain))
  })

  await t.test('metrics and the page tell', async t => {
    const metrics = (await lab.fetch('/_cachesvc/metrics')).content.toString()
    t.match(metrics, /\ncachesvc_repository_verification_warnings_total [5-9]/)
    t.match(metrics, /\ncachesvc_verification_timestamp_seconds 0\n/)
    t.match(
      (await lab.fetch('/_cachesvc/cache')).content.toString(),
      /Stored files are verified every day/,
    )
  })
})

t.test('without a proxy, and the usage', { skip }, async t => {
  const { lab, keyOf, pathOf, verify } = await used(t)
  const deb = await keyOf(/alpha_1\.0_amd64\.deb$/)
  await flip(await pathOf(deb))
  await lab.proxy.stop()
  const { code, text, stderr } = await verify()
  t.equal(code, 1)
  t.match(text, /alpha_1\.0_amd64\.deb: damaged: its bytes hash to .* \(removed\)\n/)
  t.match(stderr, /"repository-verification warning"/)
  t.equal((await verify()).code, 0)
  t.equal((await verify('--frobnicate')).code, 2)
  t.equal((await verify('list')).code, 2)
  lab.replace(await lab.proxy.restart())
  const answer = await lab.fetch(deb)
  t.equal(digestOf(answer.content), await original(lab, deb))
  // Before its directory goes.
  await lab.proxy.stop()
})

/** Other keys whose content is that of one of these. */
function alsoNamed(stored: ReadonlyMap<string, string>, keys: readonly string[]): string[] {
  const blobs = new Set(keys.map(key => stored.get(key)))
  return [...stored].flatMap(([key, blob]) => (blobs.has(blob) ? [key] : []))
}
