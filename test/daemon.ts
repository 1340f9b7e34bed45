import { EventEmitter } from 'node:events'
import t from 'tap'
import { type DaemonOptions, type Service, serve } from '../lib/daemon.ts'
import { Failure } from '../lib/errors.ts'
import type { Notifier } from '../lib/systemd.ts'
import { createMemoryLog } from './fixtures/log/memory-log.ts'
import { ManualClock } from './fixtures/time/manual-clock.ts'

function recordingNotifier(watchdog?: number) {
  const said: string[] = []
  const say = (word: string) => async (status?: string) => {
    said.push(status === undefined ? word : `${word}: ${status}`)
  }
  const notifier: Notifier = {
    ready: say('ready'),
    reloading: say('reloading'),
    stopping: say('stopping'),
    alive: say('alive'),
    watchdog,
  }
  return { said, notifier }
}

/** A daemon in this process, its signals sent by hand and its clock turned by hand. */
function daemon(service: Partial<Service>, options: Partial<DaemonOptions> = {}) {
  const log = createMemoryLog()
  const signals = new EventEmitter()
  const clock = new ManualClock(0)
  const { said, notifier } = recordingNotifier()
  const whole = { status: 'here', stop: [], reload: async () => [], ...service }
  const start = async () => whole
  const code = serve({ log, signals, clock, notifier, environment: {}, start, ...options })
  return { log, signals, clock, said, code, messages: () => log.lines.map(line => line.message) }
}

/** Lets everything that is ready to run, run. */
const settle = () => new Promise(resolve => setImmediate(resolve))

t.test(
  'what does not mend itself ends with 78, so that the supervisor does not try again',
  async t => {
    const causedBy = (code: string) => {
      const cause = Object.assign(new Error('x'), { code })
      return () => Promise.reject(new Failure('cannot start', { code: 'START', cause }))
    }
    for (const code of ['EADDRINUSE', 'ENOTDIR', 'EEXIST']) {
      t.equal(await daemon({}, { start: causedBy(code) }).code, 78, code)
    }
    for (const code of ['EACCES', 'ENOENT', 'EROFS', 'EADDRNOTAVAIL']) {
      t.equal(
        await daemon({}, { start: causedBy(code) }).code,
        1,
        `${code}: a disk or an address may come late`,
      )
    }
    const newer = () => Promise.reject(new Failure('too new', { code: 'NEW', lasting: true }))
    t.equal(await daemon({}, { start: newer }).code, 78)
    const other = () => Promise.reject(new Failure('cannot start', { code: 'OTHER' }))
    t.equal(await daemon({}, { start: other }).code, 1)
  },
)

t.test('steps of stopping run in order, each within its deadline', async t => {
  const done: string[] = []
  const d = daemon({
    stop: [
      { name: 'first', deadline: 1000, stop: async () => void done.push('first') },
      { name: 'stuck', deadline: 5000, stop: () => new Promise(() => done.push('stuck')) },
      { name: 'broken', deadline: 1000, stop: async () => Promise.reject(new Error('disk')) },
      { name: 'last', deadline: 1000, stop: async () => void done.push('last') },
    ],
  })
  await settle()
  d.signals.emit('SIGTERM')
  await settle()
  t.strictSame(done, ['first', 'stuck'])
  d.clock.advance(5000)
  t.equal(await d.code, 0)
  t.strictSame(done, ['first', 'stuck', 'last'])
  t.match(d.log.lines, [
    { message: 'ready' },
    { message: 'stopping', facts: { because: 'SIGTERM' } },
    { message: 'stopped', facts: { step: 'first' } },
    { level: 'warn', facts: { step: 'stuck', duration: 5000 } },
    { level: 'error', facts: { step: 'broken', error: { message: 'disk' } } },
    { message: 'stopped', facts: { step: 'last' } },
    { message: 'stopped' },
  ])
  t.strictSame(d.said, ['ready: here', 'stopping: stopping: SIGTERM'])
  t.strictSame(d.signals.eventNames(), [], 'nobody listens any more')
})

t.test('a second signal ends at once, with a failure', async t => {
  const d = daemon({
    stop: [{ name: 'stuck', deadline: 60_000, stop: () => new Promise(() => undefined) }],
  })
  await settle()
  d.signals.emit('SIGINT')
  await settle()
  d.signals.emit('SIGTERM')
  t.equal(await d.code, 1)
  t.match(d.messages(), ['ready', 'stopping', 'stopping at once'])
})

t.test('an uncaught exception ends the daemon in order and in seconds', async t => {
  const done: string[] = []
  const d = daemon({
    stop: [
      { name: 'save', deadline: 1000, stop: async () => void done.push('save') },
      { name: 'stuck', deadline: 60_000, stop: () => new Promise(() => undefined) },
    ],
  })
  await settle()
  d.signals.emit('unhandledRejection', new Error('first'))
  d.signals.emit('uncaughtException', new Error('second'))
  await settle()
  t.strictSame(done, ['save'])
  d.clock.advance(5000)
  t.equal(await d.code, 1)
  const errors = d.log.lines.filter(({ level }) => level === 'error')
  t.match(errors, [
    {
      message: 'unhandled rejection',
      facts: { error: { message: 'first', stack: /daemon/ } },
    },
    { message: 'uncaught exception', facts: { error: { message: 'second' } } },
  ])
})

