/**
 * A proxy of this process for one job: it listens at a free port of the loopback, has its store in a directory, and says what its clients
 * asked for.
 */
import type { CommandAnswer } from '../../../admin-socket.ts'
import { keepAlive, type Milliseconds, systemClock } from '../../../async/clock.ts'
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
  readonly duration: Milliseconds
}

export type OwnProxy = Awaited<ReturnType<typeof openOwnProxy>>

/** Starts the proxy. Throws a Failure when it cannot, such as when another process has the store. */
export async function openOwnProxy(
  config: Config,
  log: Log,
  { startService }: Pick<CommandContext, 'startService'>,
) {
  const requests: JobRequest[] = []
  const service = await startService(config, {
    ...log,
    // The lines about requests are for the summary alone.
    info(message, facts = {}) {
      const { target, outcome, because, duration } = facts
      if (message !== 'request') log.info(message, facts)
      else if (outcome !== 'operations') {
        const words = { target: String(target), outcome: String(outcome) }
        requests.push({ ...words, because: String(because ?? ''), duration: Number(duration) })
      }
    },
  })
  const [{ address = '127.0.0.1', port = 0 } = {}] = service.listeners
  /** Runs a command of the service, as `cachesvc build` does. Throws a Failure when it fails, unless `mayFail`. */
  const ask = async (request: object, options?: { readonly mayFail: true }) => {
    const answer = await service.answer(request)
    if (!isAnswer(answer)) throw new Failure('the proxy does not answer', { code: 'job' })
    if (answer.code === exitCodes.success || options?.mayFail === true) return answer
    throw new Failure(answer.complaints.join(' '), { code: 'job' })
  }
  return {
    /** The place for clients on this machine, such as `127.0.0.1:40123`. */
    authority: formatAuthority({ host: address, port }),
    /** The requests that ended, in their order. Pages of the proxy itself are left out. */
    requests: requests as readonly JobRequest[],
    ask,
    /** The counts of all runs that had this store. */
    totals: async (): Promise<Counters> =>
      JSON.parse((await ask({ do: 'stats', json: true })).out).totals,
    /** Stops the service, and makes the store complete on disk. No client is left that a first step could serve. */
    async close() {
      for (const { stop, deadline, serves = false } of service.stop)
        if (!serves) await keepAlive(resultInTime(stop(), systemClock, deadline))
    },
  }
}

function isAnswer(answer: unknown): answer is CommandAnswer {
  return (
    isRecord(answer) && typeof answer['out'] === 'string' && Array.isArray(answer['complaints'])
  )
}
