/**
 * The program as a person runs it: what it says, where, and the code it ends with.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod } from 'node:fs/promises'
import { get } from 'node:http'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import t from 'tap'
import { defaultConfigFile } from '../../../lib/cache/config/loading/load-config.ts'
import { packageRoot } from '../../../lib/package.ts'
import { attempt, cleanEnvironment } from '../../fixtures/process/command.ts'

const program = join(packageRoot(), 'dist/bin/cachesvc.js')
const url = 'http://archive.example.org/debian/dists/stable/InRelease'

async function outcome(...args: readonly string[]) {
  const { code, stdout, stderr } = await attempt(process.execPath, [program, ...args])
  return { code, said: stdout.toString(), complained: stderr }
}

t.test('explain and list need no cache directory, and make none', async t => {
  const directory = join(t.testdir({}), 'none')
  const explained = await outcome('explain', url, '--cache-dir', directory)
  t.match(explained, { code: 0, said: /^Stored +no$/m, complained: '' })
  t.match(explained.said, /fetched from the origin, streamed and stored \(absent\)/)
  t.match(await outcome('explain', 'foo bar', '--cache-dir', directory), {
    code: 2,
    said: /^Asked for +A target consists of visible ASCII characters/,
  })
  t.match(await outcome('list', 'hello', '--cache-dir', directory), {
    code: 1,
    said: '',
    complained: `cachesvc: ${directory} holds nothing that matches "hello"\n`,
  })
  t.notOk(existsSync(directory))
})

t.test('what is wrong is said on standard error, each with its own exit code', async t => {
  const directory = t.testdir({ 'wrong.yaml': 'lisen_port: 1\n', file: '' })
  const wrong = join(directory, 'wrong.yaml')
  t.match(await outcome('explian'), { code: 2, said: '', complained: /did you mean explain\?\n$/ })
  t.match(await outcome('-c', wrong), {
    code: 78,
    said: '',
    complained: `cachesvc: ${wrong}:1:1: lisen_port: no such setting; did you mean listen_port?\n`,
  })
  t.match(await outcome('--check-config', '-c', wrong), { code: 78 })
  const { code, complained } = await outcome('list', '--cache-dir', join(directory, 'file', 'x'))
  t.equal(code, 1)
  t.match(complained, /^cachesvc: The cache directory .* is not a directory.*\.\n$/, 'one sentence')
})

const configured = existsSync(defaultConfigFile) && `SKIPPED: ${defaultConfigFile} exists here`

t.test('without configuration it says how to use it', { skip: configured }, async t => {
  const args = [program, '--listen', '127.0.0.1:0', '--cache-dir', t.testdir({})]
  const child = spawn(process.execPath, args, {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: cleanEnvironment(),
  })
  t.teardown(() => child.kill('SIGKILL'))
  const messages: string[] = []
  for await (const line of createInterface({ input: child.stdout })) {
    const { message } = JSON.parse(line)
    messages.push(message)
    if (message === 'ready') break
  }
  const base =
    /^try it here: sudo apt -o Acquire::http::Proxy=(http:\/\/127\.0\.0\.1:\d+) update$/.exec(
      messages[0] ?? '',
    )?.[1]
  t.strictSame(messages.slice(1), [`make machines use it: ${base}/_cachesvc/setup`, 'ready'])
  const status = await new Promise(resolve => {
    get(`${base}/_cachesvc/setup`, response => resolve(response.resume().statusCode))
  })
  t.equal(status, 200)
  child.kill('SIGTERM')
  const [code] = await once(child, 'exit')
  t.equal(code, 0)
})

const root = process.getuid?.() === 0
t.test('a bundle this user may not read: where to put it', { skip: root }, async t => {
  const directory = t.testdir({ 'site.tar': '' })
  const bundle = join(directory, 'site.tar')
  await chmod(bundle, 0)
  t.match(await outcome('import', bundle, '--cache-dir', join(directory, 'cache')), {
    code: 1,
    complained: `cachesvc: this user may not read ${bundle}; put it where that user can, such as /var/tmp\n`,
  })
})
