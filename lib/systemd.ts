/**
 * Talks to systemd: tells it that the service is ready (sd_notify), and takes the listening sockets it opened (LISTEN_FDS,
 * sd_listen_fds(3)).
 *
 * # Facts
 * - sd_notify is a datagram to a Unix socket, and Node has no Unix datagram sockets. systemd ships a program that sends it: systemd-notify.
 *   The message then comes from a child of ours, so the unit needs `NotifyAccess=all`.
 * - The program returns when the manager has read the message (a barrier), so messages sent one after the other arrive in order.
 * - Without NOTIFY_SOCKET no message is sent and no program is started. A missing program is logged once, and each failure is logged. The
 *   service continues, as it would under any other supervisor.
 */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { systemCode } from './errors.ts'
import type { Logger } from './log/log.ts'

type Environment = Readonly<Record<string, string | undefined>>

/** A listening socket that was open before this process started. */
export interface InheritedSocket {
  readonly fd: number
  /** `FileDescriptorName=` of the socket unit; empty when it has none. */
  readonly name: string
}

/** Tells the service manager the state of this service. Every method settles within seconds and never rejects. */
export interface Notifier {
  /** Says that the service is ready, or that a reload has ended. `systemctl status` shows `status`. */
  ready(status: string): Promise<void>
  reloading(): Promise<void>
  stopping(status: string): Promise<void>
  /** Interval at which `alive` is to be called, in milliseconds; undefined without a watchdog. */
  readonly watchdog: number | undefined
  /** Says that the service is alive. Does nothing while the previous call is under way. */
  alive(): Promise<void>
}

/** The first descriptor handed over: SD_LISTEN_FDS_START. */
const FIRST_FD = 3

const PROGRAM = 'systemd-notify'
const LONGEST_RUN = 5000

/** The sockets that systemd opened for this process; none when the variables are meant for another one. */
export function inheritedSockets(
  environment: Environment,
  pid: number,
): readonly InheritedSocket[] {
  if (environment['LISTEN_PID'] !== String(pid)) return []
  const count = Number(environment['LISTEN_FDS'])
  if (!Number.isInteger(count) || count < 1 || count > 1024) return []
  const names = environment['LISTEN_FDNAMES']?.split(':') ?? []
  return Array.from({ length: count }, (_, i) => ({ fd: FIRST_FD + i, name: names[i] ?? '' }))
}

/** A notifier for the manager named in NOTIFY_SOCKET. Without that it does nothing. */
export function createNotifier(environment: Environment, pid: number, log: Logger): Notifier {
  const { PATH = '/usr/bin:/bin', NOTIFY_SOCKET } = environment
  // NOTIFY_SOCKET is a path or, with "@", an abstract name. systemd-notify understands both, and vsock as well.
  const managed = (NOTIFY_SOCKET ?? '') !== ''
  let silent = !managed
  const options = {
    env: { PATH, NOTIFY_SOCKET },
    timeout: LONGEST_RUN,
    killSignal: 'SIGKILL',
  } as const
  let last: Promise<void> = Promise.resolve()
  let alive: Promise<void> | undefined
  const send = (...assignments: readonly string[]): Promise<void> => {
    last = last.then(async () => {
      if (silent) return
      try {
        await promisify(execFile)(PROGRAM, assignments, options)
      } catch (error) {
        // A run that was only slow may succeed next time; a missing program stays missing.
        silent = systemCode(error) === 'ENOENT'
        log.warn(`${PROGRAM} failed; the service manager has not heard of us`, { error })
      }
    })
    return last
  }

  return {
    ready: status => send('READY=1', `STATUS=${oneLine(status)}`),
    // hrtime reads CLOCK_MONOTONIC on Linux. Type=notify-reload uses this time to pair the messages.
    reloading: () => send('RELOADING=1', `MONOTONIC_USEC=${process.hrtime.bigint() / 1000n}`),
    stopping: status => send('STOPPING=1', `STATUS=${oneLine(status)}`),
    watchdog: managed ? watchdogInterval(environment, pid) : undefined,
    alive() {
      alive ??= send('WATCHDOG=1').finally(() => {
        alive = undefined
      })
      return alive
    },
  }
}

/** Half of WATCHDOG_USEC, as sd_watchdog_enabled(3) advises. */
function watchdogInterval(environment: Environment, pid: number): number | undefined {
  const meant = environment['WATCHDOG_PID']
  if (meant !== undefined && meant !== String(pid)) return undefined
  const interval = Number(environment['WATCHDOG_USEC']) / 2000
  return Number.isFinite(interval) && interval >= 1 ? Math.min(interval, 2 ** 31 - 1) : undefined
}

function oneLine(status: string): string {
  return status.replace(/\s+/g, ' ').slice(0, 200)
}
