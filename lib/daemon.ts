/**
 * The life of a daemon: start, ready, reload, stop. Knows signals, the service manager and the order of things; what is
 * started and stopped is told by the service.
 *
 * # Facts
 * - SIGTERM and SIGINT drain: the service's steps of stopping run in order, each with a deadline. A second one ends at once.
 * - SIGHUP reloads. A reload that has problems changes nothing; all of them are logged. One that comes during another is
 *   done after it, once however many came.
 * - An exception nobody caught, or a rejection nobody handled, ends the daemon with code 1: what state it left behind
 *   (a lock held, a file half written, a waiter forgotten) cannot be known, and the supervisor starts a clean one within a
 *   second. It ends in order and in seconds, though: running transfers get what time there is, statistics are saved.
 */
import { type Clock, type Milliseconds, systemClock } from './async/clock.ts'
import { Failure } from './errors.ts'
import type { Log } from './log/log.ts'
import { type ExitCode, exitCodes } from './program.ts'
import { createNotifier, type InheritedSocket, inheritedSockets, type Notifier } from './systemd.ts'

/** One step of stopping. */
export interface StopStep {
  /** What is being done, for the log: `finish running transfers`. */
  readonly name: string
  /** After so long the next step begins, whatever this one does. */
  readonly deadline: Milliseconds
  readonly stop: () => Promise<void>
}

/** A step that is told by a signal when its time is up, and then has one more second to end what it does. */
export function stopStep(
  name: string,
  deadline: Milliseconds,
  act: (deadline: AbortSignal) => Promise<unknown>,
): StopStep {
  return {
    name,
    deadline: deadline + 1000,
    stop: async () => {
      await act(AbortSignal.timeout(deadline))
    },
  }
}

/** A service that has been started. */
export interface Service {
  /** One line about it for the log and the service manager: `listening on 3142`. */
  readonly status: string
  /** The steps of stopping, in their order. */
  readonly stop: readonly StopStep[]
  /** Reads the configuration again. Answers what is wrong with it, and nothing when it has taken effect. */
  readonly reload: () => Promise<readonly string[]>
}

/** What a service is started with. */
export interface Start {
  /** Listening sockets the service manager opened; they take the place of configured addresses. */
  readonly sockets: readonly InheritedSocket[]
  /** Fires when the daemon is to stop, perhaps before it has started. */
  readonly signal: AbortSignal
}

/** The part of `process` a daemon listens to. */
export interface Signals {
  on(event: string, listener: (...facts: unknown[]) => void): unknown
  removeListener(event: string, listener: (...facts: unknown[]) => void): unknown
}

export interface DaemonOptions {
  readonly log: Log
  readonly start: (start: Start) => Promise<Service>
  readonly signals?: Signals
  readonly environment?: Readonly<Record<string, string | undefined>>
  readonly clock?: Clock
  readonly notifier?: Notifier
}

/** For a start that is under way when the daemon is told to stop. */
const START_GRACE = 10_000
const RELOAD_DEADLINE = 60_000
/** For all steps of stopping together after a crash. */
const CRASH_GRACE = 5_000

/** Runs a service until it is told to stop; answers the exit code. Never throws. */
export async function serve(options: DaemonOptions): Promise<ExitCode> {
  const { log } = options
  const environment = options.environment ?? process.env
  const signals: Signals = options.signals ?? process
  const clock = options.clock ?? systemClock
  const notifier = options.notifier ?? createNotifier(environment, process.pid, log)
  const sockets = inheritedSockets(environment, process.pid)
  const life = new Life(options, clock, notifier)
  // Our timers do not keep a process alive, and a service that waits for something may have nothing else open.
  const keepAlive = setInterval(() => undefined, 60_000)
  const listeners: ReadonlyArray<readonly [string, (...facts: unknown[]) => void]> = [
    ['SIGTERM', () => life.stop('SIGTERM')],
    ['SIGINT', () => life.stop('SIGINT')],
    ['SIGHUP', () => life.reload()],
    ['uncaughtException', error => life.crash('an exception nobody caught', error)],
    ['unhandledRejection', error => life.crash('a rejection nobody handled', error)],
  ]
  for (const [event, listener] of listeners) signals.on(event, listener)
  try {
    return await life.run(sockets)
  } finally {
    clearInterval(keepAlive)
    await log.flush()
    for (const [event, listener] of listeners) signals.removeListener(event, listener)
  }
}

class Life {
  readonly #options: DaemonOptions
  readonly #log: Log
  readonly #clock: Clock
  readonly #notifier: Notifier
  readonly #stopping = new AbortController()
  readonly #hurrying = new AbortController()
  #service: Service | undefined
  #crashed = false
  #reloading = false
  #reloadAgain = false

  constructor(options: DaemonOptions, clock: Clock, notifier: Notifier) {
    this.#options = options
    this.#log = options.log
    this.#clock = clock
    this.#notifier = notifier
  }

