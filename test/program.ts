import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { exitCodes, print } from '../lib/program.ts'

const fixture = fileURLToPath(new URL('fixtures/process/program.js', import.meta.url))

async function outcome(...args: readonly string[]) {
  const child = spawn(process.execPath, [fixture, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  child.stderr.setEncoding('utf8').on('data', part => {
    said += part
  })
  if (args[0] === 'named') {
    child.stdout.setEncoding('utf8').on('data', part => {
      said += part
    })
  }
  if (args[0] === 'unread') child.stdout.destroy()
  const [code] = await once(child, 'close')
  return { code, said }
}

t.test('the process ends with the code of the program, whatever is still open', async t => {
  t.strictSame(await outcome('78'), { code: 78, said: '' })
  t.strictSame(await outcome('0'), { code: 0, said: '' })
})

t.test(
  'the process has the name of the program',
  { skip: existsSync('/proc/self/comm') ? false : 'needs /proc' },
  async t => {
    t.strictSame(await outcome('named'), { code: 0, said: 'fixture\n' })
  },
)

t.test('what is thrown is one line on standard error', async t => {
  t.strictSame(await outcome('throw'), { code: 1, said: 'fixture: cannot do it: disk is full\n' })
})

t.test('a reader that has gone is not an error', async t => {
  t.strictSame(await outcome('unread'), { code: 0, said: '' })
})

t.test('another failure of the output is one', async t => {
  const broken = new Writable({
    write: (_chunk, _encoding, done) => done(new Error('disk is full')),
  })
  await t.rejects(print('x', broken), { message: 'disk is full' })
  t.equal(exitCodes.configuration, 78)
})
