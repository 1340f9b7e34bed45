import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import t from 'tap'
import { RevocationList } from '../../../lib/auth/session/revocation.ts'
import type { Session } from '../../../lib/auth/session/token.ts'
import { createMemoryLog } from '../../fixtures/log/memory-log.ts'
import { mountTmpfs, withTmpfs } from '../../fixtures/store/tmpfs.ts'
import { cpuTimeOf } from '../../fixtures/time/cpu-time.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const start = Date.UTC(2030, 0, 1)
const hour = 3_600_000

function session(id: string, created = start): Session {
  return {
    browser: '',
    id,
    subject: 'ada',
    attributes: new Map(),
    issuer: 'https://idp.example.org/metadata',
    nameId: undefined,
    sessionIndex: undefined,
    authenticated: created,
    identitySettings: '',
    created,
    expires: created + 12 * hour,
  }
}

/** A line of a file, as it is written today. */
function line(content: object): string {
  const json = JSON.stringify(content)
  return `${crc32(json).toString(16).padStart(8, '0')} ${json}\n`
}

interface Test {
  testdir(): string
  teardown(action: () => unknown): void
}

function lab(t: Test, directory = t.testdir()) {
  const path = join(directory, 'app.json.revoked')
  /** What all files of the list say. */
  const files = () =>
    readdirSync(directory)
      .filter(name => /\.revoked\.(?!damaged)/.test(name))
      .map(name => join(directory, name))
  const text = () =>
    files()
      .map(file => readFileSync(file, 'utf8'))
      .join('')
  const clock = new ManualClock(start + 1000)
  const log = createMemoryLog()
  const open = async (more: { most?: number; lifetime?: () => number } = {}) => {
    const list = await RevocationList.open({
      path,
      clock,
      log,
      lifetime: () => 12 * hour,
      ...more,
    })
    t.teardown(() => list.close())
    return list
  }
  const errors = () => log.lines.filter(({ level }) => level === 'error').map(l => l.message)
  return { path, files, text, clock, log, open, errors, directory }
}

t.test('an ended session stays ended after a restart, and others live', async t => {
  const { open, errors } = lab(t)
  const list = await open()
  await list.add({ sessionId: 'a' })
  await list.close()
  const again = await open()
  t.ok(again.has(session('a')))
  t.notOk(again.has(session('b')))
  t.same(errors(), [])
})

const head = line({ marks: 2, id: '0011223344556677' })
/** What version 1.0.0 or this one may have left, damaged. */
const damaged: Readonly<Record<string, string>> = {
  empty: '',
  'no line': 'hunter2',
  'cut off in its first line': head.slice(0, -1),
  'cut off behind its first line': head,
  'cut off before its end': `${head}${line(['a', start, start * 2])}`,
  'another version': line({ marks: 3, id: '0011223344556677' }) + line({ end: 0 }),
  'an end that counts another number': head + line({ end: 1 }),
  'a mark that is none': head + line(['a', '1', 2]) + line({ end: 1 }),
  'a mark without a moment': head + line(['a', 1]) + line({ end: 1 }),
  'a changed line': `${head}${line(['a', 1, 2]).replace('"a"', '"b"')}${line({ end: 1 })}`,
  'a damaged line at its end': `${head}${line({ end: 0 })}hunter2\n`,
  'zeros between lines': `${head}${line({ end: 0 })}${'\0'.repeat(40)}\n${line(['b', 1, 2])}`,
  'too large': `${head}${line({ end: 0 })}${' '.repeat(64 * 1024 * 1024)}`,
}
for (const [what, content] of Object.entries(damaged)) {
  t.test(
    `a file that cannot be read (${what}) ends all sessions, once and not in silence`,
    async t => {
      const { path, clock, open, errors } = lab(t)
      writeFileSync(`${path}.0011223344556677`, content)
      const list = await open()
      t.ok(list.has(session('any')), 'one that might have been named is not let in')
      t.notOk(list.has(session('new', clock.now() + 1)), 'a new session is')
      t.match(errors(), [/all sessions are over, every user has to log in once more/])
      t.equal(readFileSync(`${path}.damaged`, 'utf8'), content, 'kept for a person')
      await list.close()
      clock.advance(hour)
      const again = await open()
      t.ok(again.has(session('any')), 'also after a restart')
      t.notOk(again.has(session('new', start + 1001)), 'which does not do it again')
      t.equal(errors().length, 1)
    },
  )
}

t.test('the word an operator writes when a backup is put back ends all sessions, once', async t => {
  const { path, clock, open, errors, files } = lab(t)
  writeFileSync(`${path}.json`, 'restored\n')
  const list = await open()
  t.ok(list.has(session('any')))
  t.match(errors(), [/all sessions are over, every user has to log in once more/])
  t.notOk(files().includes(`${path}.json`))
  await list.close()
  t.notOk((await open()).has(session('new', clock.now() + 1)))
  t.equal(errors().length, 1)
})

