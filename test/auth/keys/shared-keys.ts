/**
 * Keys that the operator distributes: read, and never made, mended, rotated or written by the instance.
 */
import { chmod, copyFile, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { readDynamicConfig } from '../../../lib/auth/keys/dynamic-file.ts'
import { KeyRing } from '../../../lib/auth/keys/key-ring.ts'
import { placeKeys } from '../../fixtures/gateway/authproxy-process.ts'
import { ownDirectory } from '../../fixtures/gateway/whole-gateway.ts'
import { createMemoryLog } from '../../fixtures/log/memory-log.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const domain = 'app.example.org'

async function arranged(t: Parameters<typeof ownDirectory>[0]) {
  const directory = await ownDirectory(t)
  const path = join(directory, 'keys.json')
  const log = createMemoryLog()
  const clock = new ManualClock(Date.now())
  const open = async () => {
    const ring = await KeyRing.open({
      ...{ path, shared: true, entityId: `https://${domain}/saml/metadata`, domain },
      ...{ clock, log, random: size => Buffer.alloc(size, 1) },
    })
    t.teardown(() => ring.close())
    await ring.begin()
    return ring
  }
  return { directory, path, log, open }
}

t.test('without a file there is no start, and none is made', async t => {
  const { directory, path, open } = await arranged(t)
  await t.rejects(open(), /keys\.shared.*no such file/)
  await writeFile(path, '{}', { mode: 0o600 })
  await t.rejects(open(), /failed to load/)
  t.same(await readdir(directory), ['keys.json'])
})

t.test('a new file is in use; one that is gone or damaged leaves the keys in use', async t => {
  const { path, log, open } = await arranged(t)
  await placeKeys(path, domain)
  const before = await readFile(path, 'utf8')
  const ring = await open()
  const [first] = ring.session()
  const other = `${path}.other`
  await placeKeys(other, domain)
  await copyFile(other, path)
  await ring.check()
  const [second] = ring.session()
  t.not(second?.kid, first?.kid)
  t.equal(second?.kid, (await readDynamicConfig(other))?.session[0]?.kid)
  for (const harm of [() => rm(path), () => writeFile(path, 'damaged', { mode: 0o600 })]) {
    await harm()
    await ring.check()
    t.equal(ring.session()[0]?.kid, second?.kid)
    t.match(log.lines.at(-1), { level: 'error', message: /the keys in use stay/ })
  }
  t.equal(await readFile(path, 'utf8'), 'damaged', 'it was not written')
  t.not(before, '')
})

t.test('a file that all can read is left as it is, and warned about', async t => {
  const { path, log, open } = await arranged(t)
  await placeKeys(path, domain)
  await chmod(path, 0o644)
  await open()
  t.match(log.lines.at(-1), { level: 'warn', message: /every user of this machine could read/ })
  t.equal((await stat(path)).mode & 0o777, 0o644)
})
