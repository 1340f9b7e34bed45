/**
 * Keyrings: which certificates a signature's key IDs lead to, whatever form the file has.
 */
import { stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { generateKey, unarmor } from 'openpgp'
import t from 'tap'
import { certificatesOf } from '../../../../lib/cache/suites/signing/keyrings.ts'

let read = 0
async function unarmour(text: string): Promise<Uint8Array> {
  read += 1
  const { data } = await unarmor(text)
  return data instanceof Uint8Array ? data : new Uint8Array()
}

async function made() {
  const key = await generateKey({ userIDs: [{ name: 'a' }], format: 'object', subkeys: [{}, {}] })
  const { publicKey } = key
  const ids = publicKey.getKeys().map(one => one.getKeyID().toHex())
  return { armoured: publicKey.armor(), bytes: Buffer.from(publicKey.write()), ids }
}

t.test('each key of a certificate leads to it, and to no other', async t => {
  const [one, other] = [await made(), await made()]
  const directory = t.testdir({ 'armoured.asc': one.armoured })
  const both = join(directory, 'both.gpg')
  await writeFile(both, Buffer.concat([other.bytes, one.bytes]))
  const files = [join(directory, 'armoured.asc'), both, join(directory, 'missing.gpg')]
  t.equal(one.ids.length, 3)
  for (const id of one.ids) {
    const found = await certificatesOf(files, [id], unarmour)
    t.strictSame(
      found.map(bytes => bytes.equals(one.bytes)),
      [true, true],
    )
  }
  t.strictSame(await certificatesOf(files, ['0'.repeat(16)], unarmour), [])
})

t.test('a file is looked through once in each of its versions', async t => {
  const [one, other] = [await made(), await made()]
  const path = join(t.testdir({ 'keys.asc': one.armoured }), 'keys.asc')
  const count = async ({ ids: [id = ''] }: typeof one): Promise<number> =>
    (await certificatesOf([path], [id], unarmour)).length
  read = 0
  for (let n = 0; n < 3; n += 1) t.equal(await count(one), 1)
  t.equal(read, 1)
  const { mtimeMs } = await stat(path)
  await writeFile(path, other.armoured)
  await utimes(path, new Date(), new Date(mtimeMs + 5000))
  t.strictSame([await count(one), await count(other)], [0, 1])
  t.equal(read, 2)
})

t.test('what is no keyring is passed over, and not looked through again', async t => {
  const { bytes, ids } = await made()
  const files: Readonly<Record<string, Buffer | string>> = {
    'empty.gpg': '',
    'text.gpg': 'no key',
    'cut.gpg': bytes.subarray(0, bytes.length - 3),
    'keybox.gpg': Buffer.from('0000002001010002', 'hex'),
    'no-armour.asc': '-----BEGIN PGP PUBLIC KEY BLOCK-----\n',
    'partial.gpg': Buffer.from([0xc6, 0xe1, 4, 4]),
    'without-length.gpg': Buffer.from([0x9b, 4]),
  }
  const directory = t.testdir({})
  for (const [name, content] of Object.entries(files))
    await writeFile(join(directory, name), content)
  const paths = Object.keys(files).map(name => join(directory, name))
  t.strictSame(await certificatesOf(paths, ids, unarmour), [])
})

t.test('a certificate of which the key cannot be told is always looked at', async t => {
  const content = Buffer.from([0xc6, 2, 3, 0])
  const path = join(t.testdir({}), 'old.gpg')
  await writeFile(path, content)
  t.strictSame(await certificatesOf([path], [], unarmour), [content])
})
