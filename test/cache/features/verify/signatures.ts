/**
 * What a check makes of the signatures of stored Release files, with each setting of `archives[].verify`.
 */
import t from 'tap'
import type { SuitePolicy } from '../../../../lib/cache/suites/generation.ts'
import { noSigningKey, SigningKey } from '../../../fixtures/archive/signing-key.ts'
import { type Files, tinyArchive } from '../../../fixtures/archive/tiny-archive.ts'
import { site, stored } from '../../../fixtures/features/verify/verified.ts'

const base = 'dists/stable'
const packages = { 'pool/a/alpha_1_all.deb': 'the content of alpha' }

t.test('signatures of Release files', { skip: noSigningKey }, async t => {
  const [own, foreign] = [await SigningKey.create(), await SigningKey.create()]
  t.teardown(() => Promise.all([own.close(), foreign.close()]))
  const plain = tinyArchive({ base, packages })
  const text = plain.get(`${base}/Release`)?.toString() ?? ''
  const detached = (signature: Buffer): Files =>
    new Map(plain).set(`${base}/Release.gpg`, signature)
  const inPlace = (content: Buffer): Files => {
    const files = new Map(plain).set(`${base}/InRelease`, content)
    files.delete(`${base}/Release`)
    return files
  }
  const signed = await own.clearSign(text)
  const tampered = Buffer.from(signed.toString().replace('Suite: tiny', 'Suite: tinY'))
  const made: Readonly<Record<string, Files>> = {
    signed: inPlace(signed),
    detached: detached(await own.detachSign(text)),
    tampered: inPlace(tampered),
    'of another Release': detached(await own.detachSign(`${text}More: yes\n`)),
    unknown: inPlace(await foreign.clearSign(text)),
    unsigned: plain,
  }
  /** By the policy: the signature, the files confirmed, what is wrong and removed. */
  type Expected = readonly [is: string, confirmed: number, wrong?: string]
  const right = 3
  const cases: ReadonlyArray<readonly [string, SuitePolicy['verify'], Expected]> = [
    ['signed', 'require', ['good', right]],
    ['signed', 'prefer', ['good', right]],
    ['detached', 'require', ['good', right]],
    ['unknown', 'prefer', ['unknown-key', right]],
    ['unknown', 'require', ['unknown-key', 0]],
    ['unsigned', 'prefer', ['unsigned', right]],
    ['unsigned', 'require', ['unsigned', 0]],
    ['tampered', 'prefer', ['', 0, `${base}/InRelease signature`]],
    ['tampered', 'require', ['', 0, `${base}/InRelease signature`]],
    ['of another Release', 'prefer', ['', 0, `${base}/Release signature`]],
  ]
  for (const [name, verify, [is, confirmed, wrong]] of cases) {
    const asked: string[] = []
    const { check } = await stored(t, made[name] ?? plain, at => {
      asked.push(at)
      return { verify, keyrings: [own.keyring] }
    })
    const report = await check()
    const words = `${name}, ${verify}`
    const found = report.wrong.map(({ key, because }) => `${key} ${because}`)
    t.strictSame(found, wrong === undefined ? [] : [`${site}/${wrong}`], words)
    const [repository] = report.repositories
    t.equal(repository?.signature?.is ?? '', is, words)
    if (is === 'good') t.match(repository?.signature?.by, /^[0-9a-f]{40,}$/)
    t.equal(repository?.refused !== undefined, verify === 'require' && is !== '' && is !== 'good')
    if (wrong === undefined) t.equal(report.confirmed, confirmed, words)
    t.strictSame(asked, [`${site}/${base}`])
  }
})

t.test('without a keyring nothing is removed, and off looks at no signature', async t => {
  const begin = '-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n'
  const end = '-----BEGIN PGP SIGNATURE-----\n\nAAAA\n-----END PGP SIGNATURE-----\n'
  const plain = tinyArchive({ base, packages })
  const text = plain.get(`${base}/Release`)?.toString() ?? ''
  const files = new Map(plain).set(`${base}/InRelease`, Buffer.from(`${begin}${text}${end}`))
  files.delete(`${base}/Release`)
  const required = await stored(t, files, () => ({ verify: 'require', keyrings: [] }))
  t.match(await required.check(), {
    wrong: [],
    confirmed: 0,
    repositories: [{ signature: { is: 'unchecked' }, refused: /no keyring/, indexes: 0 }],
  })
  const off = await stored(t, files)
  t.match(await off.check(), { wrong: [], confirmed: 3, repositories: [{ signature: undefined }] })
})

t.test(
  'a trusted Release file counts before one that is refused',
  { skip: noSigningKey },
  async t => {
    const key = await SigningKey.create()
    t.teardown(() => key.close())
    const old = tinyArchive({ base, packages, date: 'Sat, 01 Feb 2025 10:00:00 UTC' })
    const text = old.get(`${base}/Release`)?.toString() ?? ''
    old.set(`${base}/InRelease`, await key.clearSign(text))
    const next = tinyArchive({ base, packages: {}, date: 'Sun, 02 Feb 2025 10:00:00 UTC' })
    old.set(`${base}/Release`, next.get(`${base}/Release`) ?? Buffer.from(''))
    const { check } = await stored(t, old, () => ({ verify: 'require', keyrings: [key.keyring] }))
    t.match(await check(), {
      wrong: [],
      confirmed: 3,
      repositories: [{ release: /InRelease$/, signature: { is: 'good' } }],
    })
  },
)
