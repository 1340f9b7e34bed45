/**
 * The revocation list: signed, and made again each day by the service.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { writeRevocationList } from '../../../../lib/cache/features/intercept/https.ts'
import { testCa } from '../../../fixtures/features/intercept/authority.ts'
import { createMemoryLog } from '../../../fixtures/log/memory-log.ts'
import { attempt, lacking } from '../../../fixtures/process/command.ts'
import { ManualClock } from '../../../fixtures/time/manual-clock.ts'

const day = 24 * 60 * 60_000

async function listIn(directory: string) {
  const { certificate, issuer } = await testCa()
  const log = createMemoryLog()
  const clock = new ManualClock(Date.now())
  const file = join(directory, 'revocation.crl')
  const make = () => writeRevocationList({ issuer, file, clock, log })
  return { make, clock, log, certificate, file }
}

t.test('OpenSSL accepts it, and a later one', { skip: lacking('openssl') }, async t => {
  const { make, clock, certificate, file } = await listIn(t.testdir())
  await writeFile(`${file}.ca`, certificate.pem)
  const numbers: number[] = []
  for (const _ of [1, 2]) {
    await make()
    const args = ['crl', '-inform', 'DER', '-in', file, '-CAfile', `${file}.ca`, '-noout']
    const { code, stdout, stderr } = await attempt('openssl', [...args, '-crlnumber'])
    t.equal(code, 0)
    t.match(stderr, 'verify OK')
    numbers.push(Number(/crlNumber=(0x\w+)/.exec(stdout.toString())?.[1]))
    clock.advance(day)
  }
  t.equal((numbers[1] ?? 0) - (numbers[0] ?? 0), day / 1000)
})

t.test('a directory that is gone is logged', async t => {
  const { make, log, file } = await listIn(join(t.testdir(), 'gone'))
  await make()
  t.match(log.lines, [{ level: 'error', message: 'the revocation list could not be made' }])
  await t.rejects(readFile(file), { code: 'ENOENT' })
})