  async run(sockets: readonly InheritedSocket[]): Promise<ExitCode> {
    const signal = this.#stopping.signal
    try {
      const started = this.#options.start({ sockets, signal })
      // When the race below is lost, its failure is nobody's any more.
      started.catch(() => undefined)
      this.#service = await Promise.race([started, this.#startOverdue()])
    } catch (error) {
      this.#cannotStart(error)
      return exitCodes.failure
    }
    if (this.#service === undefined) {
      this.#log.warn('stopped before it had started')
      return this.#code()
    }
    if (!signal.aborted) {
      this.#log.info('ready', { status: this.#service.status })
      void this.#notifier.ready(this.#service.status)
      this.#watch()
      if (this.#reloadAgain) this.reload()
      await fired(signal)
    }
    await this.#stopInOrder(this.#service.stop)
    return this.#code()
  }

  /** What we foresaw is told in its own sentence; a trace is for what we did not. */
  #cannotStart(error: unknown): void {
    if (!(error instanceof Failure)) this.#log.error('cannot start', { error })
    else this.#log.error(`cannot start: ${error.message}`, { code: error.code, ...error.facts })
  }

  /** A first call begins to stop; a second one ends it. */
  stop(because: string): void {
    if (this.#stopping.signal.aborted) {
      this.#log.warn('stopping at once', { because })
      this.#hurrying.abort()
      return
    }
    this.#log.info('stopping', { because })
    void this.#notifier.stopping(`stopping: ${because}`)
    this.#stopping.abort()
  }

  crash(what: string, error: unknown): void {
    this.#log.error(what, { error })
    if (this.#crashed) return
    this.#crashed = true
    this.#clock.after(CRASH_GRACE, () => this.#hurrying.abort())
    if (!this.#stopping.signal.aborted) this.stop(what)
  }

  reload(): void {
    if (this.#stopping.signal.aborted) return
    if (this.#reloading || this.#service === undefined) {
      this.#reloadAgain = true
      return
    }
    this.#reloading = true
    this.#reloadOnce(this.#service)
      .catch(error => this.#log.error('not reloaded: the old configuration stays', { error }))
      .finally(() => {
        this.#reloading = false
        if (this.#reloadAgain) this.reload()
      })
      .catch(() => undefined)
  }

  async #reloadOnce(service: Service): Promise<void> {
    this.#reloadAgain = false
    void this.#notifier.reloading()
    let said = 'reload failed, the old configuration stays'
    try {
      const problems = await this.#within(RELOAD_DEADLINE, service.reload())
      if (problems === undefined) throw new Error(`no answer within ${RELOAD_DEADLINE / 1000} s`)
      for (const problem of problems) this.#log.error(problem)
      if (problems.length > 0) {
        this.#log.error('not reloaded: the old configuration stays', { problems: problems.length })
      } else {
        said = service.status
        this.#log.info('reloaded', { status: said })
      }
    } finally {
      // systemd waits for this after RELOADING=1 whatever became of it.
      if (!this.#stopping.signal.aborted) void this.#notifier.ready(said)
    }
  }

  async #stopInOrder(steps: readonly StopStep[]): Promise<void> {
    for (const step of steps) {
      if (this.#hurrying.signal.aborted) return
      const begun = this.#clock.now()
      try {
        const done = step.stop().then(() => true)
        const outcome = await this.#within(step.deadline, done)
        const facts = { step: step.name, duration: this.#clock.now() - begun }
        if (outcome === true) this.#log.debug('stopped', facts)
        else this.#log.warn('this step of stopping did not end in time', facts)
      } catch (error) {
        this.#log.error('this step of stopping failed', { step: step.name, error })
      }
    }
    this.#log.info('stopped')
  }

  /** The outcome of `work`; undefined after `deadline`, or as soon as there is no time to wait. */
  async #within<T>(deadline: Milliseconds, work: Promise<T>): Promise<T | undefined> {
    let cancel = () => {}
    const overdue = new Promise<undefined>(settle => {
      cancel = this.#clock.after(deadline, () => settle(undefined))
    })
    work.catch(() => undefined)
    try {
      return await Promise.race([work, overdue, fired(this.#hurrying.signal)])
    } finally {
      cancel()
    }
  }

  async #startOverdue(): Promise<undefined> {
    await fired(this.#stopping.signal)
    await this.#within(START_GRACE, new Promise<never>(() => undefined))
  }

  #watch(): void {
    const interval = this.#notifier.watchdog
    if (interval === undefined) return
    const beat = () => {
      void this.#notifier.alive()
      this.#clock.after(interval, beat)
    }
    beat()
  }

  #code(): ExitCode {
    const orderly = !this.#crashed && !this.#hurrying.signal.aborted
    return orderly ? exitCodes.success : exitCodes.failure
  }
}

function fired(signal: AbortSignal): Promise<undefined> {
  return new Promise(settle => {
    if (signal.aborted) settle(undefined)
    else signal.addEventListener('abort', () => settle(undefined), { once: true })
  })
}
