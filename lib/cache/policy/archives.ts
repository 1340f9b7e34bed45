/**
 * Finds how the Release files of an archive are judged: by the settings `archives` and `suites`. Pure.
 */
import { parseUri } from '../../http/message/target.ts'
import type { Config } from '../config/config.ts'
import type { Policy } from '../suites/policy.ts'

/** How the suite in the directory with this key is judged; undefined when nothing below is compared with its indexes. */
export function suitePolicy(
  at: string,
  { archives, suites }: Pick<Config, 'archives' | 'suites'>,
): Policy | undefined {
  const uri = parseUri(at)
  if ('problem' in uri) return undefined
  const fitting = archives.filter(
    ({ url }) =>
      url.host === uri.host &&
      (url.scheme === undefined || url.scheme === uri.scheme) &&
      (url.port ?? uri.port) === uri.port &&
      `${uri.path}/`.startsWith(`${url.path}/`),
  )
  const [archive] = fitting.sort((a, b) => b.url.path.length - a.url.path.length)
  const verify = archive?.verify ?? 'prefer'
  if (verify === 'off') return undefined
  const own = archive?.signedBy ?? []
  return { verify, keyrings: own.length > 0 ? own : suites.keyrings }
}
