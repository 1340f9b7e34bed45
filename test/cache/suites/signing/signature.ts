/**
 * The signatures of Release files, with keys of gpg and of OpenPGP.js.
 */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createCleartextMessage, generateKey, type PrivateKey, reformatKey, sign } from 'openpgp'
import t from 'tap'
import { checkSignature } from '../../../../lib/cache/suites/signing/signature.ts'
import { noSigningKey, SigningKey } from '../../../fixtures/archive/signing-key.ts'

const text = 'Origin: Test\nSuite: stable\nSHA256:\n - not a list\n'

t.test('signatures in place and detached', { skip: noSigningKey }, async t => {
  const [own, foreign] = [await SigningKey.create(), await SigningKey.create()]
  t.teardown(() => Promise.all([own.close(), foreign.close()]))
  const signed = await own.clearSign(text)
  const other = await foreign.clearSign(text)
  const detached = await own.detachSign(text)
  const release = Buffer.from(text)
  const changed = Buffer.from(signed.toString().replace('stable', 'sid'))
  const begin = '-----BEGIN PGP SIGNATURE-----\n\n'
  const [body] = signed.toString().split(begin)
  const [, signature] = other.toString().split(begin)
  const swapped = Buffer.from([body, signature].join(begin))
  const many = Buffer.concat([signed, Buffer.alloc(100_000, signature)])
  const keyrings = [own.keyring]
  const cases: ReadonlyArray<
    readonly [what: string, release: Buffer, detached: Buffer | undefined, is: string]
  > = [
    ['signed in place', signed, undefined, 'good'],
    ['changed after it was signed', changed, undefined, 'bad'],
    ['signed by an unknown key', other, undefined, 'unknown-key'],
    ['the signature of an unknown key', swapped, undefined, 'unknown-key'],
    ['not signed', release, undefined, 'unsigned'],
    ['something before the signed text', Buffer.concat([release, signed]), undefined, 'unsigned'],
    ['detached', release, detached, 'good'],
    ['detached, of another text', Buffer.from(`${text}More: yes\n`), detached, 'bad'],
    ['detached, damaged', release, Buffer.from('-----BEGIN PGP SIGNATURE-----\n'), 'unsigned'],
    ['more signatures than any archive has', many, undefined, 'unsigned'],
    ['the same, detached', release, Buffer.alloc(100_000, detached), 'unsigned'],
    ['detached, nonsense', release, Buffer.from('nonsense'), 'unsigned'],
  ]
  for (const [what, content, signature, is] of cases) {
    const found = await checkSignature(content, signature, { keyrings, now: Date.now() + 5000 })
    t.equal(found.is, is, what)
    if (is === 'good') t.match(found.by, /^[0-9a-f]{40,}$/)
  }
  const late = { keyrings, now: Date.now() - 10 * 365 * 24 * 3600 * 1000 }
  t.equal((await checkSignature(signed, undefined, late)).is, 'unknown-key', 'of the future')
  const before = { keyrings, now: Date.now() - 3600 * 1000 }
  t.equal((await checkSignature(signed, undefined, before)).is, 'good', 'an hour ahead')
})

t.test('the detached signature of a key that is not here', { skip: noSigningKey }, async t => {
  const [own, foreign] = [await SigningKey.create(), await SigningKey.create()]
  t.teardown(() => Promise.all([own.close(), foreign.close()]))
  const about = { keyrings: [own.keyring], now: Date.now() + 5000 }
  for (const digest of ['SHA1', 'SHA224', 'SHA256', 'SHA384', 'SHA512']) {
    const detached = await foreign.detachSign(text, digest)
    const isOf = async (content: string): Promise<string> =>
      (await checkSignature(Buffer.from(content), detached, about)).is
    t.equal(await isOf(text), 'unknown-key', digest)
    t.equal(await isOf(`${text}More: yes\n`), 'bad', `${digest}, of another text`)
  }
})

t.test('a Release file in another encoding than UTF-8', { skip: noSigningKey }, async t => {
  const key = await SigningKey.create()
  t.teardown(() => key.close())
  const about = { keyrings: [key.keyring], now: Date.now() + 5000 }
  for (const encoding of ['latin1', 'utf8'] as const) {
    const signed = await key.clearSign(Buffer.from('Label: caf\xe9 \xa0\nSuite: x \t\n', encoding))
    t.match(await checkSignature(signed, undefined, about), { is: 'good' }, encoding)
    signed[signed.indexOf('caf') + 3] = 0xe8
    t.match(await checkSignature(signed, undefined, about), { is: 'bad' }, encoding)
  }
})

