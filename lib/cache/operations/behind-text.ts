/**
 * Texts that say why clients get an earlier Release file than the origin has, for the cache page, status and healthz.
 */

import { countOf, elapsedText } from '../../figures.ts'
import { redactUrl } from '../../log/redact.ts'
import type { ReleaseBehind } from '../answer/suites-behind.ts'
import type { SuiteState } from './sources.ts'

/** The reason, for how long it has held, and the files that are missing. */
export function behindText({ because, lasts, missing }: ReleaseBehind): string {
  const files = missing.slice(0, mostFiles).map(({ path, because }) => `${path} (${because})`)
  if (missing.length > mostFiles)
    files.push(`and ${countOf(missing.length - mostFiles, 'file')} more`)
  const list = files.length === 0 ? '' : `: ${files.join(', ')}`
  return `${behindWords[because]}, for ${elapsedText(lasts)}${list}`
}

/** One sentence for each suite whose origin has a Release file that clients do not get, and one for those beyond the bound. */
export function behindCautions(suites: readonly SuiteState[]): readonly string[] {
  const behind = suites.flatMap(({ name, behind, refusal }) =>
    refusal !== undefined
      ? [`${redactUrl(name)}: ${refusal}`]
      : behind === undefined || !isBehind(behind)
        ? []
        : [`clients get an earlier Release of ${redactUrl(name)}: ${behindText(behind)}`],
  )
  const more = behind.length - mostSuites
  return [
    ...behind.slice(0, mostSuites),
    ...(more > 0 ? [`and of ${countOf(more, 'suite')} more`] : []),
  ]
}

/** Whether the origin is known to have another Release file. While the origin fails or is slow, that is unknown. */
export function isBehind({ because }: ReleaseBehind): boolean {
  return because.startsWith('stale-suite')
}

const mostFiles = 3
const mostSuites = 5

const behindWords = {
  'stale-origin-failed': 'the origin fails',
  'stale-origin-slow': 'the origin is slow',
  'stale-suite-incomplete': 'the origin has a newer one, and not all its files yet',
  'stale-suite-refused': 'the origin has another one that may not be adopted',
} as const
