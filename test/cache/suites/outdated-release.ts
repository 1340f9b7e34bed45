/**
 * A Release file whose files the origin has no more, because it has published meanwhile: a client that is the first to use one of them
 * is told so, and gets the newer Release file with its next update, whatever holds that back.
 */
import { gzipSync } from 'node:zlib'
import t from 'tap'
import {
  asked,
  type ChangingArchive,
  type ChangingOptions,
  changingArchive,
} from '../../fixtures/archive/changing-archive.ts'
import { hexOf, releaseOf } from '../../fixtures/archive/tiny-archive.ts'
import type { RawResponse } from '../../fixtures/http/raw-client.ts'
import { file, reply } from '../../fixtures/http/scripted-origin.ts'

/** Services are started and archives updated some dozen times. */
const timeout = 110_000

const [packages, other] = ['main/binary-amd64/Packages.gz', 'main/i18n/Translation-de.gz']
/** Each Release file names it, and no origin has it: as the Packages of Debian that are not packed. */
const never = 'main/binary-amd64/Packages'
type Digests = Parameters<typeof releaseOf>[1]

/** The bytes of a file of a day: of the same length each day, unless `grows`. */
function contentOf(path: string, n: number, grows = false): Buffer {
  const digest = String(n).repeat(64)
  const more = grows ? '.'.repeat(n) : ''
  return Buffer.concat([
    gzipSync(
      `Package: ${path === other ? 't' : 'x'}${n}\nFilename: pool/x_${n}.deb\nSize: 1\nSHA256: ${digest}\n`,
    ),
    Buffer.from(path === other ? more : ''),
  ])
}

interface Publication {
  readonly digests?: Digests
  readonly more?: string
  readonly grows?: boolean
  /** The Release file does not name the other file, and the origin does not have it. */
  readonly drops?: boolean
  /** The day by which the Release file is dated. */
  readonly dated?: number
}

/** Puts the archive of a day in place. */
function publish(
  { suite, release, origin }: Pick<ChangingArchive, 'suite' | 'release' | 'origin'>,
  n: number,
  { digests = ['SHA256'], more = '', grows = false, drops = false, dated = n }: Publication = {},
) {
  const all = [packages, other].map(path => [path, contentOf(path, n, grows)] as const)
  const named = all.filter(([path]) => path !== other || !drops)
  const missing = [never, Buffer.from(`never ${n}`)] as const
  const date = new Date(Date.UTC(2025, 0, 1, dated)).toUTCString().replace('GMT', 'UTC')
  const text = `Version: ${n}\n${more}${releaseOf([...named, missing], digests, date)}`
  origin.at(`/${release}`, file({ content: text, etag: `"Release ${n}"` }))
  for (const [path, content] of named) {
    origin.at(`/${suite}/${path}`, file({ content, etag: `"${path} ${n}"` }))
  }
  if (drops) origin.at(`/${suite}/${other}`, gone)
}

async function dayOf(archive: ChangingArchive): Promise<string> {
  const { text } = await archive.get(archive.release)
  return /^Version: (\d+)/m.exec(text)?.[1] ?? ''
}

/** Asks as apt does: again, after a second, when the connection ends before the content. */
async function index(archive: ChangingArchive, path: string): Promise<RawResponse> {
  for (let tries = 0; tries < 3; tries += 1) {
    try {
      return await archive.get(`${archive.suite}/${path}`)
    } catch {
      archive.clock.advance(1000)
    }
  }
  return archive.get(`${archive.suite}/${path}`)
}

const options: ChangingOptions = { settings: { freshness: { floor: '5s', negative: '0s' } } }

/** An archive of a day of which clients use the Packages alone, unless told. */
async function begun(
  t: Parameters<typeof changingArchive>[0],
  about: Publication = {},
  used: readonly string[] = [packages],
) {
  const archive = await changingArchive(t, options)
  publish(archive, 1, about)
  await archive.get(archive.release)
  await archive.settle()
  for (const path of used) {
    await index(archive, path)
    await archive.settle()
  }
  t.equal(await dayOf(archive), '1')
  return archive
}

function toldToUpdate(t: Parameters<typeof changingArchive>[0], answer: RawResponse) {
  t.equal(answer.status, 520)
  t.match(answer.fields.get('Cache-Status'), 'detail=RELEASE_OUTDATED')
  t.match(answer.reason, 'update again')
}

const gone = reply({ status: 404, content: 'gone' })
const ways: Readonly<Record<string, Publication>> = {
  'has other content of the same length': {},
  'has content of another length': { grows: true },
  'has it no more': { drops: true },
  'has other content, and SHA-512 alone': { digests: ['SHA512'] },
}

t.test(
  'an archive publishes a moment after its Release file was confirmed',
  { timeout },
  async t => {
    for (const [name, about] of Object.entries(ways)) {
      const archive = await begun(t, { ...about, drops: false })
      publish(archive, 2, about)
      t.equal(await dayOf(archive), '1', `${name}: the origin is not asked again at once`)
      toldToUpdate(t, await index(archive, other))
      t.equal(await dayOf(archive), '2', name)
      const answer = await index(archive, other)
      if (about.drops) t.equal(answer.status, 404)
      else t.ok(answer.content.equals(contentOf(other, 2, about.grows)))
      t.ok((await index(archive, packages)).content.equals(contentOf(packages, 2)))
    }
  },
)

