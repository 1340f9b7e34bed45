/**
 * Credentials for a bucket: the forms of their files, what is refused, and that no message quotes what stands there.
 */
import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import {
  bucketCredentials,
  parseCredentials,
} from '../../../../lib/cache/features/shared/s3/credentials.ts'
import { openNode } from '../../../fixtures/features/shared/node.ts'
import { ObjectStore, storeCredentials } from '../../../fixtures/features/shared/object-store.ts'
import { until } from '../../../fixtures/http/origin-client.ts'
import { ManualClock } from '../../../fixtures/time/manual-clock.ts'

const { keyId, secret } = storeCredentials
const lines = `aws_access_key_id = ${keyId}\naws_secret_access_key = ${secret}\n`

t.test('the forms of a file', async t => {
  const right = [
    lines,
    `[default]\n${lines}`,
    `# comment\n\n[default]\r\n${lines.replaceAll('\n', '\r\n')}; more\n`,
    `[other]\naws_access_key_id=OTHER\naws_secret_access_key=other\n[default]\n${lines}region = x\n`,
    lines.toUpperCase().replace(keyId.toUpperCase(), keyId).replace(secret.toUpperCase(), secret),
  ]
  for (const text of right) t.strictSame(parseCredentials(text), { keyId, secret }, text)
  const token = { keyId, secret, token: 'tok' }
  t.strictSame(parseCredentials(`${lines}aws_session_token = tok\n`), token)
  const wrong = [
    '',
    'aws_access_key_id = X\n',
    `[other]\n${lines}`,
    'hidden secret\n',
    `${lines}hidden\n`,
    'aws_access_key_id = hidden, other\naws_secret_access_key = hidden\n',
    'aws_access_key_id = hidden\naws_secret_access_key = hidden hidden\n',
    `${lines}aws_session_token = hid\u0001den\n`,
  ]
  for (const text of wrong) {
    const read = parseCredentials(text)
    t.match(read, { problem: /^has / }, text)
    t.notMatch(JSON.stringify(read), /hid/)
  }
})

t.test('the places of credentials', async t => {
  const directory = t.testdir({ mine: lines, s3: lines })
  const file = join(directory, 'mine')
  await chmod(file, 0o600)
  await chmod(join(directory, 's3'), 0o600)
  t.strictSame(bucketCredentials(file, {}), { keyId, secret })
  const systemd = { CREDENTIALS_DIRECTORY: directory }
  t.strictSame(bucketCredentials('credential:s3', systemd), { keyId, secret })
  t.match(bucketCredentials('credential:other', systemd), { problem: /there is no such file/ })
  const environment = { AWS_ACCESS_KEY_ID: keyId, AWS_SECRET_ACCESS_KEY: secret }
  t.strictSame(bucketCredentials(undefined, environment), { keyId, secret })
  t.match(bucketCredentials(undefined, {}), { problem: /AWS_ACCESS_KEY_ID/ })
  await chmod(file, 0o644)
  t.match(bucketCredentials(file, environment), { problem: /every user of this machine/ })
})

t.test(
  'credentials that are replaced are used after a reload, or when the store refuses those of before',
  async t => {
    const clock = new ManualClock(Date.now())
    const store = await ObjectStore.listen(t)
    const directory = t.testdir()
    const file = join(directory, 'credentials')
    const write = (text: string) => writeFile(file, text, { mode: 0o600 })
    await t.rejects(openNode(t, store, { directory, settings: { credentials: file } }), {
      code: 'credentials-file',
      message: `shared_store.credentials: ${file} cannot be read: there is no such file`,
    })
    await write('aws_access_key_id = OLD\naws_secret_access_key = old\n')
    const a = await openNode(t, store, {
      clock,
      directory,
      settings: { credentials: file },
      tried: false,
    })
    await until(() => a.shared.state.unwritable !== undefined)
    await write(lines)
    clock.advance(1000)
    await until(() => a.shared.state.unwritable === undefined)
    t.equal(a.shared.state.conditionalWrites, 'on')
    await write('nothing')
    const settings = { url: undefined, style: 'path', region: 'x', credentials: file } as const
    const problem = a.opened.reload({ ...settings, expire: 0 }, [])
    t.match(
      problem,
      /^shared_store\.credentials: .* has something else than NAME = VALUE on line 1$/,
    )
    t.equal(await a.shared.entry('http://a.example.org/'), undefined)
    t.equal(a.shared.state.resting, undefined, 'those of before count')
  },
)
