/**
 * Archives whose files some clients alone may have (`archives[].clients`). Pure.
 */
import { defaultPort, type TargetUri } from '../../http/message/target.ts'
import { AddressSet } from '../../ip.ts'
import type { Config } from '../config/config.ts'
import type { Place } from '../config/setting-kinds.ts'
import { archiveOf } from './routing.ts'

/** An archive with `clients`. */
export interface Confinement extends Pick<Config['archives'][number], 'origins'> {
  /** Its preferred origin as it stands in the configuration: it stays the same when others are added before it. */
  readonly scope: string
  /** The setting, for sentences. */
  readonly setting: string
  readonly clients: AddressSet
  /** The setting of the credentials by which its origins are asked; undefined without such. */
  readonly credentials: string | undefined
}

export type Confinements = readonly Confinement[]

/** Throws a Failure for a client network that is no CIDR. */
export function confinementsOf({ archives }: Pick<Config, 'archives'>): Confinements {
  return archives.flatMap(({ origins, clients, credentials }, i) => {
    const [first] = origins
    if (clients.length === 0 || first === undefined) return []
    return [
      {
        origins: origins.map(bothSchemes),
        scope: first.text,
        setting: `archives[${i}].clients`,
        clients: AddressSet.fromCidrs(clients),
        credentials: credentials === undefined ? undefined : `archives[${i}].credentials`,
      },
    ]
  })
}

/** A host is confined by https and by http, where both have their usual ports. */
function bothSchemes(origin: Place): Place {
  const { scheme, port } = origin
  const usual = port === undefined || (scheme !== undefined && port === defaultPort(scheme))
  return usual ? { ...origin, scheme: undefined, port: undefined } : origin
}

/** The first that a target lies in. */
export function confinementOf(
  target: TargetUri,
  confinements: Confinements,
): Confinement | undefined {
  return archiveOf(target, confinements)?.archive
}
