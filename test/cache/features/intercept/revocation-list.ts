/**
 * The revocation list: signed, numbered, renewed, kept.
 */
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { keepRevocationList } from '../../../../lib/cache/features/intercept/https.ts'
import { listNumber } from '../../../../lib/x509/x509.ts'
import { testCa } from '../../../fixtures/features/intercept/authority.ts'
import { createMemoryLog } from '../../../fixtures/log/memory-log.ts'
import { attempt, lacking } from '../../../fixtures/process/command.ts'
import { eventually } from '../../../fixtures/process/ports.ts'
import { ManualClock } from '../../../fixtures/time/manual-clock.ts'

const minute = 60_000
const start = Date.now()

type List = Awaited<ReturnType<typeof keepRevocationList>>
const numberOf = async ({ read }: List) => listNumber((await read()) ?? Buffer.alloc(0)) ?? 0

async function listIn(directory: string, clock = new ManualClock(start)) {
  const { certificate, issuer } = await testCa()
  const log = createMemoryLog()
  const begin = () => keepRevocationList({ issuer, directory, clock, log })
  return { begin, clock, log, certificate, file: join(directory, 'revocation.crl') }
}

t.test('made at the start, and again every half hour with a higher number', async t => {
  const { begin, clock } = await listIn(t.testdir())
  const list = await begin()
  const number = () => numberOf(list)
  const first = await number()
  t.equal(first, Math.floor(start / 1000))
  clock.advance(29 * minute)
  t.equal(await number(), first)
  clock.advance(minute)
  t.ok(await eventually(async () => (await number()) === first + 1800))
  list.stop()
  clock.advance(60 * minute)
  t.equal(await number(), first + 1800)
})

t.test('numbers rise when the clock goes back, and over a file that is none', async t => {
  const directory = t.testdir()
  const before = await listIn(directory)
  ;(await before.begin()).stop()
  const after = await listIn(directory, new ManualClock(start - 24 * 60 * minute))
  const first = await after.begin()
  first.stop()
  t.equal(await numberOf(first), Math.floor(start / 1000) + 1)
  await writeFile(after.file, 'torn')
  const second = await after.begin()
  second.stop()
  t.ok((await numberOf(second)) > 0)
})

t.test('OpenSSL accepts it', { skip: lacking('openssl') }, async t => {
  const { begin, certificate, file } = await listIn(t.testdir())
  ;(await begin()).stop()
  await writeFile(`${file}.ca`, certificate.pem)
  const args = ['crl', '-inform', 'DER', '-in', file, '-CAfile', `${file}.ca`, '-noout']
  const { code, stderr } = await attempt('openssl', [...args, '-nextupdate'])
  t.equal(code, 0)
  t.match(stderr, 'verify OK')
})

t.test('a directory that is gone is logged, and tried again', async t => {
  const directory = t.testdir()
  const { begin, log, file } = await listIn(directory)
  ;(await begin()).stop()
  t.ok((await readFile(file)).length > 100)
  await rm(directory, { recursive: true })
  const list = await begin()
  list.stop()
  t.match(log.lines, [{ level: 'error', message: 'the revocation list could not be made' }])
  t.equal(await list.read(), undefined, 'and there is none')
})
