import { createPrivateKey, randomBytes, X509Certificate } from 'node:crypto'
import { chown, mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import {
  makeDynamicConfig,
  publishedCertificates,
  publishedFor,
  rotateKeys,
  signingKey,
} from '../../../lib/auth/keys/dynamic-config.ts'
import { readDynamicConfig, saveDynamicConfig } from '../../../lib/auth/keys/dynamic-file.ts'
import { KeyRing } from '../../../lib/auth/keys/key-ring.ts'
import { spMetadataXml } from '../../../lib/saml/metadata/sp-metadata.ts'
import { type SelfSignedOptions, selfSignedCertificate } from '../../../lib/x509/x509.ts'
import { createMemoryLog } from '../../fixtures/log/memory-log.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const start = Date.UTC(2030, 0, 1)
const entityId = 'https://app.example.org/saml/metadata'
const making = {
  entityId,
  domain: 'app.example.org',
  now: start,
  random: randomBytes,
  makePair: (wanted: SelfSignedOptions) =>
    selfSignedCertificate({ ...wanted, modulusLength: 1024 }),
}

async function place(t: Test): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'authproxy-'))
  t.teardown(() => rm(directory, { recursive: true }))
  return join(directory, 'app.json')
}

async function ringAt(t: Test, path: string, clock = new ManualClock(start)) {
  const log = createMemoryLog()
  const ring = await KeyRing.open({ ...making, path, clock, log })
  await ring.begin()
  t.teardown(() => ring.close())
  return { ring, log, clock }
}

t.test('what is made is what an identity provider can use, and reads back the same', async t => {
  const path = await place(t)
  const made = await makeDynamicConfig(making)
  await saveDynamicConfig(path, made)
  t.same(await readDynamicConfig(path), made)
  const [pair] = made.saml
  const certificate = new X509Certificate(pair?.certificate ?? '')
  t.equal(certificate.subject, 'CN=app.example.org')
  t.ok(certificate.checkPrivateKey(createPrivateKey(pair?.privateKey ?? '')))
  t.ok(certificate.verify(certificate.publicKey))
  t.ok(Date.parse(certificate.validTo) - start > 9 * 365 * 86_400_000)
  t.equal(made.session[0]?.key.length, 32)
  t.not(made.session[0]?.key.toString('hex'), made.sealing[0]?.key.toString('hex'))
})

t.test(
  'a planned rotation puts new keys first and lets the old ones retire in their time',
  async t => {
    const before = await makeDynamicConfig(making)
    const later = { ...making, now: start + 1000 }
    const after = await rotateKeys(before, later, { session: 60_000, saml: 600_000 })
    t.equal(after.session.length, 2)
    t.not(after.session[0]?.kid, before.session[0]?.kid)
    t.equal(after.session[1]?.retires, start + 61_000)
    t.equal(after.saml[1]?.retires, start + 601_000)
    const again = await rotateKeys(
      after,
      { ...making, now: start + 31_000 },
      { session: 60_000, saml: 600_000 },
    )
    t.equal(
      again.session[2]?.retires,
      start + 61_000,
      'a second rotation does not prolong the first',
    )
    const path = await place(t)
    await saveDynamicConfig(path, after)
    const { ring, clock } = await ringAt(t, path)
    t.equal(ring.session().length, 2)
    const { generation } = ring
    clock.advance(61_000)
    t.ok(ring.generation > generation, 'caches hear of a key that has retired')
    t.equal(ring.session().length, 1)
    t.equal(ring.saml().length, 2)
    clock.advance(600_000)
    t.equal(ring.saml().length, 1)
  },
)

t.test('replacing or deleting the file is noticed; nonsense in it is not believed', async t => {
  const path = await place(t)
  const { ring, log } = await ringAt(t, path)
  const [first] = ring.session()
  const generation = ring.generation
  await ring.check()
  t.equal(ring.generation, generation, 'nothing happened')
  const other = await makeDynamicConfig(making)
  await saveDynamicConfig(path, other)
  await ring.check()
  t.equal(ring.session()[0]?.kid, other.session[0]?.kid)
  t.ok(ring.generation > generation)
  await writeFile(path, '{"version": 1, "session": []}')
  await ring.check()
  t.equal(ring.session()[0]?.kid, other.session[0]?.kid, 'the keys in use stay')
  t.ok(log.lines.some(({ level }) => level === 'error'))
  await rm(path)
  await ring.check()
  t.notOk([first?.kid, other.session[0]?.kid].includes(ring.session()[0]?.kid))
  t.equal((await readDynamicConfig(path))?.session[0]?.kid, ring.session()[0]?.kid)
})

