/**
 * What each policy makes of a Release file that is tampered with, expired, signed by an unknown key, unsigned or rolled back.
 */
import t from 'tap'
import { type ChangingArchive, changingArchives } from '../../fixtures/archive/changing-archive.ts'
import { noSigningKey, SigningKey } from '../../fixtures/archive/signing-key.ts'
import type { Files } from '../../fixtures/archive/tiny-archive.ts'
import { file } from '../../fixtures/http/scripted-origin.ts'

t.test('a Release that is not as it should be', { skip: noSigningKey }, async t => {
  const [key, other] = await Promise.all([SigningKey.create(), SigningKey.create()])
  t.teardown(() => Promise.all([key.close(), other.close()]))
  const expired = 'Valid-Until: Thu, 02 Jan 2025 00:00:00 UTC\n'
  const sign = (text: string): Promise<Buffer> => key.clearSign(text)

  const next: Readonly<Record<string, (archive: ChangingArchive) => Promise<Files>>> = {
    right: archive => archive.ofDay(3, { sign }),
    tampered: async archive => {
      const files = await archive.ofDay(3, { sign })
      const text = files.get(archive.release)?.toString() ?? ''
      return files.set(archive.release, Buffer.from(text.replace('Suite: tiny', 'Suite: tinY')))
    },
    expired: archive => archive.ofDay(3, { sign, more: expired }),
    unknown: archive => archive.ofDay(3, { sign: text => other.clearSign(text) }),
    unsigned: archive => archive.ofDay(3),
    'rolled-back': archive => archive.ofDay(1, { sign }),
    'not-to-be-stored': archive => archive.ofDay(3, { sign }),
  }
  /** The day a client gets, of 2 before and 3 (or 1, rolled back) after. */
  const expected: Readonly<
    Record<string, readonly [require: string, prefer: string, off: string]>
  > = {
    right: ['3', '3', '3'],
    tampered: ['2', '2', '3'],
    expired: ['2', '3', '3'],
    unknown: ['2', '3', '3'],
    unsigned: ['2', '2', '3'],
    'rolled-back': ['2', '2', '1'],
    'not-to-be-stored': ['2', '3', '3'],
  }
  const policies = ['require', 'prefer', 'off'] as const
  const cases = Object.entries(expected).flatMap(([name, days]) =>
    policies.map((verify, i) => ({ root: `${verify}-${name}`, verify, name, day: days[i] })),
  )
  const archives = Object.fromEntries(
    cases.map(({ root, verify }) => [root, { verify, signed_by: [key.keyring] }]),
  )
  // Signatures are of today.
  const archiveAt = await changingArchives(t, { archives, now: Date.now() + 5000 })
  for (const { root, name, day } of cases) {
    const archive = archiveAt(root)
    archive.serve(await archive.ofDay(2, { sign }))
    t.strictSame(await archive.update(), { day: '2', fits: true })
    const files = (await next[name]?.(archive)) ?? new Map<string, Buffer>()
    archive.serve(files)
    if (name === 'not-to-be-stored') {
      const fields = { 'Cache-Control': 'private' }
      const content = files.get(archive.release) ?? ''
      archive.origin.at(`/${archive.release}`, file({ content, fields }))
    }
    await archive.update()
    t.strictSame(await archive.update(), { day, fits: true }, root)
  }
})

t.test(
  'without a good signature nothing is adopted where it is required',
  { skip: noSigningKey },
  async t => {
    const key = await SigningKey.create()
    t.teardown(() => key.close())
    const archives = { debian: { verify: 'require', signed_by: [key.keyring] } }
    const archive = (await changingArchives(t, { archives, now: Date.now() + 5000 }))('debian')
    archive.serve(await archive.ofDay(1))
    await archive.update()
    t.equal(await archive.cache.metric('cachesvc_adopted_suites'), 0)
    archive.serve(await archive.ofDay(2, { sign: text => key.clearSign(text) }))
    await archive.update()
    await archive.update()
    t.equal(await archive.cache.metric('cachesvc_adopted_suites'), 1)
  },
)

t.test(
  'a Release is held back until the adopted one has expired',
  { skip: noSigningKey },
  async t => {
    const key = await SigningKey.create()
    t.teardown(() => key.close())
    const sign = (text: string): Promise<Buffer> => key.clearSign(text)
    const now = Date.now() + 5000
    const hour = 3600 * 1000
    const until = new Date(now + hour).toUTCString().replace('GMT', 'UTC')
    const policies = ['require', 'prefer'] as const
    const archives = Object.fromEntries(
      policies.map(verify => [verify, { verify, signed_by: [key.keyring] }]),
    )
    const archiveAt = await changingArchives(t, { archives, now })
    const all = policies.map(archiveAt)
    const days = async (day: number): Promise<readonly string[]> => {
      const found: string[] = []
      for (const archive of all) {
        const files = await archive.ofDay(day, { sign })
        const text = files.get(archive.release)?.toString() ?? ''
        files.set(archive.release, Buffer.from(text.replace('Suite: tiny', 'Suite: tinY')))
        archive.serve(files)
        await archive.update()
        found.push((await archive.update()).day)
      }
      return found
    }
    for (const archive of all) {
      archive.serve(await archive.ofDay(2, { sign, more: `Valid-Until: ${until}\n` }))
      t.strictSame(await archive.update(), { day: '2', fits: true })
    }
    t.strictSame(await days(3), ['2', '2'], 'it is valid')
    all[0]?.clock.advance(2 * hour)
    t.strictSame(await days(4), ['2', '4'], 'it has expired')
    t.strictSame(await days(5), ['2', '5'], 'and so on')
  },
)
