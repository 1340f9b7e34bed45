import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { makeDynamicConfig, rotateKeys } from '../../../lib/auth/keys/dynamic-config.ts'
import { readDynamicConfig, saveDynamicConfig } from '../../../lib/auth/keys/dynamic-file.ts'
import { KeyRing } from '../../../lib/auth/keys/key-ring.ts'
import { createMemoryLog } from '../../fixtures/log/memory-log.ts'
import { keptPair } from '../../fixtures/saml/keys.ts'
import { mountTmpfs, withTmpfs } from '../../fixtures/store/tmpfs.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const start = Date.UTC(2030, 0, 1)
const making = {
  entityId: 'https://app.example.org/saml/metadata',
  domain: 'app.example.org',
  now: start,
  random: randomBytes,
  makePair: keptPair,
}
const made = await makeDynamicConfig(making)
const other = await makeDynamicConfig(making)
const asRoot = { skip: process.geteuid?.() === 0 ? false : 'needs root, to give files away' }

interface Test {
  testdir(): string
  teardown(action: () => unknown): void
}

function lab(t: Test, directory = t.testdir()) {
  const path = join(directory, 'app.json')
  const clock = new ManualClock(start)
  const log = createMemoryLog()
  const open = async () => {
    const ring = await KeyRing.open({ ...making, path, clock, log })
    await ring.begin()
    t.teardown(() => ring.close())
    return ring
  }
  const said = (level: string) =>
    log.lines.filter(line => line.level === level).map(({ message }) => message)
  return { directory, path, clock, open, said }
}

/** Ways a file can be of no use, each made of a good one. */
const broken: Readonly<Record<string, (path: string) => unknown>> = {
  'of a newer version': path => {
    const file = JSON.parse(readFileSync(path, 'utf8'))
    writeFileSync(path, JSON.stringify({ ...file, version: 3 }))
  },
  'cut off': path => writeFileSync(path, readFileSync(path).subarray(0, 700)),
  empty: path => writeFileSync(path, ''),
  'no JSON': path => writeFileSync(path, 'hunter2'),
  'too large': path => writeFileSync(path, Buffer.alloc(2 * 1024 * 1024, ' '), { flag: 'a' }),
  'a directory': path => {
    rmSync(path)
    mkdirSync(path)
  },
  'a FIFO': path => {
    rmSync(path)
    execFileSync('mkfifo', ['-m', '600', path])
  },
  'a circle of links': path => {
    rmSync(path)
    symlinkSync(path, path)
  },
  'writable by everybody': path => chmodSync(path, 0o666),
  'writable by a group': path => chmodSync(path, 0o660),
  'keys that do not fit together': path => {
    const [pair] = other.saml
    const file = JSON.parse(readFileSync(path, 'utf8'))
    file.saml[0].privateKey = pair?.privateKey
    writeFileSync(path, JSON.stringify(file))
  },
  'half a private key': path => {
    const file = JSON.parse(readFileSync(path, 'utf8'))
    file.saml[0].privateKey = file.saml[0].privateKey.slice(0, 300)
    writeFileSync(path, JSON.stringify(file))
  },
}
/** What the operator is told of a file whose keys may still be good. */
const reasons: Readonly<Record<string, RegExp>> = {
  'of a newer version': /version 3, which a newer authproxy has written/,
  'too large': /it is larger than 1 MiB/,
  'a directory': /it is not a regular file/,
  'a FIFO': /it is not a regular file/,
  'a circle of links': /ELOOP/,
  'writable by everybody': /others may write it \(mode 666\).*chmod 600/,
  'writable by a group': /others may write it \(mode 660\).*chmod 600/,
}
for (const [what, breakIt] of Object.entries(broken)) {
  t.test(
    `a file of no use (${what}) stops a start, and leaves the keys in use to who runs`,
    async t => {
      const { path, open, said } = lab(t)
      await saveDynamicConfig(path, made)
      const ring = await open()
      breakIt(path)
      const again = open()
      await t.rejects(again, { code: 'DYNAMIC_CONFIG', message: /failed to load dynamic config/ })
      const message = await again.then(undefined, error => error.message)
      const words = await again.then(undefined, error => `${message} ${error.cause?.message}`)
      t.notMatch(words, /hunter2|BEGIN/)
      const reason = reasons[what]
      t.match(message, reason ?? /; delete it to have new keys made$/)
      if (reason !== undefined) t.notMatch(message, /delete/, 'its keys may still be good')
      await ring.check()
      t.equal(ring.session()[0]?.kid, made.session[0]?.kid)
      t.match(said('error'), [/keys in use stay/])
      rmSync(path, { recursive: true })
      await saveDynamicConfig(path, other)
      await ring.check()
      t.equal(ring.session()[0]?.kid, other.session[0]?.kid, 'a good one is used again')
    },
  )
}

