/**
 * The signatures of Release files, with keys that gpg made.
 */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { checkSignature } from '../../../lib/cache/suites/signature.ts'
import { noSigningKey, SigningKey } from '../../fixtures/signing-key.ts'

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
    ['detached, nonsense', release, Buffer.from('nonsense'), 'unsigned'],
  ]
  for (const [what, content, signature, is] of cases) {
    const found = await checkSignature(content, signature, { keyrings, now: Date.now() + 5000 })
    t.equal(found.is, is, what)
    if (is === 'good') t.match(found.by, /^[0-9a-f]{40,}$/)
  }
  const late = { keyrings, now: Date.now() - 10 * 365 * 24 * 3600 * 1000 }
  t.equal((await checkSignature(signed, undefined, late)).is, 'bad', 'signed in the future')
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
