/**
 * Checks the shared store: its latency, its clock, whether it keeps its data over a restart, which data it drops when it is
 * full, and whether the user of authproxy has more rights than it needs. The client of the store is loaded when one is
 * configured.
 */
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { resultInTime } from '../../../async/deadline.ts'
import { explainError } from '../../../errors.ts'
import type { StateConfig } from '../../config/config.ts'
import { memoryPolicy } from '../../shared-state/eviction.ts'
import {
  type Answer,
  type Check,
  check,
  doubtfulFinding,
  type Finding,
  goodFinding,
  wrongFinding,
} from '../check.ts'
import type { Examination } from '../facts.ts'

export const sharedStateChecks: readonly Check[] = [
  check('shared store', 'does it answer, and is it fit for what it has to keep?', store),
]

/** Sends a command over a connection. */
type Ask = (...command: readonly string[]) => Promise<unknown>

/** Milliseconds that an answer may take: requests wait for 50. */
const SLOW: Milliseconds = 20
const TOO_SLOW: Milliseconds = 50
/** How far its clock may be from ours, and so ours from those of the other instances. */
const CLOCK: Milliseconds = 1000
const LIMIT: Milliseconds = 2000

/** Reports nothing when no store is configured. Never throws. */
export async function store({ config, clock }: Examination): Promise<Answer> {
  const { state } = config
  if (state === undefined) return []
  try {
    const { dialStore } = await import('../../shared-state/connection.ts')
    const { storeNames } = await import('../../shared-state/names.ts')
    const { authoritiesIn } = await import('../../../x509/authorities.ts')
    const authorities = authoritiesIn(state.certificates, 'state.certificates')
    const connection = await dialStore(state, authorities, { clock, within: LIMIT })
    const ask: Ask = async (...command) => {
      const answer = await resultInTime(connection.ask(command), clock, LIMIT)
      if (answer === undefined) throw new Error(`${command[0]} has had no answer for ${LIMIT} ms`)
      return answer
    }
    try {
      const names = storeNames(state.instance)
      await ask('SET', names.probe('doctor'), '1', 'PX', '60000')
      return [
        goodFinding(`${addressOf(state)} answers and takes writes${state.tls ? ', with TLS' : ''}`),
        ...(await timely(ask, clock)),
        ...judgeInfo(String(await allowed(ask('INFO')))),
        await judgeAccess(ask, state),
      ]
    } finally {
      connection.destroy(new Error('the store has been asked'))
    }
  } catch (error) {
    return wrongFinding(
      `${addressOf(state)}: ${explainError(error)}`,
      'sessions go on, and ends of sessions wait to be passed on; see docs/several-instances.md',
    )
  }
}

function addressOf({ tls, host, port, database, sentinels }: StateConfig): string {
  const at = sentinels.length > 0 ? `${host}` : `${host}:${port}`
  return `${tls ? 'rediss' : 'redis'}://${at}/${database}`
}

/** How long an answer takes, and how far the clock of the store is from ours. */
async function timely(ask: Ask, clock: Clock): Promise<readonly Finding[]> {
  const times: Milliseconds[] = []
  for (let i = 0; i < 5; i += 1) {
    const begun = clock.elapsed()
    await ask('PING')
    times.push(clock.elapsed() - begun)
  }
  const before = clock.now()
  const time = await allowed(ask('TIME'))
  const after = clock.now()
  const [seconds, micro]: readonly unknown[] = Array.isArray(time) ? time : []
  const at = Number(seconds) * 1000 + Number(micro) / 1000
  return [judgeLatency(times), judgeStoreClock(at, (before + after) / 2)]
}

/** Judges the median of some times. */
export function judgeLatency(times: readonly Milliseconds[]): Finding {
  const median = [...times].sort((a, b) => a - b)[times.length >> 1] ?? Number.POSITIVE_INFINITY
  const found = `it answers in ${median.toFixed(1)} ms`
  const mend = `a login waits ${TOO_SLOW} ms at most and goes on as if the store were away: bring it nearer`
  if (median > TOO_SLOW) return wrongFinding(found, mend)
  return median > SLOW ? doubtfulFinding(found, mend) : goodFinding(found)
}

/** Judges the clock of the store; `at` is NaN when the store has not answered. */
export function judgeStoreClock(at: Milliseconds, now: Milliseconds): Finding {
  if (!Number.isFinite(at)) {
    return doubtfulFinding(
      'it does not tell its time',
      'allow the user +time, or compare the clocks by hand',
    )
  }
  const off = Math.round(Math.abs(at - now))
  return off <= CLOCK
    ? goodFinding(`its clock agrees with ours (${off} ms)`)
    : doubtfulFinding(
        `its clock is ${off} ms from ours`,
        'the end of all sessions of a user depends on clocks: keep the time of all instances and the store with NTP',
      )
}

/** Judges what INFO says of persistence, of replicas, and of what happens when the memory is full. */
export function judgeInfo(info: string): readonly Finding[] {
  const value = (name: string) => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1]
  if (value('redis_version') === undefined) {
    return [doubtfulFinding('it does not tell how it is configured', 'allow the user +info')]
  }
  const { policy, evicts } = memoryPolicy(info) ?? { policy: 'unknown', evicts: true }
  const aof = value('aof_enabled') === '1'
  const replicas = Number(value('connected_slaves') ?? 0)
  return [
    !evicts
      ? goodFinding(`it throws nothing away (maxmemory-policy ${policy})`)
      : wrongFinding(
          `it throws keys away when its memory is full (maxmemory-policy ${policy})`,
          'used IDs and ends of sessions would be lost: maxmemory-policy noeviction, in a store of its own',
        ),
    aof
      ? goodFinding('it keeps what it has over a restart (appendonly)')
      : doubtfulFinding(
          'it may lose what it has at a restart (appendonly no)',
          'ends of sessions and used IDs come back from the instances that run, forms do not: appendonly yes',
        ),
    ...(value('role') === 'master'
      ? []
      : [
          wrongFinding(
            'it is a replica',
            'name the node that takes writes, or use state.sentinels',
          ),
        ]),
    ...(replicas > 0 ? [goodFinding(`${replicas} replicas are connected`)] : []),
  ]
}

/** Whether the user may read keys of other applications. */
async function judgeAccess(ask: Ask, { user }: StateConfig): Promise<Finding> {
  const mend =
    'give the instance a user of its own with an access list for its keys, as docs/several-instances.md has it'
  const foreign = await allowed(ask('EXISTS', 'authproxy-doctor-asks-for-another-key'))
  if (foreign !== refusedByList)
    return doubtfulFinding('its user may use every key of the store', mend)
  return goodFinding(`the user ${user ?? 'default'} may use only the keys of this instance`)
}

const refusedByList = Symbol('NOPERM')

/** An answer, or that the access list refuses the question. */
async function allowed(asked: Promise<unknown>): Promise<unknown> {
  return asked.catch((error: unknown) => {
    if (/NOPERM/.test(explainError(error))) return refusedByList
    throw error
  })
}
