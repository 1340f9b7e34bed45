import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { createLog, type LogLevel, silentLog } from '../../lib/log/log.ts'
import { createMemoryLog } from '../fixtures/log/memory-log.ts'

/** A log whose lines are collected. */
function collected(form: 'json' | 'plain', level?: LogLevel) {
  const lines: string[] = []
  const to = { write: (line: string) => lines.push(line) }
  return { lines, log: createLog({ to, form, ...(level === undefined ? {} : { level }) }) }
}

t.test('a line is one JSON object with level, time and message', t => {
  const { lines, log } = collected('json')
  log.info('served', { target: 'http://bob:s3@h.example.org/x', status: 200, missing: undefined })
  t.equal(lines.length, 1)
  t.ok(lines[0]?.endsWith('\n'))
  const line = JSON.parse(lines[0] ?? '')
  t.match(line, {
    level: 'info',
    message: 'served',
    status: 200,
    target: 'http://[redacted]@h.example.org/x',
  })
  t.match(line.time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  t.strictSame(Object.keys(line), ['level', 'time', 'target', 'status', 'message'])
  log.warn('two\nlines\u001b[2J')
  t.equal(lines[1]?.split('\n').length, 2)
  t.end()
})

t.test('children add their facts, cleaned, and follow the level', t => {
  const { lines, log } = collected('json')
  const child = log.child({ request: 'r1', cookie: 'a=b' }).child({ client: '192.0.2.1' })
  child.debug('hidden')
  t.notOk(child.writes('debug'))
  log.setLevel('debug')
  t.ok(child.writes('debug'))
  child.debug('seen', { client: '192.0.2.2' })
  log.setLevel('error')
  child.warn('hidden')
  child.error('seen too')
  t.match(
    lines.map(line => JSON.parse(line)),
    [
      { level: 'debug', message: 'seen', request: 'r1', cookie: '[redacted]', client: '192.0.2.2' },
      { level: 'error', message: 'seen too', client: '192.0.2.1' },
    ],
  )
  t.end()
})

t.test('a terminal gets short digests, dates, and no JSON', t => {
  const { lines, log } = collected('plain')
  log.info('adopted a suite', {
    suite: 'archive.example.org/debian/dists/stable',
    release: 'ab12'.repeat(16),
    ends: { at: Date.UTC(2035, 2, 28), because: 'the key expires' },
    bytes: 123456789,
  })
  t.match(
    lines[0],
    / INFO {2}adopted a suite suite=archive\.example\.org\/debian\/dists\/stable release=ab12ab12ab12ab12… ends\.at=2035-03-28T00:00:00Z ends\.because="the key expires" bytes=123456789\n$/,
  )
  t.end()
})

t.test('secrets stop in messages, facts and errors alike', t => {
  const { lines, log } = collected('json', 'debug')
  const secret = 'hunter2'
  log.info(`fetching http://bob:${secret}@h/`, {
    authorization: `Basic ${secret}`,
    deep: { Cookie: secret },
  })
  log.error('failed', {
    error: new Error(`http://bob:${secret}@h/ refused`, { cause: new Error(`?token=${secret}`) }),
  })
  t.notMatch(lines.join(''), secret)
  t.end()
})

t.test('the plain form is readable and cannot be forged', t => {
  const { lines, log } = collected('plain')
  log.info('served', {
    target: 'http://h.example.org/x',
    agent: 'a b\u001b[31m\nINFO forged',
    n: 3,
    list: [1],
  })
  t.match(
    lines[0],
    /^\d\d:\d\d:\d\d INFO {2}served target=http:\/\/h\.example\.org\/x agent="a b\\u001b\[31m\\nINFO forged" n=3 list=\[1\]\n$/,
  )
  log.error('failed\u2028', { error: new Error('why') })
  t.match(lines[1], /ERROR failed\\u2028\n {4}Error: why\n {8}at /)
  log.error('failed', { error: 'just text' })
  t.match(lines[2], /\n {4}"just text"\n$/)
  t.end()
})

t.test('a memory log keeps lines as they would be written', async t => {
  const log = createMemoryLog('info')
  log.debug('hidden')
  log.child({ a: 1 }).info('seen', { password: 'x' })
  t.strictSame(log.lines, [
    { level: 'info', message: 'seen', facts: { a: 1, password: '[redacted]' } },
  ])
  log.setLevel('debug')
  log.debug('seen too')
  t.equal(log.lines.length, 2)
  await log.flush()
  silentLog.child({}).error('nobody hears this')
  t.notOk(silentLog.writes('error'))
})

t.test(
  'on standard output: everything flushed arrives, and a reader that stops costs lines, not memory',
  async t => {
    const fixture = fileURLToPath(new URL('../fixtures/process/log.js', import.meta.url))
    const run = async (count: number, pause: boolean) => {
      const child = spawn(process.execPath, [fixture, String(count)], {
        stdio: ['ignore', 'pipe', 'pipe'],
      })
      t.teardown(() => child.kill('SIGKILL'))
      child.stderr.setEncoding('utf8')
      // The fixture says on standard error that it has written everything, and waits for a signal to flush.
      const [memory] = pause ? await once(child.stderr, 'data') : ['']
      let text = ''
      child.stdout.setEncoding('utf8').on('data', part => {
        text += part
      })
      if (!pause) await once(child.stderr, 'data')
      child.kill('SIGTERM')
      const [code] = await once(child, 'close')
      t.equal(code, 0)
      return {
        lines: text
          .trimEnd()
          .split('\n')
          .map(line => JSON.parse(line)),
        memory: Number(memory),
      }
    }
    const all = await run(1000, false)
    t.equal(all.lines.length, 1000)
    t.equal(all.lines.at(-1).n, 999)

    const some = await run(60_000, true)
    const told = some.lines.filter(line => line.message.startsWith('log lines were lost'))
    const lost = told.reduce((sum, line) => sum + line.lines, 0)
    t.ok(lost > 0)
    t.equal(some.lines.length - told.length + lost, 60_000, 'every line is there or counted')
  },
)