t.test('a reload with problems changes nothing and tells all of them', async t => {
  const outcomes = [['f.yaml:1:1: a', 'f.yaml:2:1: b'], [], new Error('lost')]
  const d = daemon({
    async reload() {
      const outcome = outcomes.shift()
      if (outcome instanceof Error) throw outcome
      return outcome ?? []
    },
  })
  await settle()
  for (let i = 0; i < 3; i += 1) {
    d.signals.emit('SIGHUP')
    await settle()
  }
  t.match(d.messages(), [
    'ready',
    'f.yaml:1:1: a',
    'f.yaml:2:1: b',
    'not reloaded: the old configuration stays',
    'reloaded',
    'not reloaded: the old configuration stays',
  ])
  const failed = 'ready: reload failed, the old configuration stays'
  t.strictSame(d.said, [
    'ready: here',
    'reloading',
    failed,
    'reloading',
    'ready: here',
    'reloading',
    failed,
  ])
  d.signals.emit('SIGTERM')
  t.equal(await d.code, 0)
})

t.test('reloads that come during one are one more, and a stuck one is given up', async t => {
  let begun = 0
  const waiting: Array<(problems: readonly string[]) => void> = []
  const signals: (AbortSignal | undefined)[] = []
  const d = daemon({
    reload: givenUp => {
      begun += 1
      signals.push(givenUp)
      return new Promise(resolve => waiting.push(resolve))
    },
  })
  await settle()
  for (let i = 0; i < 3; i += 1) d.signals.emit('SIGHUP')
  await settle()
  t.equal(begun, 1, 'what comes before it begins is part of it')
  for (let i = 0; i < 5; i += 1) d.signals.emit('SIGHUP')
  await settle()
  t.equal(begun, 1)
  waiting[0]?.([])
  await settle()
  t.equal(begun, 2)
  d.clock.advance(50_000)
  await settle()
  t.match(d.log.lines.at(-1), {
    level: 'error',
    facts: { error: { message: /no answer within 50 s/ } },
  })
  t.same(
    signals.map(givenUp => givenUp?.aborted),
    [false, true],
    'it takes no effect later',
  )
  d.signals.emit('SIGTERM')
  d.signals.emit('SIGHUP')
  t.equal(await d.code, 0)
  t.equal(begun, 2, 'no reload while stopping')
})

t.test('a service can ask for a reload, and learns what is wrong', async t => {
  const answers = [['f.yaml:1:1: wrong'], []]
  const asked: Promise<readonly string[]>[] = []
  const d = daemon(
    {},
    {
      start: async (_start, ask) => {
        asked.push(ask())
        const reload = async () => {
          if (asked.length === 1) asked.push(ask())
          return answers.shift() ?? []
        }
        return { status: 'here', stop: [], reload }
      },
    },
  )
  await settle()
  t.strictSame(await asked[0], ['f.yaml:1:1: wrong'], 'asked before the start was over')
  t.strictSame(await asked[1], [], 'asked during a reload')
  d.signals.emit('SIGTERM')
  t.equal(await d.code, 0)
})

t.test('a start that fails, and one that is told to stop', async t => {
  const failing = daemon({}, { start: () => Promise.reject(new Error('address in use')) })
  t.equal(await failing.code, 1)
  t.match(failing.log.lines, [
    { message: 'cannot start', facts: { error: { message: 'address in use' } } },
  ])

  const publicText = 'No.'
  const cause = new Error('EADDRINUSE')
  const foreseen = { code: 'LISTEN', fault: 'internal', publicText, cause } as const
  const refused = daemon({}, { start: () => Promise.reject(new Failure('port taken', foreseen)) })
  t.equal(await refused.code, 1)
  t.strictSame(
    refused.log.lines,
    [
      {
        level: 'error',
        message: 'cannot start: port taken',
        facts: { code: 'LISTEN', because: 'EADDRINUSE' },
      },
    ],
    'one sentence, its reason, and no trace for what was foreseen',
  )

  let aborted = false
  const stuck = daemon(
    {},
    {
      start: ({ signal }) => {
        signal.addEventListener('abort', () => {
          aborted = true
        })
        return new Promise(() => undefined)
      },
    },
  )
  stuck.signals.emit('SIGTERM')
  await settle()
  t.ok(aborted)
  stuck.clock.advance(10_000)
  t.equal(await stuck.code, 0)
  t.match(stuck.messages(), ['stopping', 'stopped before it had started'])

  const stopped: string[] = []
  let started: (service: Service) => void = () => undefined
  const late = daemon({}, { start: () => new Promise(resolve => (started = resolve)) })
  late.signals.emit('SIGHUP')
  late.signals.emit('SIGTERM')
  await settle()
  const stop = [{ name: 'x', deadline: 1, stop: async () => void stopped.push('x') }]
  started({ status: 's', reload: async () => [], stop })
  t.equal(await late.code, 0)
  t.strictSame(stopped, ['x'], 'what had been started is stopped')
  t.notOk(late.messages().includes('ready'))
})

t.test('the watchdog is fed on time', async t => {
  const { said, notifier } = recordingNotifier(1000)
  const d = daemon({}, { notifier })
  await settle()
  d.clock.advance(3000)
  t.equal(said.filter(word => word === 'alive').length, 4)
  d.signals.emit('SIGTERM')
  await d.code
})