t.test(
  'an archive goes from InRelease to Release, or back, and publishes at once',
  { timeout },
  async t => {
    for (const [from, to] of [
      ['InRelease', 'Release'],
      ['Release', 'InRelease'],
    ]) {
      const { origin, suite, cache } = await changingArchive(t, options)
      const client = await cache.client()
      const ask = (path: string) => client.get(origin.url(`/${suite}/${path}`), asked)
      const release = (name = '') => ({ origin, suite, release: `${suite}/${name}` })
      origin.at(`/${suite}/${to}`, gone)
      publish(release(from), 1)
      for (const path of [from, packages]) {
        t.equal((await ask(`${path}`)).status, 200)
        await cache.quiet()
        await cache.until(async () => (await cache.metric('cachesvc_suites_being_adopted')) === 0)
      }
      origin.at(`/${suite}/${from}`, gone)
      publish(release(to), 2)
      toldToUpdate(t, await ask(other))
      toldToUpdate(t, await ask(other))
      t.equal((await ask(`${from}`)).status, 404)
      t.match((await ask(`${to}`)).text, 'Version: 2')
      t.ok((await ask(other)).content.equals(contentOf(other, 2)), `${to}`)
    }
  },
)

t.test('a newer Release file is held back', { timeout }, async t => {
  for (const [name, about] of Object.entries(ways)) {
    // One that gives SHA-512 alone is not held back.
    if (about.digests !== undefined) continue
    const archive = await begun(t, { ...about, drops: false })
    archive.clock.advance(6000)
    publish(archive, 2, about)
    archive.origin.at(`/${archive.suite}/${packages}`, gone)
    t.equal(await dayOf(archive), '1', `${name}: held back`)
    toldToUpdate(t, await index(archive, other))
    t.equal(await dayOf(archive), '2', `${name}: held back no more`)
    t.equal((await archive.cache.get('/_cachesvc/healthz')).text, 'ok\n')
    t.equal((await index(archive, packages)).status, 404, 'as the origin')
  }
})

t.test('the update under way does not wait for what does not come', { timeout }, async t => {
  const archive = await begun(t)
  archive.clock.advance(6000)
  publish(archive, 2)
  archive.origin.at(`/${archive.suite}/${packages}`, async answer => {
    await answer.write('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n')
  })
  let day: string | undefined
  const first = dayOf(archive).then(found => {
    day = found
  })
  await archive.cache.until(() => day !== undefined)
  await first
  t.equal(day, '1')
  toldToUpdate(t, await index(archive, other))
  t.equal(await dayOf(archive), '2')
})

t.test('an archive with by-hash still has it by its digest', { timeout }, async t => {
  for (const digests of [['SHA256'], ['SHA256', 'SHA512']] as const) {
    for (const state of ['changed', 'gone']) {
      const more = 'Acquire-By-Hash: yes\n'
      const archive = await begun(t, { more, digests })
      const old = contentOf(other, 1)
      const hashed = `/${archive.suite}/main/i18n/by-hash/SHA256/${hexOf('sha256', old)}`
      archive.origin.at(hashed, file({ content: old }))
      publish(archive, 2, { more, digests })
      if (state === 'gone') archive.origin.at(`/${archive.suite}/${other}`, gone)
      const client = await archive.cache.client()
      const ask = (path: string) => client.get(archive.origin.url(`/${path}`), asked)
      t.match((await ask(archive.release)).text, 'Version: 1')
      const answer = await index(archive, other)
      t.equal(answer.status, 200, `${digests} ${state}`)
      t.ok(answer.content.equals(old))
    }
  }
})

t.test(
  'a client that asks by digest, and the archive keeps no earlier index',
  { timeout },
  async t => {
    const more = 'Acquire-By-Hash: yes\n'
    const archive = await begun(t, { more })
    publish(archive, 2, { more })
    const client = await archive.cache.client()
    const ask = (path: string) => client.get(archive.origin.url(`/${path}`), asked)
    t.match((await ask(archive.release)).text, 'Version: 1')
    const digest = hexOf('sha256', contentOf(other, 1))
    toldToUpdate(t, await ask(`${archive.suite}/main/i18n/by-hash/SHA256/${digest}`))
    t.equal(await dayOf(archive), '2')
  },
)

