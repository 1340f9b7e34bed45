/**
 * Finds the node of the store that accepts writes: the node in the settings, or the node that the sentinels name now.
 *
 * The sentinels are asked in order, as their guidelines for clients say. A sentinel that does not know or does not answer is
 * skipped.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { resultInTime } from '../../async/deadline.ts'
import type { StateConfig } from '../config/config.ts'
import { type Connection, connect, type StoreAddress } from './connection.ts'

/** Opens a connection to the node that accepts writes. Throws the reason when there is none. */
export async function dialStore(
  config: StateConfig,
  authorities: readonly string[] | undefined,
  { clock, within: timeLimit }: { readonly clock: Clock; readonly within: Milliseconds },
): Promise<Connection> {
  const { sentinels, user, password, tls, database } = config
  const common = { database, user, password, tls, authorities }
  if (sentinels.length === 0) {
    return connect(
      { ...common, host: config.host, port: config.port },
      { clock, within: timeLimit },
    )
  }
  const problems: unknown[] = []
  const each = timeLimit / sentinels.length
  for (const sentinel of sentinels) {
    try {
      const address = { ...common, ...sentinel, database: 0, user: undefined }
      const asked = { ...address, password: config.sentinelPassword }
      const node = await askSentinel(asked, config.host, { clock, within: each })
      return await connect({ ...common, ...node }, { clock, within: timeLimit })
    } catch (error) {
      problems.push(error)
    }
  }
  throw new Error(`no sentinel leads to the store "${config.host}"`, { cause: problems[0] })
}

async function askSentinel(
  address: StoreAddress,
  name: string,
  { clock, within: timeLimit }: { readonly clock: Clock; readonly within: Milliseconds },
): Promise<{ readonly host: string; readonly port: number }> {
  const connection = await connect(address, { clock, within: timeLimit })
  try {
    const asked = connection.ask(['SENTINEL', 'GET-MASTER-ADDR-BY-NAME', name])
    const answer = await resultInTime(asked, clock, timeLimit)
    const [host, port]: readonly unknown[] = Array.isArray(answer) ? answer : []
    const number = Number(port)
    if (typeof host === 'string' && Number.isInteger(number) && number > 0 && number < 65_536) {
      return { host, port: number }
    }
    throw new Error(`the sentinel knows no node of "${name}"`)
  } finally {
    connection.destroy(new Error('the sentinel has been asked'))
  }
}
