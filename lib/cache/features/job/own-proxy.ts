/**
 * A proxy of this process for one job: it listens at a free port of the loopback, has its store in a directory, and says what its clients
 * asked for.
 */
import type { CommandAnswer } from '../../../admin-socket.ts'
import { type Clock, keepAlive, type Milliseconds } from '../../../async/clock.ts'
import { resultInTime } from '../../../async/deadline.ts'
import { Failure } from '../../../errors.ts'
import { formatAuthority } from '../../../http/message/target.ts'
import { isRecord } from '../../../json.ts'
import type { Log } from '../../../log/log.ts'
import { exitCodes } from '../../../program.ts'
import type { Config } from '../../config/config.ts'
import type { Counters } from '../../stats/statistics.ts'
import type { CommandContext } from '../feature.ts'

/** A request of the job, from the facts of the access log. */
export interface JobRequest {
  readonly target: string
  readonly outcome: string
  readonly because: string
  readonly status: number
  readonly duration: Milliseconds
}

export interface OwnProxy {
  /** The place for clients on this machine, such as `127.0.0.1:40123`. */
  readonly authority: string
  /** The requests that ended, in their order. Pages of the proxy itself are left out. */
  readonly requests: readonly JobRequest[]
  /** Runs a command of the service, as `cachesvc build` does. Throws a Failure when it fails, unless `mayFail`. */
  ask(request: object, options?: { readonly mayFail: true }): Promise<CommandAnswer>
  /** The counts of all runs that had this store. */
  totals(): Promise<Counters>
  /** Stops the service, and makes the store complete on disk. */
  close(): Promise<void>
}

/** Starts the proxy. Throws a Failure when it cannot, such as when another process has the store. */
export async function openOwnProxy(
  config: Config,
  {
    log,
    clock,
    startService,
  }: Pick<CommandContext, 'startService'> & {
    readonly log: Log
    readonly clock: Clock
  },
): Promise<OwnProxy> {
  const requests: JobRequest[] = []
  const service = await startService(config, noting(log, requests))
  const [{ address = '127.0.0.1', port = 0 } = {}] = service.listeners
  const ask: OwnProxy['ask'] = async (request, options) => {
    const answer = await service.answer(request)
    if (!isAnswer(answer)) throw new Failure('the proxy does not answer', { code: 'job' })
    if (answer.code !== exitCodes.success && options?.mayFail !== true) {
      throw new Failure(answer.complaints.join(' '), { code: 'job' })
    }
    return answer
  }
  return {
    authority: formatAuthority({ host: address, port }),
    requests,
    ask,
    async totals() {
      const { out } = await ask({ do: 'stats', json: true })
      return JSON.parse(out).totals
    },
    async close() {
      for (const { stop, deadline, serves = false } of service.stop) {
        // No client is left that a first step could serve.
        if (!serves) await keepAlive(resultInTime(stop(), clock, deadline))
      }
    },
  }
}

function isAnswer(answer: unknown): answer is CommandAnswer {
  return (
    isRecord(answer) && typeof answer['out'] === 'string' && Array.isArray(answer['complaints'])
  )
}

/** A log that keeps lines about requests to itself. */
function noting(log: Log, requests: JobRequest[]): Log {
  return {
    ...log,
    info(message, facts = {}) {
      if (message !== 'request') return log.info(message, facts)
      const { target, outcome, because, status, duration } = facts
      if (outcome === 'operations') return
      requests.push({
        target: String(target),
        outcome: String(outcome),
        because: String(because ?? ''),
        status: Number(status),
        duration: Number(duration),
      })
    },
  }
}
