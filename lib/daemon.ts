/**
 * Starts, reloads and stops a daemon when signals ask for it, and informs the service manager.
 *
 * # Facts
 * - SIGTERM and SIGINT drain: the service's steps of stopping run in order, each with a deadline. A second signal ends the daemon at once.
 *   The first step may still serve all clients until the requests under way have ended.
 * - SIGHUP reloads, and so does a command. A reload that has problems changes nothing and logs them all. All requests for a reload during one lead to
 *   one more after it.
 * - An uncaught exception or an unhandled rejection ends the daemon with code 1: its state is unknown, and the supervisor starts a clean
 *   one within a second. The daemon still stops in order, within seconds, so that statistics are saved.
 */
import type { EventEmitter } from 'node:events'
import { setFlagsFromString } from 'node:v8'
import { type Clock, keepAlive, type Milliseconds, systemClock } from './async/clock.ts'
import { pause, resultInTime } from './async/deadline.ts'
import { explainError, Failure, systemCode } from './errors.ts'
import type { Log } from './log/log.ts'
import { type ExitCode, exitCodes } from './program.ts'
import { createNotifier, type InheritedSocket, inheritedSockets, type Notifier } from './systemd.ts'

export interface StopStep {
  /** The name for the log: `finish running transfers`. */
  readonly name: string
  /** The next step begins after this time at the latest. */
  readonly deadline: Milliseconds
  readonly stop: () => Promise<void>
  /** Whether it takes new clients meanwhile. After a crash such a step is left out. */
  readonly serves?: true
}

/** A step that gets a signal when its time is up. The next step begins a second later at the latest. */
export function stopStep(
  name: string,
  deadline: Milliseconds,
  act: (deadline: AbortSignal) => Promise<unknown>,
): StopStep {
  const stop = async () => void (await act(AbortSignal.timeout(deadline)))
  return { name, deadline: deadline + 1000, stop }
}

export interface Service {
  /** One line about it for the log and the service manager: `listening on 3142`. */
  readonly status: string
  /** The steps of stopping, in their order. */
  readonly stop: readonly StopStep[]
  readonly reload: Reload
}

export interface Start {
  /** Listening sockets that the service manager opened. They replace the configured addresses. */
  readonly sockets: readonly InheritedSocket[]
  /** Fires when the daemon is to stop, perhaps before it has started. */
  readonly signal: AbortSignal
}

/**
 * Reads the configuration again, as after SIGHUP. Returns its problems; an empty list when the configuration has taken effect. After
 * `givenUp` has fired nothing takes effect, and it rejects.
 */
export type Reload = (givenUp?: AbortSignal) => Promise<readonly string[]>

export interface DaemonOptions {
  readonly log: Log
  /** Starts the service. It may call `reload` once it runs. */
  readonly start: (start: Start, reload: Reload) => Promise<Service>
  /** The source of signals and uncaught errors; the process if undefined. */
  readonly signals?: EventEmitter
  readonly environment?: Readonly<Record<string, string | undefined>>
  readonly clock?: Clock
  readonly notifier?: Notifier
}

/** The time for a start that is under way when the daemon is to stop. */
const START_GRACE = 10_000
/** Shorter than the time for which a command waits for its answer (admin-socket.ts), so that the command says what happened to the reload. */
const RELOAD_DEADLINE = 50_000
/** The time for all steps of stopping together after a crash. */
const CRASH_GRACE = 5_000

/** Runs a service until it is to stop, and returns the exit code. Never throws. */
export async function serve(options: DaemonOptions): Promise<ExitCode> {
  const { log, start, environment = process.env, clock = systemClock } = options
  const signals: EventEmitter = options.signals ?? process
  const notifier = options.notifier ?? createNotifier(environment, process.pid, log)
  // Without this flag V8 would keep decisions that it made while clients were slow, for all later requests (docs/decisions/0036).
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

/** Causes that last until a person acts: a port that another program uses, or a file instead of a directory. */
const lastingCauses = ['EADDRINUSE', 'ENOTDIR', 'EEXIST']

/** A lasting cause gets the exit code of a wrong configuration, so the supervisor does not try again. */
function failedStart(error: unknown): ExitCode {
  const lasts =
    error instanceof Failure &&
    (error.lasting || lastingCauses.includes(systemCode(error.cause) ?? ''))
  return lasts ? exitCodes.configuration : exitCodes.failure
}

type LifeParts = Required<Pick<DaemonOptions, 'log' | 'start' | 'clock' | 'notifier'>>

/** A daemon from its start to its end. `run` starts the service and returns when it has stopped; signals call the other methods. */
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
  /** The latest start or reload, under way or over. */
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
      // When the daemon is to stop first, a later failure of the start is not reported.
      started.catch(() => undefined)
      this.#service = await Promise.race([started, this.#startOverdue()])
    } catch (error) {
      // An expected failure has its own sentence; other errors are logged with a trace.
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

  /** The first call begins to stop; the second ends the daemon at once. */
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

  /** Reloads after the start or the reload under way, once for all calls until then. Never rejects. */
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
    const giveUp = new AbortController()
    try {
      const found = await this.#within(RELOAD_DEADLINE, this.#service.reload(giveUp.signal))
      if (found === undefined) {
        throw new Error(`no answer within ${RELOAD_DEADLINE / 1000} s, so this reload is given up`)
      }
      problems = found
      for (const problem of problems) log.error(problem)
      if (problems.length > 0) {
        log.error('not reloaded: the old configuration stays', { problems: problems.length })
      } else {
        status = this.#service.status
        log.info('reloaded', { status })
      }
    } catch (error) {
      // The operator sees that it failed, and a later reload may bring a newer configuration.
      giveUp.abort()
      problems = [explainError(error)]
      log.error('not reloaded: the old configuration stays', { error })
    }
    // systemd waits for this after RELOADING=1, also when the reload failed.
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
    return Promise.race([resultInTime(work, this.#parts.clock, deadline), this.#hurried])
  }

  /** Settles when a start under way has used up its time after the daemon was to stop. */
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