t.test('a new key pair is published before it signs, unless it has to sign at once', async t => {
  const before = await makeDynamicConfig(making)
  const overlap = { session: 60_000, saml: 600_000 }
  const path = await place(t)
  await saveDynamicConfig(path, await rotateKeys(before, making, overlap))
  const { ring, clock } = await ringAt(t, path)
  const config = {
    entityId,
    acsUrl: 'https://app.example.org/saml/acs',
    sloUrl: 'https://app.example.org/saml/slo',
    nameIdFormat: undefined,
    metadataValidity: undefined,
    metadataCacheDuration: undefined,
  }
  const signer = () => signingKey(ring.saml(), clock.now(), publishedFor.saml)?.kid
  const published = () =>
    spMetadataXml(config, publishedCertificates(ring.saml(), clock.now()), {
      signs: true,
      now: clock.now(),
    }).xml.split('use="signing"').length - 1
  t.equal(signer(), before.saml[0]?.kid)
  t.equal(published(), 2)
  clock.advance(300_000)
  t.equal(signer(), ring.saml()[0]?.kid)
  t.equal(published(), 1)
  t.equal(ring.saml().length, 2, 'the old one still decrypts')

  const atOnce = await rotateKeys(before, making, { ...overlap, atOnce: true })
  t.equal(signingKey(atOnce.saml, start, publishedFor.saml)?.kid, atOnce.saml[0]?.kid)
  t.equal(signingKey(atOnce.identity, start, publishedFor.identity)?.kid, atOnce.identity[0]?.kid)
})

t.test(
  'a key of identities retires an hour after a rotation, however long the others stay',
  async t => {
    const before = await makeDynamicConfig(making)
    const after = await rotateKeys(before, making, { session: 60_000, saml: 60_000 })
    t.equal(after.identity.length, 2)
    t.equal(after.identity[1]?.retires, start + 3_600_000)
  },
)

t.test('files that cannot be used say why without quoting a key', async t => {
  const good = JSON.parse(
    JSON.stringify({
      version: 2,
      entityId,
      session: [{ kid: 'a', key: randomBytes(32).toString('base64url'), created: 1 }],
    }),
  )
  const { saml } = await makeDynamicConfig(making)
  const whole = { sealing: good.session, saml }
  for (const [content, why] of [
    ['hunter2', /not JSON/],
    ['[]', /not an object/],
    ['{}', /not of version 2/],
    [JSON.stringify({ ...good, version: 1 }), /not of version 2/],
    ['{"version": 3}', /newer authproxy/],
    [JSON.stringify(good), /"sealing" is not a list/],
    [
      JSON.stringify({ ...good, session: [{ kid: 'a', key: 'aHVudGVyMg', created: 1 }] }),
      /32 bytes/,
    ],
    [
      JSON.stringify({ ...good, session: [{ kid: '../x', key: good.session[0].key, created: 1 }] }),
      /"kid"/,
    ],
    [JSON.stringify({ ...good, ...whole }), /"identity" is not a list/],
    [JSON.stringify({ ...good, ...whole, saml: [{ kid: 'a' }] }), /not PKCS #8 in PEM/],
    [JSON.stringify({ ...good, ...whole, saml: [7] }), /a key of "saml" is not an object/],
    [
      JSON.stringify({ ...good, ...whole, saml: [{ ...saml[0], certificate: 'hunter2' }] }),
      /cannot be read, or does not fit/,
    ],
    [
      JSON.stringify({ ...good, session: [{ kid: 'a', key: good.session[0].key }] }),
      /does not say when/,
    ],
    [
      JSON.stringify({
        ...{ ...good, ...whole },
        identity: [{ kid: 'a', privateKey: whole.saml[0]?.privateKey, created: 1 }],
      }),
      /not of P-256/,
    ],
    [
      JSON.stringify({
        ...{ ...good, ...whole },
        identity: [{ kid: 'a', privateKey: 'hunter2', created: 1 }],
      }),
      /not of P-256/,
    ],
  ] as const) {
    const path = await place(t)
    await writeFile(path, content, { mode: 0o600 })
    await t.rejects(readDynamicConfig(path), { cause: { message: why } })
    await readDynamicConfig(path).catch(error =>
      t.notMatch(`${error.message} ${error.cause.message}`, 'hunter2'),
    )
  }
})

t.test(
  'root who rotates keys leaves a file the service can read',
  { skip: process.getuid?.() !== 0 && 'SKIPPED: only root can write in the name of others' },
  async t => {
    const path = await place(t)
    await chown(dirname(path), 65_534, 65_534)
    await saveDynamicConfig(path, await makeDynamicConfig(making))
    const { uid, gid, mode } = await stat(path)
    t.same([uid, gid, mode & 0o777], [65_534, 65_534, 0o600])
  },
)
