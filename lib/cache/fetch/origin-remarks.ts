/**
 * What is special about asking some origins now, in words for `status` and `explain`: addresses that come last, fewer connections, and
 * origins that are left alone for a while.
 */
import type { OriginClient } from '../../http/client/client.ts'
import type { Mirrors } from './mirrors.ts'

export interface OriginRemark {
  /** Host and port. */
  readonly origin: string
  readonly text: string
}

export function originRemarks(
  { dialler, connectionLimits }: Pick<OriginClient, 'dialler' | 'connectionLimits'>,
  mirrors: Pick<Mirrors, 'pauses'>,
): readonly OriginRemark[] {
  return [
    ...mirrors.pauses().map(({ origin, status, left }) => ({
      origin,
      text: `answered ${status}, and is asked nothing about stored files for ${Math.ceil(left / 1000)} s`,
    })),
    ...connectionLimits.states().map(({ origin, connections, because }) => ({
      origin,
      text: `refused some of several connections (${because}), and gets at most ${connections} at a time now; see \`archives[].connections\``,
    })),
    ...dialler.silent.states().map(({ origin, address }) => ({
      origin,
      text: `its address ${address} takes connections and stays silent, and comes last for some minutes`,
    })),
  ]
}
