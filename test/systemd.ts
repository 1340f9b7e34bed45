import { chmodSync, existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { createNotifier, inheritedSockets } from '../lib/systemd.ts'
import { createMemoryLog } from './fixtures/log/memory-log.ts'

t.test('sockets are taken only when they are meant for this process', t => {
  const both = { LISTEN_PID: '7', LISTEN_FDS: '2', LISTEN_FDNAMES: 'http:' }
  t.strictSame(inheritedSockets(both, 7), [
    { fd: 3, name: 'http' },
    { fd: 4, name: '' },
  ])
  t.strictSame(inheritedSockets({ LISTEN_PID: '7', LISTEN_FDS: '1' }, 7), [{ fd: 3, name: '' }])
  t.strictSame(inheritedSockets(both, 8), [])
  t.strictSame(inheritedSockets({}, 7), [])
  for (const LISTEN_FDS of ['0', '-1', 'x', '1.5', '999999999']) {
    t.strictSame(inheritedSockets({ LISTEN_PID: '7', LISTEN_FDS }, 7), [], LISTEN_FDS)
  }
  t.end()
})

/** A directory with a systemd-notify that writes down what it was told, or does what `body` says. */
function program(t: { testdir(files: Record<string, string>): string }, body = '') {
  const script = `#!/bin/sh\n${body}\nfor word; do echo "$word"; done >> "$(dirname "$0")/said"\n`
  const directory = t.testdir({ 'systemd-notify': script })
  chmodSync(join(directory, 'systemd-notify'), 0o755)
  const said = () =>
    existsSync(join(directory, 'said')) ? readFileSync(join(directory, 'said'), 'utf8') : ''
  return { said, environment: { PATH: `${directory}:/usr/bin:/bin`, NOTIFY_SOCKET: '/run/none' } }
}

t.test('messages arrive in their order, each on one line', async t => {
  const { said, environment } = program(t)
  const notifier = createNotifier(environment, 7, createMemoryLog())
  await Promise.all([
    notifier.ready('port 3142\nWATCHDOG=trigger'),
    notifier.reloading(),
    notifier.alive(),
    notifier.alive(),
    notifier.stopping('bye'),
  ])
  t.match(
    said(),
    /^READY=1\nSTATUS=port 3142 WATCHDOG=trigger\nRELOADING=1\nMONOTONIC_USEC=\d+\nWATCHDOG=1\nSTOPPING=1\nSTATUS=bye\n$/,
  )
})

t.test('nothing is started without a manager', async t => {
  const { said, environment } = program(t)
  const log = createMemoryLog()
  const notifier = createNotifier({ ...environment, NOTIFY_SOCKET: '' }, 7, log)
  await notifier.ready('x')
  await notifier.reloading()
  await notifier.stopping('x')
  await notifier.alive()
  t.equal(said(), '')
  t.equal(notifier.watchdog, undefined)
  t.strictSame(log.lines, [])
})

t.test('a manager that cannot be told is logged, a missing program once', async t => {
  const log = createMemoryLog()
  const failing = createNotifier(program(t, 'exit 1').environment, 7, log)
  await failing.ready('x')
  await failing.ready('x')
  t.equal(log.lines.length, 2)
  t.match(log.lines[0], { level: 'warn', message: /systemd-notify failed/ })
  const missing = createNotifier({ PATH: '/nowhere', NOTIFY_SOCKET: '@x' }, 7, log)
  await missing.ready('x')
  await missing.stopping('x')
  t.equal(log.lines.length, 3)
})

t.test('the watchdog wants a sign at half its interval', t => {
  const of = (environment: Record<string, string>) =>
    createNotifier({ NOTIFY_SOCKET: '@x', ...environment }, 7, createMemoryLog()).watchdog
  t.equal(of({ WATCHDOG_USEC: '60000000' }), 30_000)
  t.equal(of({ WATCHDOG_USEC: '60000000', WATCHDOG_PID: '7' }), 30_000)
  t.equal(of({ WATCHDOG_USEC: '60000000', WATCHDOG_PID: '8' }), undefined)
  t.equal(of({ WATCHDOG_USEC: 'x' }), undefined)
  t.equal(of({ WATCHDOG_USEC: '0' }), undefined)
  t.equal(of({}), undefined)
  t.end()
})
