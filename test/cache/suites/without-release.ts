/**
 * A client that checks nothing goes on without a Release file when its origin gives none (apt with `trusted=yes`). Through the cache it
 * gets the origin's files, unless a known key has signed the adopted Release file: then only after `suites.gone_after`. No other client
 * gets files that its Release file does not name.
 */
import t, { type Test } from 'tap'
import {
  asked,
  type ChangingArchive,
  changingArchives,
} from '../../fixtures/archive/changing-archive.ts'
import { noSigningKey, SigningKey } from '../../fixtures/archive/signing-key.ts'
import { reply } from '../../fixtures/http/scripted-origin.ts'

const minute = 60_000
const same = 'pool/main/s/same_1_all.deb'
const verifying = '127.0.0.1'
const trusting = '127.0.0.2'

type Denied = 403 | 404 | 410

/** What a client at an address gets: the status of each Release file, then the days of the index and of a package that is built each day. */
async function visit(archive: ChangingArchive, localAddress: string): Promise<string> {
  const { cache, origin, suite, index } = archive
  const client = await cache.client({ localAddress })
  const got: string[] = []
  const fetch = async (path: string): Promise<Buffer> => {
    const { status, content } = await client.get(origin.url(`/${path}`), asked)
    got.push(String(status))
    return content
  }
  await fetch(`${suite}/InRelease`)
  await fetch(`${suite}/Release`)
  const days = await filesFor(archive, fetch, index)
  client.end()
  await archive.settle()
  return `${got.slice(0, 2).join(' ')} ${days}`
}

async function filesFor(
  archive: ChangingArchive,
  fetch: (path: string) => Promise<Buffer>,
  index: string,
): Promise<string> {
  const [packages, bytes] = [await fetch(index), await fetch(`debian/${same}`)]
  const day = [1, 2].find(day =>
    packages.equals(packagesOf.get(archive)?.get(day) ?? Buffer.alloc(0)),
  )
  return `${day} ${bytes.toString()}`
}

/** The index of each day. */
const packagesOf = new WeakMap<ChangingArchive, Map<number, Buffer>>()

/** An archive whose clients have got the first day, and whose origin has the second day and answers so for Release files. */
async function denied(
  t: Test,
  status: Denied,
  about: { readonly sign?: (text: string) => Promise<Buffer>; readonly settings?: object },
): Promise<ChangingArchive> {
  const { sign, settings = {} } = about
  const archives = { debian: settings }
  const archive = (await changingArchives(t, { archives, now: Date.now() + 5000 }))('debian')
  const indexes = new Map<number, Buffer>()
  packagesOf.set(archive, indexes)
  for (const day of [1, 2]) {
    const packages = { [same]: `built on day ${day}` }
    const files = await archive.ofDay(day, { packages, ...(sign && { sign }) })
    indexes.set(day, files.get(archive.index) ?? Buffer.alloc(0))
    archive.serve(files)
    if (day === 1) {
      t.equal(await visit(archive, verifying), '200 404 1 built on day 1')
      t.equal(await visit(archive, trusting), '200 404 1 built on day 1')
    }
  }
  archive.origin.at(`/${archive.release}`, reply({ status }))
  archive.clock.advance(70 * minute)
  return archive
}

t.test('a suite that no known key has signed', async t => {
  const archive = await denied(t, 403, {})
  t.equal(await visit(archive, trusting), '403 404 2 built on day 2')
  const client = await archive.cache.client({ localAddress: verifying })
  const fetch = async (path: string) =>
    (await client.get(archive.origin.url(`/${path}`), asked)).content
  t.equal(await filesFor(archive, fetch, archive.index), '1 built on day 1', 'another client')
  client.end()
  const lines = archive.cache.log.lines.filter(({ message }) => /gives no Release/.test(message))
  t.match(
    lines.map(({ facts }) => facts),
    [{ key: /InRelease$/, status: 403 }],
  )
  await visit(archive, trusting)
  const status = await archive.cache.command({ do: 'status' })
  t.match(status, { out: /has given no Release file for .* \(it answers 403\).*unchecked/ })
  const url = encodeURIComponent(archive.origin.url(`/${archive.release}`))
  t.match((await archive.cache.get(`/_cachesvc/explain?url=${url}`)).text, 'has given no Release')

  archive.serve(await archive.ofDay(3))
  t.match(await visit(archive, trusting), /^200/)
  t.notMatch(await archive.cache.command({ do: 'status' }), { out: /has given no Release/ })
})

t.test('a suite with a hold', async t => {
  const archive = await denied(t, 403, { settings: { hold: '2025-01-31' } })
  t.equal(await visit(archive, trusting), '403 404 1 built on day 1')
})

t.test('a suite of which the origin has no Release file any more', async t => {
  const archive = await denied(t, 404, {})
  t.equal(await visit(archive, trusting), '200 404 1 built on day 1', 'it counts as broken')
  archive.clock.advance(61 * minute)
  t.equal(await visit(archive, trusting), '404 404 2 built on day 2')
})

t.test('a suite that a known key has signed', { skip: noSigningKey }, async t => {
  const key = await SigningKey.create()
  t.teardown(() => key.close())
  const sign = (text: string) => key.clearSign(text)
  for (const verify of ['prefer', 'require']) {
    const settings = { verify, signed_by: [key.keyring] }
    const archive = await denied(t, 403, { sign, settings })
    t.equal(await visit(archive, trusting), '403 404 1 built on day 1', verify)
    const status = await archive.cache.command({ do: 'status' })
    t.match(status, { out: /has given no Release file for .*those of the adopted one/ })
    for (const passes of [30, 25]) {
      archive.clock.advance(passes * minute)
      t.equal(await visit(archive, trusting), '403 404 1 built on day 1', 'for an hour')
    }
    archive.clock.advance(6 * minute)
    const after = verify === 'require' ? '1 built on day 1' : '2 built on day 2'
    t.equal(await visit(archive, trusting), `403 404 ${after}`, 'after an hour')
  }
})
