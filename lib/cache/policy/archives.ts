/**
 * Finds how the Release files of an archive are judged: by the settings `archives` and `suites`. Pure.
 */
import { parseUri } from '../../http/message/target.ts'
import type { Config } from '../config/config.ts'
import type { Policy } from '../suites/policy.ts'
import { archiveOf } from './routing.ts'

/** How the suite in the directory with this key is judged; undefined when nothing below is compared with its indexes. */
export function suitePolicy(
  at: string,
  { archives, suites }: Pick<Config, 'archives' | 'suites'>,
): Policy | undefined {
  const uri = parseUri(at)
  if ('problem' in uri) return undefined
  const { verify, signedBy } = archiveOf(uri, archives)?.archive ?? unlisted
  if (verify === 'off') return undefined
  return { verify, keyrings: signedBy.length > 0 ? signedBy : suites.keyrings }
}

const unlisted = { verify: 'prefer', signedBy: [] } as const