t.test('what a damaged file still says counts', async t => {
  const { path, open } = lab(t)
  const of = [line(['a', start * 1.5, start * 2]), 'hunter2\n', line({ end: 2 })]
  writeFileSync(`${path}.0011223344556677`, head + of.join(''))
  t.ok((await open()).has(session('a', start + 2000)), 'longer than all the others')
})

t.test(
  'a damaged file that cannot be replaced ends all sessions at the next start too',
  withTmpfs,
  async t => {
    const { path, open } = lab(t, mountTmpfs(t, 'size=64k'))
    writeFileSync(`${path}.0011223344556677`, 'hunter2')
    writeFileSync(`${path}.ballast`, Buffer.alloc(60_000))
    const list = await open()
    t.ok(list.has(session('any')))
    await list.close()
    t.ok((await open()).has(session('any')))
  },
)

t.test('a directory in the place of the file is put aside as well', async t => {
  const { path, open, errors } = lab(t)
  mkdirSync(`${path}.0011223344556677`)
  const list = await open()
  t.ok(list.has(session('any')))
  await list.add({ sessionId: 'a' })
  t.equal(errors().length, 1, 'and the list can be written')
})

t.test('a file that ends sessions of the future locks nobody out', async t => {
  const { path, clock, log, open } = lab(t)
  writeFileSync(`${path}.0011223344556677`, head + line(['*', start * 2]) + line({ end: 1 }))
  const list = await open()
  t.ok(list.has(session('old')))
  t.notOk(list.has(session('new', clock.now() + 1)))
  t.ok(log.lines.some(({ message }) => /not believed/.test(message)))
})

t.test('the end of a user ends all sessions of until now, in capitals or not', async t => {
  const { clock, open, text } = lab(t)
  const list = await open()
  await list.add({ user: 'Ada@Example.org' })
  const of = (subject: string, more: Partial<Session> = {}) => ({
    ...session(`s-${subject}`),
    subject,
    ...more,
  })
  const nameId = { value: 'n', format: undefined, nameQualifier: undefined }
  const whole = { nameId: { ...nameId, spNameQualifier: undefined }, sessionIndex: '1' }
  for (const subject of ['ada@example.org', 'ADA@EXAMPLE.ORG', 'Ada@Example.org']) {
    t.ok(list.has(of(subject)), subject)
    t.ok(list.has(of(subject, whole)), `${subject}, with NameID and SessionIndex`)
    t.ok(list.has(of(subject, { created: clock.now() })), 'one of this millisecond')
    t.notOk(list.has(of(subject, { created: clock.now() + 1 })), 'later ones live')
  }
  for (const subject of ['ada', 'bda@example.org', 'ada@example.org ', '']) {
    t.notOk(list.has(of(subject)), `another user: ${subject}`)
  }
  const issuer = 'https://idp.example.org/metadata'
  t.notOk(list.has(of('x', { issuer, nameId: { ...whole.nameId, value: 'ada@example.org' } })))
  t.notMatch(text(), /ada/i, 'the file names no user')
  await list.close()
  t.ok((await open()).has(of('ada@example.org')), 'also after a restart')
})

t.test('a user is the same in composed and in decomposed letters', async t => {
  const { open } = lab(t)
  const list = await open()
  await list.add({ user: 'zo\u00eb' })
  t.ok(list.has({ ...session('a'), subject: 'Zoe\u0308' }))
})

t.test('where nothing can be written a logout holds, is told, and is written later', async t => {
  const { files, text, clock, directory, open, errors } = lab(t)
  const list = await open()
  rmSync(directory, { recursive: true })
  await list.add({ sessionId: 'a' })
  t.ok(list.has(session('a')))
  t.match(errors(), [/could not be written down.*restart/])
  mkdirSync(directory)
  clock.advance(59_000)
  await list.check()
  t.same(files(), [])
  clock.advance(1000)
  await list.check()
  t.match(text(), /"a"/)
})

t.test('on a full disk likewise', withTmpfs, async t => {
  const directory = mountTmpfs(t, 'size=256k')
  const { text, clock, open, errors } = lab(t, directory)
  const list = await open()
  await list.add({ sessionId: 'a' })
  const before = text()
  writeFileSync(join(directory, 'ballast'), Buffer.alloc(230_000))
  for (let i = 0; i < 900; i += 1) void list.add({ sessionId: `b${i}` })
  await list.add({ sessionId: 'c' })
  t.ok(list.has(session('c')))
  t.ok(errors().length > 0)
  t.ok(text().startsWith(before), 'what was written is whole')
  rmSync(join(directory, 'ballast'))
  clock.advance(60_000)
  await list.check()
  t.match(text(), /"c"/)
})

t.test('what could not be written is tried once more at the end', async t => {
  const { text, directory, open } = lab(t)
  const list = await open()
  rmSync(directory, { recursive: true })
  await list.add({ sessionId: 'a' })
  mkdirSync(directory)
  await list.close()
  t.match(text(), /"a"/)
})