t.test(
  'a digest that the Release file of the client does not name ends no hold',
  { timeout },
  async t => {
    for (const digests of [['SHA256'], ['SHA256', 'SHA512'], ['SHA512']] as const) {
      const more = 'Acquire-By-Hash: yes\n'
      const archive = await begun(t, { more, digests })
      archive.clock.advance(6000)
      publish(archive, 2, { more, digests })
      for (const path of [packages, other]) archive.origin.at(`/${archive.suite}/${path}`, gone)
      const client = await archive.cache.client()
      const ask = (path: string) => client.get(archive.origin.url(`/${path}`), asked)
      // One that gives SHA-512 alone is not held back.
      const day = digests.some(name => name === 'SHA256') ? '1' : '2'
      t.match((await ask(archive.release)).text, `Version: ${day}`)
      const before = archive.origin.seen(`/${archive.release}`).length
      for (const [name, digits] of [
        ['SHA256', 64],
        ['SHA512', 128],
        ['MD5Sum', 32],
      ] as const) {
        const made = `${archive.suite}/main/i18n/by-hash/${name}/${'a'.repeat(digits)}`
        const answer = await ask(made)
        t.notMatch(answer.fields.get('Cache-Status'), 'RELEASE_OUTDATED', made)
      }
      t.equal(
        archive.origin.seen(`/${archive.release}`).length,
        before,
        'the origin is not asked for it',
      )
      t.equal(await dayOf(archive), day, `${digests}`)
    }
  },
)

t.test('a file that is named and never had ends no hold', { timeout }, async t => {
  const more = 'Acquire-By-Hash: yes\n'
  const hashed = (name: string, content: Buffer) =>
    `main/binary-amd64/by-hash/${name}/${hexOf(name, content)}`
  // The archive has the last one under other names.
  const paths = [
    never,
    hashed('SHA256', Buffer.from('never 1')),
    hashed('MD5Sum', contentOf(packages, 1)),
  ]
  const digests = ['SHA256', 'MD5Sum']
  for (const path of paths) {
    for (const state of ['held', 'not seen yet']) {
      const archive = await begun(t, { more, digests })
      if (state === 'held') archive.clock.advance(6000)
      publish(archive, 2, { more, digests })
      archive.origin.at(`/${archive.suite}/${packages}`, gone)
      const client = await archive.cache.client()
      const ask = (path: string) => client.get(archive.origin.url(`/${path}`), asked)
      t.match((await ask(archive.release)).text, 'Version: 1')
      for (let times = 0; times < 3; times += 1) {
        const answer = await ask(`${archive.suite}/${path}`)
        t.equal(answer.status, 404, `${path}, ${state}`)
        archive.clock.advance(6000)
        t.equal(await dayOf(archive), '1', `${path}, ${state}: held back`)
      }
      t.match((await archive.cache.get('/_cachesvc/healthz')).text, 'earlier Release')
      const questions = archive.origin.seen(`/${archive.release}`).length
      t.ok(questions < 12, `${questions} questions for the Release file`)
      // Another file of which that is not so.
      toldToUpdate(t, await ask(`${archive.suite}/${other}`))
      t.equal(await dayOf(archive), '2')
    }
  }
})

t.test('a file that the archive once had, and does not have now', { timeout }, async t => {
  const archive = await begun(t, {}, [other, packages])
  const { origin, clock, suite } = archive
  clock.advance(6000)
  publish(archive, 2)
  origin.at(`/${suite}/${other}`, gone)
  t.equal(await dayOf(archive), '1', 'it holds the newer one back for a moment')
  clock.advance(120_000)
  t.equal(await dayOf(archive), '2')
  await archive.settle()
  publish(archive, 3)
  for (const path of [packages, other]) origin.at(`/${suite}/${path}`, gone)
  t.equal(await dayOf(archive), '2', 'held back')
  toldToUpdate(t, await index(archive, other))
  t.equal(await dayOf(archive), '3')
})

t.test('what the current Release file names wrong for good ends no hold', { timeout }, async t => {
  const archive = await begun(t)
  const { origin, clock, release, suite } = archive
  origin.at(`/${suite}/${other}`, file({ content: contentOf(other, 9), etag: '"wrong"' }))
  const before = origin.seen(`/${release}`).length
  const end = clock.elapsed() + 60_000
  for (; clock.elapsed() < end; clock.advance(500)) {
    const answer = await index(archive, other)
    t.equal(answer.status, 520)
    t.notMatch(answer.fields.get('Cache-Status'), 'RELEASE_OUTDATED')
  }
  const asked = origin.seen(`/${release}`).length - before
  t.ok(asked <= 13, `${asked} questions for the Release file in a minute`)
  publish(archive, 2)
  origin.at(`/${suite}/${packages}`, gone)
  t.equal(await dayOf(archive), '1')
  t.match((await archive.cache.get('/_cachesvc/healthz')).text, 'earlier Release')
})

t.test('a Release file that is refused stays refused', { timeout }, async t => {
  const archive = await begun(t)
  archive.clock.advance(6000)
  publish(archive, 2, { dated: 0 })
  t.equal(await dayOf(archive), '1')
  for (const state of ['changed', 'gone']) {
    if (state === 'gone') archive.origin.at(`/${archive.suite}/${other}`, gone)
    const answer = await index(archive, other)
    t.equal(answer.status, 520, state)
    t.match(answer.fields.get('Cache-Status'), 'detail=RELEASE_REFUSED')
    t.equal(await dayOf(archive), '1')
  }
})
