/**
 * Starts, reloads and stops a daemon as signals ask for it, and tells the service manager.
 *
 * # Facts
 * - SIGTERM and SIGINT drain: the service's steps of stopping run in order, each with a deadline. A second one ends at once.
 *   The first step may go on serving all clients until what is under way has ended.
 * - SIGHUP reloads, and so does a command that asks for it. A reload that has problems changes nothing and logs them all. What
 *   comes during a reload leads to one more after it.
 * - An uncaught exception or an unhandled rejection ends the daemon with code 1: what state it left behind cannot be known, and
 *   the supervisor starts a clean one within a second. It still stops in order, within seconds: statistics are saved.
 */
import type { EventEmitter } from 'node:events'
import { setFlagsFromString } from 'node:v8'
import { type Clock, keepAlive, type Milliseconds, systemClock } from './async/clock.ts'
import { inTime, pause } from './async/deadline.ts'
import { explainError, Failure, systemCode } from './errors.ts'
import type { Log } from './log/log.ts'
import { type ExitCode, exitCodes } from './program.ts'
import { createNotifier, type InheritedSocket, inheritedSockets, type Notifier } from './systemd.ts'

/** One step of stopping. */
export interface StopStep {
  /** For the log: `finish running transfers`. */
  readonly name: string
  /** After so long the next step begins. */
  readonly deadline: Milliseconds
  readonly stop: () => Promise<void>
  /** Whether it takes new clients meanwhile; left out after a crash. */
  readonly serves?: true
}

/** A step that gets a signal when its time is up, and one more second after it. */
export function stopStep(
  name: string,
  deadline: Milliseconds,
  act: (deadline: AbortSignal) => Promise<unknown>,
): StopStep {
  const stop = async () => void (await act(AbortSignal.timeout(deadline)))
  return { name, deadline: deadline + 1000, stop }
}

/** A service that has been started. */
export interface Service {
  /** One line about it for the log and the service manager: `listening on 3142`. */
  readonly status: string
  /** The steps of stopping, in their order. */
  readonly stop: readonly StopStep[]
  readonly reload: Reload
}

/** What a service is started with. */
export interface Start {
  /** Listening sockets the service manager opened; they take the place of configured addresses. */
  readonly sockets: readonly InheritedSocket[]
  /** Fires when the daemon is to stop, perhaps before it has started. */
  readonly signal: AbortSignal
}

/** Reads the configuration again, as after SIGHUP. Answers what is wrong with it; nothing when it has taken effect. */
export type Reload = () => Promise<readonly string[]>

export interface DaemonOptions {
  readonly log: Log
  /** Starts the service. It may call `reload` once it runs. */
  readonly start: (start: Start, reload: Reload) => Promise<Service>
  /** Where signals and uncaught errors come from: the process, unless given. */
  readonly signals?: EventEmitter
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
  const { log, start, environment = process.env, clock = systemClock } = options
  const signals: EventEmitter = options.signals ?? process
  const notifier = options.notifier ?? createNotifier(environment, process.pid, log)
  // What V8 learns while clients are slow would hold for all requests after them (docs/decisions/0036).
  setFlagsFromString('--no-allocation-site-pretenuring')
  const life = new Life({ log, start, clock, notifier })
  const listeners = Object.entries({
    SIGTERM: () => life.stop('SIGTERM'),
    SIGINT: () => life.stop('SIGINT'),
    SIGHUP: () => void life.reload(),
    uncaughtException: (error: unknown) => life.crash('uncaught exception', error),
    unhandledRejection: (error: unknown) => life.crash('unhandled rejection', error),
  })
  for (const [event, listener] of listeners) signals.on(event, listener)
  try {
    // A service that waits may have nothing open.
    return await keepAlive(life.run(inheritedSockets(environment, process.pid)))
  } finally {
    await log.flush()
    for (const [event, listener] of listeners) signals.removeListener(event, listener)
  }
}

function factsOf({ code, cause, facts }: Failure) {
  return { code, ...(cause === undefined ? {} : { because: explainError(cause) }), ...facts }
}

/** Causes that do not go away by themselves: a port that another program has, a file where a directory is to be. */
const lastingCauses = ['EADDRINUSE', 'ENOTDIR', 'EEXIST']

/** What does not go away by itself is like a wrong configuration: no reason for the supervisor to try again. */
function failedStart(error: unknown): ExitCode {
  const lasts =
    error instanceof Failure &&
    (error.lasting || lastingCauses.includes(systemCode(error.cause) ?? ''))
  return lasts ? exitCodes.configuration : exitCodes.failure
}

type LifeParts = Required<Pick<DaemonOptions, 'log' | 'start' | 'clock' | 'notifier'>>