t.test('thousands of logouts at a time share their writes', async t => {
  const { open, text, clock } = lab(t)
  const list = await open()
  const time = await cpuTimeOf(() =>
    Promise.all(Array.from({ length: 5000 }, (_, i) => list.add({ sessionId: `s${i}` }))),
  )
  t.ok(time < 5000, 'each on its own would write half a gigabyte')
  t.equal(text().match(/\["s\d+"/g)?.length, 5000)
  await list.close()
  const again = await open()
  t.equal(again.entries.size, 5000)
  clock.advance(12 * hour)
  await again.add({ sessionId: 'last' })
  t.equal(again.entries.size, 1, 'what nobody can use any more is gone')
})

t.test('an entry that is renewed is the last to go, and does not keep older ones', async t => {
  const { open, clock } = lab(t)
  const list = await open()
  await list.add({ sessionId: 'a' })
  await list.add({ sessionId: 'b' })
  clock.advance(6 * hour)
  await list.add({ sessionId: 'a' })
  clock.advance(6 * hour)
  await list.add({ sessionId: 'c' })
  t.equal(list.entries.size, 2)
  t.ok(list.has(session('a')))
})

t.test('when there are too many, sessions as old as the one forgotten are over', async t => {
  const { open, clock } = lab(t)
  const list = await open({ most: 3 })
  for (const id of ['a', 'b', 'c', 'd']) {
    await list.add({ sessionId: id })
    clock.advance(1000)
  }
  t.equal(list.entries.size, 3)
  t.ok(list.has(session('a')), 'nobody comes back to life')
  t.notOk(list.has(session('young', start + 1500)))
})

t.test('unsigned logouts fill half of the list, and end no session they do not name', async t => {
  const { open, clock, log } = lab(t)
  const list = await open({ most: 8 })
  const sessionIndexes = ['1', '2', '3']
  const named = { issuer: 'i', nameId: 'ada', sessionIndexes }
  t.ok(await list.add(named, 'anyone'))
  clock.advance(1000)
  for (const nameId of ['bob', 'eve']) await list.add({ ...named, nameId }, 'anyone')
  t.equal(list.entries.size, 3)
  t.ok(log.lines.some(({ level, message }) => level === 'warn' && /half full/.test(message)))
  t.notOk(list.has(session('any')))
  for (const id of ['a', 'b', 'c', 'd', 'e']) t.ok(await list.add({ sessionId: id }))
  t.equal(list.entries.size, 8, 'the others still have room')
  t.notOk(list.has(session('any')))
  clock.advance(12 * hour)
  t.ok(await list.add(named, 'anyone'), 'entries that have lapsed do not count')
})

t.test('a lifetime that is made shorter lets no ended session live again', async t => {
  const { open, clock } = lab(t)
  let lifetime = 12 * hour
  const list = await open({ lifetime: () => lifetime })
  await list.add({ sessionId: 'first' })
  lifetime = hour
  await list.add({ sessionId: 'a' })
  clock.advance(2 * hour)
  await list.add({ sessionId: 'other' })
  t.ok(list.has(session('a')))
})

t.test('a second end under a shorter lifetime keeps the first', async t => {
  const { path, clock, open } = lab(t)
  const list = await open()
  await list.add({ sessionId: 'a' })
  await list.close()
  clock.advance(1000)
  const again = await open({ lifetime: () => hour })
  await again.add({ sessionId: 'a' })
  clock.advance(2 * hour)
  await again.add({ sessionId: 'other' })
  t.ok(again.has(session('a')), path)
})

t.test('one made shorter and longer again does not either', async t => {
  const { open, clock } = lab(t)
  let lifetime = 12 * hour
  const list = await open({ lifetime: () => lifetime })
  t.notOk(list.has(session('a')), 'a session of 12 hours is in use')
  lifetime = hour
  await list.add({ sessionId: 'a' })
  clock.advance(2 * hour)
  lifetime = 12 * hour
  await list.add({ sessionId: 'other' })
  t.ok(list.has(session('a')))
})

t.test('a file damaged while we run is mended from memory', async t => {
  const { open, files, text, errors } = lab(t)
  const list = await open()
  await list.add({ sessionId: 'a' })
  for (const file of files()) writeFileSync(file, 'hunter2')
  await list.check()
  t.ok(list.has(session('a')))
  t.notOk(list.has(session('b')), 'what it said is known, so nobody else has to go')
  t.match(text(), /"a"/)
  t.equal(errors().length, 1)
})

t.test('a file deleted while we run is written again from memory', async t => {
  const { open, files, text, errors } = lab(t)
  const list = await open()
  await list.add({ sessionId: 'a' })
  for (const file of files()) rmSync(file)
  await list.check()
  t.match(text(), /"a"/)
  t.same(errors(), [])
})

t.test('more session indexes than anybody has mean all of them', async t => {
  const { open } = lab(t)
  const list = await open()
  const issuer = 'https://idp.example.org/metadata'
  const sessionIndexes = Array.from({ length: 101 }, (_, i) => `i${i}`)
  await list.add({ issuer, nameId: 'ada', sessionIndexes })
  const nameId = {
    value: 'ada',
    format: undefined,
    nameQualifier: undefined,
    spNameQualifier: undefined,
  }
  t.ok(list.has({ ...session('x'), nameId, sessionIndex: 'i100' }))
})
