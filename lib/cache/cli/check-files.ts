/**
 * Checks the files a configuration names: certificates and keys. Problems are reported with those of the configuration, before
 * the service starts.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { Failure } from '../../errors.ts'
import type { Config } from '../config/config.ts'
import { originAuthorities } from '../fetch/origin-client.ts'
import { authorityProblem } from '../intercept/authority.ts'

/** Every problem with the files a configuration names, in sentences. Changes nothing. */
export async function fileProblems(config: Config, now: Milliseconds): Promise<readonly string[]> {
  const authority = await authorityProblem(config, now)
  const origin = await originAuthorities(config.https.originCa).then(
    () => undefined,
    error => {
      if (error instanceof Failure) return error.message
      throw error
    },
  )
  return [authority, origin].filter(problem => problem !== undefined)
}
