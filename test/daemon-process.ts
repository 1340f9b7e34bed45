import { type ChildProcess, spawn } from 'node:child_process'
import { EventEmitter, once } from 'node:events'
import { chmodSync, readFileSync } from 'node:fs'
import { get } from 'node:http'
import { createServer } from 'node:net'
import { delimiter, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { until } from './fixtures/time/until.ts'

const fixture = fileURLToPath(new URL('fixtures/process/daemon.js', import.meta.url))

/** The fixture as a process of its own; lines are its log. */
function spawned(t: { teardown(action: () => unknown): void }, ...args: readonly string[]) {
  const child = spawn(process.execPath, [fixture, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  const lines: Array<{ level: string; message: string; status?: string }> = []
  const seen = new EventEmitter()
  createInterface({ input: child.stdout }).on('line', line => {
    lines.push(JSON.parse(line))
    seen.emit('line')
  })
  const until = async (message: string, count = 1) => {
    for (;;) {
      const found = lines.filter(line => line.message === message)
      if (found.length >= count) return found[count - 1]?.status
      await once(seen, 'line')
    }
  }
  return { child, lines, until, exit: exitOf(child) }
}

async function exitOf(child: ChildProcess): Promise<unknown> {
  const [code, signal] = await once(child, 'close')
  return signal ?? code
}

const ask = (port: string | undefined, path = '/') =>
  new Promise<number | undefined>((resolve, reject) => {
    get(`http://127.0.0.1:${port?.replace('port ', '')}${path}`, response => {
      response.resume()
      resolve(response.statusCode)
    }).on('error', reject)
  })

t.test('a real process: ready, reload, drain', async t => {
  const d = spawned(t)
  const port = await d.until('ready')
  t.equal(await ask(port), 200)
  d.child.kill('SIGHUP')
  await d.until('not reloaded: the old configuration stays')
  d.child.kill('SIGHUP')
  await d.until('reloaded')
  t.equal(await ask(port), 200)
  d.child.kill('SIGTERM')
  t.equal(await d.exit, 0)
  t.match(d.lines.at(-1), { message: 'stopped' }, 'the last line arrives before the process ends')
})

t.test('a real process: a second signal, a crash, a reader of the log that goes away', async t => {
  const stuck = spawned(t, '--stuck')
  await stuck.until('ready')
  stuck.child.kill('SIGTERM')
  await stuck.until('stopping')
  stuck.child.kill('SIGTERM')
  t.equal(await stuck.exit, 1)

  const crashing = spawned(t)
  t.equal(await ask(await crashing.until('ready'), '/crash'), 200)
  t.equal(await crashing.exit, 1)
  t.match(
    crashing.lines.find(line => line.level === 'error'),
    { message: 'unhandled rejection', error: { message: 'on purpose', stack: /fixtures/ } },
  )

  const unread = spawned(t)
  const port = await unread.until('ready')
  unread.child.stdout.destroy()
  for (let i = 0; i < 3; i += 1) unread.child.kill('SIGHUP')
  t.equal(await ask(port), 200)
  unread.child.kill('SIGTERM')
  const [code] = await once(unread.child, 'exit')
  t.equal(code, 0, 'a broken pipe is no reason to fail')
})

t.test('a real process: a socket and a notification from the service manager', async t => {
  const directory = t.testdir({
    'systemd-notify': '#!/bin/sh\necho "$NOTIFY_SOCKET $*" >> "$(dirname "$0")/said"\n',
    said: '',
  })
  chmodSync(join(directory, 'systemd-notify'), 0o755)
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? String(address.port) : ''
  t.teardown(() => server.close())
  // A descriptor to hand over, as the service manager does; Node has no public name for it.
  const fd = Number(Reflect.get(Object(Reflect.get(server, '_handle')), 'fd'))
  const child = spawn(
    '/bin/sh',
    ['-c', 'LISTEN_PID=$$ exec "$0" "$@"', process.execPath, fixture],
    {
      env: {
        ...process.env,
        PATH: `${directory}${delimiter}${process.env['PATH']}`,
        NOTIFY_SOCKET: '@test',
        LISTEN_FDS: '1',
        LISTEN_FDNAMES: 'http',
      },
      stdio: ['ignore', 'pipe', 'inherit', fd],
    },
  )
  t.teardown(() => child.kill('SIGKILL'))
  const lines = createInterface({ input: child.stdout ?? process.stdin })
  await once(lines, 'line')
  server.close()
  t.equal(await ask(port), 200, 'the socket handed over is listened on')
  const said = () => readFileSync(join(directory, 'said'), 'utf8')
  const ready = `@test READY=1 STATUS=port ${port}\n`
  await until(() => said() === ready)
  child.kill('SIGHUP')
  const reloading = /^@test RELOADING=1 MONOTONIC_USEC=\d+\n@test READY=1 STATUS=reload failed/m
  await until(() => reloading.test(said()))
  child.kill('SIGTERM')
  t.equal(await exitOf(child), 0)
})