t.test('a file of another user is not believed', asRoot, async t => {
  const { path, open } = lab(t)
  await saveDynamicConfig(path, made)
  chownSync(path, 12_345, 12_345)
  await t.rejects(open(), {
    message:
      /failed to load dynamic configuration .*app\.json: it belongs to another user \(12345\)/,
  })
  chownSync(path.replace(/\/app\.json$/, ''), 12_345, 12_345)
  t.ok(await open(), 'unless the directory is theirs as well')
})

t.test('what root rotates belongs to whom it belonged to', asRoot, async t => {
  const { path, directory } = lab(t)
  chownSync(directory, 12_345, 12_346)
  await saveDynamicConfig(path, made)
  t.match(statSync(path), { uid: 12_345, gid: 12_346 })
  await saveDynamicConfig(path, await rotateKeys(made, making, { session: 1000, saml: 1000 }))
  t.match(statSync(path), { uid: 12_345, gid: 12_346 })
  t.equal(statSync(path).mode & 0o777, 0o600)
})

t.test('a file others can read is closed to them, and that is told', async t => {
  const { path, open, said } = lab(t)
  await saveDynamicConfig(path, made)
  chmodSync(path, 0o644)
  const ring = await open()
  t.equal(statSync(path).mode & 0o777, 0o600)
  t.match(said('warn'), [/others on this machine could read the keys/])
  await ring.check()
  t.equal(said('warn').length, 1)
  writeFileSync(`${path}.new`, readFileSync(path), { mode: 0o640 })
  renameSync(`${path}.new`, path)
  await ring.check()
  t.equal(said('warn').length, 2, 'also when it is replaced')
})

t.test('a link is followed; one that leads nowhere makes no new keys', async t => {
  const { path, directory, open } = lab(t)
  mkdirSync(join(directory, 'volume'))
  const real = join(directory, 'volume', 'keys.json')
  symlinkSync(real, path)
  await t.rejects(open(), { message: /failed to save.*a link of that name leads nowhere/ })
  await saveDynamicConfig(real, made)
  const ring = await open()
  t.equal(ring.session()[0]?.kid, made.session[0]?.kid)
  await saveDynamicConfig(real, other)
  await ring.check()
  t.equal(ring.session()[0]?.kid, other.session[0]?.kid, 'and what it leads to is watched')
})

t.test('two that start at once with no file have the same keys', async t => {
  const { open, path, directory, said } = lab(t)
  const rings = await Promise.all([open(), open(), open(), open()])
  const kids = rings.map(ring => [ring.session()[0]?.kid, ring.saml()[0]?.kid])
  const written = await readDynamicConfig(path)
  for (const kid of kids) t.same(kid, [written?.session[0]?.kid, written?.saml[0]?.kid])
  t.equal(said('info').filter(message => /made keys/.test(message)).length, 1)
  t.same(await readdir(directory), ['app.json'], 'nothing is left behind')
})

t.test('a full disk during a rotation leaves the old keys whole', withTmpfs, async t => {
  const directory = mountTmpfs(t, 'size=32k')
  const { path, open, clock, said } = lab(t, directory)
  await saveDynamicConfig(path, made)
  const ring = await open()
  writeFileSync(join(directory, 'ballast'), Buffer.alloc(24_000))
  const after = await rotateKeys(made, making, { session: 1000, saml: 1000 })
  await t.rejects(saveDynamicConfig(path, after), { message: /the disk is full/ })
  t.same(await readDynamicConfig(path), made)
  t.same((await readdir(directory)).sort(), ['app.json', 'ballast'])
  writeFileSync(join(directory, 'more'), Buffer.alloc(100))
  rmSync(path)
  writeFileSync(join(directory, 'ballast'), Buffer.alloc(28_000))
  await ring.check()
  const [fresh] = ring.session()
  t.not(fresh?.kid, made.session[0]?.kid, 'who deletes the file wants the old keys gone')
  t.match(said('error'), [/keys/])
  rmSync(join(directory, 'ballast'))
  clock.advance(60_000)
  await ring.close()
  t.equal((await readDynamicConfig(path))?.session[0]?.kid, fresh?.kid, 'and saved when it can be')
})

t.test('a backup that is put back while new keys are made is used and stays', async t => {
  const { path, clock } = lab(t)
  await saveDynamicConfig(path, made)
  const backup = readFileSync(path)
  let putBack = () => {}
  const random = (size: number) => {
    putBack()
    return randomBytes(size)
  }
  const ring = await KeyRing.open({ ...making, random, path, clock, log: createMemoryLog() })
  await ring.begin()
  t.teardown(() => ring.close())
  rmSync(path)
  putBack = () => writeFileSync(path, backup, { mode: 0o600 })
  await ring.check()
  t.equal(ring.session()[0]?.kid, made.session[0]?.kid)
  t.same(await readDynamicConfig(path), made)
})

t.test('where the file cannot be made a start says why', async t => {
  const { directory, open } = lab(t)
  rmSync(directory, { recursive: true })
  await t.rejects(open(), { message: /failed to save dynamic configuration.*does not exist/ })
})