t.test('an old copy of a key is no reason to call a signature bad', async t => {
  const day = 24 * 3600 * 1000
  const now = Date.now()
  const userIDs = [{ name: 'Test Archive', email: 'archive@example.org' }]
  const made = new Date(now - 30 * day)
  const ten = (10 * day) / 1000
  const old = await generateKey({ userIDs, date: made, keyExpirationTime: ten, format: 'object' })
  const { privateKey } = old
  const extended = await reformatKey({ privateKey, userIDs, date: made, format: 'object' })
  const foreign = await generateKey({ userIDs, date: made, format: 'object' })
  const keys = t.testdir({
    'old.asc': old.publicKey.armor(),
    'new.asc': extended.publicKey.armor(),
  })
  const date = new Date(now - day)
  const signedBy = async (...signingKeys: PrivateKey[]): Promise<Buffer> => {
    const message = await createCleartextMessage({ text })
    return Buffer.from(await sign({ message, signingKeys, date }))
  }
  const signed = await signedBy(extended.privateKey)
  const both = await signedBy(extended.privateKey, foreign.privateKey)
  const changed = Buffer.from(signed.toString().replace('stable', 'sid'))
  const check = (release: Buffer, ...names: readonly string[]) =>
    checkSignature(release, undefined, { keyrings: names.map(name => join(keys, name)), now })
  t.match(await check(signed, 'old.asc'), { is: 'unknown-key' }, 'expired')
  t.match(await check(both, 'old.asc'), { is: 'unknown-key' }, 'expired, and an unknown key')
  t.match(await check(changed, 'old.asc'), { is: 'bad' }, 'expired, changed')
  for (const names of [['old.asc', 'new.asc'], ['new.asc', 'old.asc'], ['.']]) {
    const by = extended.publicKey.getFingerprint()
    const owner = 'Test Archive <archive@example.org>'
    t.strictSame(await check(signed, ...names), { is: 'good', by, owner }, names.join())
    t.match(await check(changed, ...names), { is: 'bad' }, 'changed')
  }
})

t.test('keyrings are files and directories, and need not be there', async t => {
  const release = Buffer.from('-----BEGIN PGP SIGNED MESSAGE-----\n')
  const check = async (keyrings: readonly string[]): Promise<string> =>
    (await checkSignature(release, undefined, { keyrings, now: Date.now() })).is
  t.equal(await check([]), 'unchecked')
  const directory = t.testdir({ 'notes.txt': 'no key', 'broken.gpg': 'no key either' })
  t.equal(await check([join(directory, 'missing'), join(directory, 'empty')]), 'unchecked')
  await mkdir(join(directory, 'empty'))
  t.equal(await check([join(directory, 'empty')]), 'unchecked')
  await writeFile(join(directory, 'empty', 'old.asc'), '-----BEGIN PGP PUBLIC KEY BLOCK-----\n')
  t.equal(await check([join(directory, 'empty')]), 'unsigned', 'a file without keys is passed over')
})

t.test('a good signature names the owner of its key, on one line', async t => {
  const directory = t.testdir()
  const now = Date.now() + 5000
  for (const [userIDs, owner] of [
    [
      [{ name: 'Example Archive', email: 'archive@example.org' }],
      'Example Archive <archive@example.org>',
    ],
    [[{ name: 'First' }, { name: 'Second' }], 'First'],
    [[{ name: `A\n\u202Eb${'c'.repeat(500)}` }], `A b${'c'.repeat(117)}`],
  ] as const) {
    const key = await generateKey({ userIDs: [...userIDs], format: 'object' })
    const path = join(directory, 'keys.gpg')
    await writeFile(path, Buffer.from(key.publicKey.write()))
    const message = await createCleartextMessage({ text })
    const signed = Buffer.from(await sign({ message, signingKeys: key.privateKey }))
    const found = await checkSignature(signed, undefined, { keyrings: [path], now })
    t.strictSame(found, { is: 'good', by: key.publicKey.getFingerprint(), owner })
  }
})