/** A daemon from its start to its end: `run` starts the service and answers when it has stopped; the others come from signals. */
class Life {
  readonly #parts: LifeParts
  readonly #stopping = new AbortController()
  readonly #hurrying = new AbortController()
  /** Settles when the daemon is to end at once. */
  readonly #hurried: Promise<undefined>
  #service: Service | undefined
  #crashed = false
  /** Called when the service has begun to run. */
  #begun = (): void => {}
  /** The start or the reload that is under way or over. */
  #last: Promise<unknown> = new Promise<void>(resolve => {
    this.#begun = resolve
  })
  #next: ReturnType<Reload> | undefined

  constructor(parts: LifeParts) {
    this.#parts = parts
    this.#hurried = this.#fired(this.#hurrying.signal).then(() => undefined)
  }

  async run(sockets: readonly InheritedSocket[]): Promise<ExitCode> {
    const { log, start, notifier } = this.#parts
    const { signal } = this.#stopping
    try {
      const started = start({ sockets, signal }, () => this.reload())
      // When the daemon is told to stop first, a later failure of the start is not reported.
      started.catch(() => undefined)
      this.#service = await Promise.race([started, this.#startOverdue()])
    } catch (error) {
      // An expected failure has its own sentence; others are logged with a trace.
      if (!(error instanceof Failure)) log.error('cannot start', { error })
      else log.error(`cannot start: ${error.message}`, factsOf(error))
      return failedStart(error)
    }
    if (this.#service === undefined) {
      log.warn('stopped before it had started')
      return this.#code()
    }
    if (!signal.aborted) {
      log.info('ready', { status: this.#service.status })
      void notifier.ready(this.#service.status)
      this.#beat()
      this.#begun()
      await this.#fired(signal)
    }
    await this.#stopInOrder(this.#service.stop)
    return this.#code()
  }

  /** The first call begins to stop; the second ends at once. */
  stop(because: string): void {
    const { log, notifier } = this.#parts
    if (this.#stopping.signal.aborted) {
      log.warn('stopping at once', { because })
      this.#hurrying.abort()
      return
    }
    log.info('stopping', { because })
    void notifier.stopping(`stopping: ${because}`)
    this.#stopping.abort()
  }

  crash(what: string, error: unknown): void {
    const { log, clock } = this.#parts
    log.error(what, { error })
    if (this.#crashed) return
    this.#crashed = true
    clock.after(CRASH_GRACE, () => this.#hurrying.abort())
    if (!this.#stopping.signal.aborted) this.stop(what)
  }

  /** Reloads after the start or the reload under way, once for all calls that come until then. Never rejects. */
  reload(): Promise<readonly string[]> {
    this.#next ??= this.#last.then(() => {
      this.#next = undefined
      return this.#reloadOnce()
    })
    this.#last = this.#next
    return this.#next
  }

  async #reloadOnce(): Promise<readonly string[]> {
    if (this.#service === undefined || this.#stopping.signal.aborted) return ['the service stops']
    const { log, notifier } = this.#parts
    void notifier.reloading()
    let status = 'reload failed, the old configuration stays'
    let problems: readonly string[]
    try {
      const found = await this.#within(RELOAD_DEADLINE, this.#service.reload())
      if (found === undefined) throw new Error(`no answer within ${RELOAD_DEADLINE / 1000} s`)
      problems = found
      for (const problem of problems) log.error(problem)
      if (problems.length > 0) {
        log.error('not reloaded: the old configuration stays', { problems: problems.length })
      } else {
        status = this.#service.status
        log.info('reloaded', { status })
      }
    } catch (error) {
      problems = [explainError(error)]
      log.error('not reloaded: the old configuration stays', { error })
    }
    // systemd waits for this after RELOADING=1, also after a reload that failed.
    if (!this.#stopping.signal.aborted) void notifier.ready(status)
    return problems
  }

  async #stopInOrder(steps: readonly StopStep[]): Promise<void> {
    const { log, clock } = this.#parts
    for (const { name: step, deadline, stop, serves = false } of steps) {
      if (this.#hurrying.signal.aborted) return
      if (serves && this.#crashed) continue
      const begun = clock.now()
      try {
        const done = await this.#within(
          deadline,
          stop().then(() => true),
        )
        const facts = { step, duration: clock.now() - begun }
        if (done === true) log.debug('stopped', facts)
        else log.warn('this step of stopping did not end in time', facts)
      } catch (error) {
        log.error('this step of stopping failed', { step, error })
      }
    }
    log.info('stopped')
  }

  /** The outcome of `work`; undefined after `deadline`, or at once when the daemon is to end at once. */
  #within<T>(deadline: Milliseconds, work: Promise<T>): Promise<T | undefined> {
    return Promise.race([inTime(work, this.#parts.clock, deadline), this.#hurried])
  }

  /** Settles when a start that is still under way is no longer waited for. */
  async #startOverdue(): Promise<undefined> {
    await this.#fired(this.#stopping.signal)
    await pause(this.#parts.clock, START_GRACE, this.#hurrying.signal)
  }

  #fired(signal: AbortSignal): Promise<void> {
    return pause(this.#parts.clock, Number.POSITIVE_INFINITY, signal)
  }

  /** Tells the watchdog of the service manager, if there is one, that the daemon is alive. */
  #beat(): void {
    const { notifier, clock } = this.#parts
    if (notifier.watchdog === undefined) return
    void notifier.alive()
    clock.after(notifier.watchdog, () => this.#beat())
  }

  #code(): ExitCode {
    return this.#crashed || this.#hurrying.signal.aborted ? exitCodes.failure : exitCodes.success
  }
}
