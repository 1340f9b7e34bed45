import { X509Certificate } from 'node:crypto'
import { chmod, chown, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { systemClock } from '../../../../lib/async/clock.ts'
import {
  judgeOwnCertificate,
  judgeOwners,
  judgeVolume,
} from '../../../../lib/auth/doctor/checks/keys.ts'
import { readDynamicConfig } from '../../../../lib/auth/keys/dynamic-file.ts'
import { selfSignedCertificate } from '../../../../lib/x509/x509.ts'
import { startPatient } from '../../../fixtures/gateway/patient.ts'

const day = 86_400_000

t.test('a volume that several machines can share is doubted, a disk is not', t => {
  t.match(judgeVolume('/var/lib/authproxy', 0x6969), [
    { state: 'doubtful', found: /on NFS: .*another machine/, mend: /ReadWriteOnce/ },
  ])
  t.match(judgeVolume('/var/lib/authproxy', 0xc36400), [{ found: /on CephFS/ }])
  t.same(judgeVolume('/var/lib/authproxy', 0xef53), [])
  t.end()
})

t.test('the dynamic configuration: whose it is, who can read it, how long it is good', async t => {
  const patient = await startPatient(t)
  const { configPath, saml } = patient.gateway.config
  const what = 'dynamic configuration'
  t.match(await patient.find(what), { state: 'right' })
  await chmod(configPath, 0o644)
  t.match(await patient.find(what), { state: 'wrong', found: /mode 0644/, mend: /chmod 600/ })
  await chmod(configPath, 0o600)
  const renamed = patient.configWith({ saml: { ...saml, entityId: 'https://other.example.org' } })
  t.match(await patient.find(what, { config: renamed }), {
    state: 'doubtful',
    found: /was made for/,
  })
  const lost = patient.configWith({ configPath: join(patient.directory, 'new.json') })
  t.match(await patient.find(what, { config: lost }), {
    state: 'right',
    found: /does not exist yet/,
  })
  t.match(
    await patient.find('service', { config: lost }),
    { state: 'wrong' },
    'without its keys the service cannot be asked',
  )
  const nowhere = patient.configWith({ configPath: '/nonexistent/app.json' })
  t.match(await patient.find(what, { config: nowhere }), {
    state: 'wrong',
    found: /directory \/nonexistent does not exist/,
  })
  const [pair] = (await readDynamicConfig(configPath))?.saml ?? []
  const { validTo } = new X509Certificate(pair?.certificate ?? '')
  const at = (days: number) => ({ ...systemClock, now: () => Date.parse(validTo) + days * day })
  for (const [days, state, found] of [
    [-200, 'right', /^until \d{4}/],
    [-20, 'doubtful', /, 19 days$|, 20 days$/],
    [50, 'wrong', /^expired on/],
  ] as const) {
    t.match(await patient.find('own SAML certificate', { clock: at(days) }), { state, found })
  }
  await writeFile(configPath, '{')
  t.match(await patient.find(what), { state: 'wrong', found: /it is not JSON/ })
})

t.test(
  'files of another owner than their directory are told, with the command that mends it',
  t => {
    const directory = { path: '/var/lib/authproxy', owner: 998, mode: 0o700 }
    const file = (name: string, owner: number) => {
      return { path: `/var/lib/authproxy/${name}`, owner, mode: 0o600 }
    }
    t.same(judgeOwners(directory, [file('app.json', 998)]), [])
    t.match(
      judgeOwners(directory, [file('app.json', 998), file('app.json.revoked.0123456789abcdef', 0)]),
      [
        {
          state: 'wrong',
          found:
            '/var/lib/authproxy/app.json.revoked.0123456789abcdef belongs to user 0, its directory to user 998',
          mend: /chown --reference=\/var\/lib\/authproxy \/var\/lib\/authproxy\/app\.json\.revoked\.0123456789abcdef/,
        },
      ],
    )
    t.end()
  },
)

t.test(
  'the owner is seen on disk',
  { skip: process.getuid?.() !== 0 && 'SKIPPED: only root can give a file away' },
  async t => {
    const patient = await startPatient(t)
    await chown(patient.gateway.config.configPath, 65_534, 65_534)
    t.match(await patient.find('owner of files'), { state: 'wrong', found: /user 65534/ })
    await chown(patient.gateway.config.configPath, 0, 0)
    t.match(await patient.find('owner of files'), undefined)
    const used = `${patient.gateway.config.saml.usedIdsPath}.0123456789abcdef`
    await writeFile(used, '')
    await chown(used, 65_534, 65_534)
    t.match(await patient.find('owner of files'), {
      state: 'wrong',
      found: /used\.0123456789abcdef belongs/,
    })
  },
)

t.test('an old key that still decrypts is mentioned', async t => {
  const now = Date.now()
  const pair = async (retires?: number) => ({
    ...(await selfSignedCertificate({
      name: 'app.example.org',
      now,
      lifetime: 400 * day,
      modulusLength: 1024,
    })),
    ...{ kid: 'a', created: now, retires },
  })
  const found = /the old key decrypts until \d{4}-/
  const newest = await pair()
  t.match(judgeOwnCertificate([newest, await pair(now + 20 * day)], now), { state: 'right', found })
  const retired = judgeOwnCertificate([newest, await pair(now - day)], now)
  t.notMatch(retired, { found })
})
