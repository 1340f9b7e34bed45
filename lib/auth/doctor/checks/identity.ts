/**
 * Reports the fields in which the backend reads the identity, and checks the file with names for groups.
 */
import { explainError } from '../../../errors.ts'
import type { Config } from '../../config/config.ts'
import { loadGroupTable } from '../../session/group-names.ts'
import { type Answer, goodFinding, wrongFinding } from '../check.ts'
import type { Examination } from '../facts.ts'

/** The field in which the backend reads the user. */
export function userField({ identityFields: { names } }: Pick<Config, 'identityFields'>): string {
  if (names.authproxy) return 'X-Authproxy-User'
  return names.others.find(({ from }) => from.includes('user'))?.field ?? 'X-Authproxy-Identity'
}

/** Reports the field names when the settings choose others than our own. */
export function names({ config }: Examination): Answer {
  const { authproxy, others } = config.identityFields.names
  if (others.length === 0) return []
  const all = [
    ...(authproxy ? ['X-Authproxy-User and its relatives'] : []),
    ...others.map(({ field }) => field),
  ]
  return goodFinding(`the application is told who asks in ${all.join(', ')}`)
}

export async function groupNames({ config: { groupNames: path } }: Examination): Promise<Answer> {
  if (path === undefined) return []
  const mend =
    'a line for each group: what the identity provider sends, a tab or " => ", the name; readable for the service user. A running instance keeps the names of before'
  return loadGroupTable(path).then(
    table => goodFinding(`${path}: ${table.names.size} groups have a name`),
    error => wrongFinding(explainError(error), mend),
  )
}
