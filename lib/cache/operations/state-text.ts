/**
 * Texts for pages, `status` and `explain`: why clients get an earlier Release file of a suite than the origin has, and which parent
 * proxies fail, and which origins confirm nothing.
 */
import { countOf, elapsedText } from '../../figures.ts'
import type { ParentState } from '../../http/client/dialling/parents.ts'
import { redactUrl } from '../../log/redact.ts'
import type { OriginTrouble, UnconfirmedOrigin } from '../fetch/unconfirmed-origins.ts'
import type { Contradictions } from '../suites/generation.ts'
import type { ReleaseBehind } from '../suites/updates/updates.ts'
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
  return firstSuites(behind, 'and of')
}

/** One sentence for each parent proxy that fails now. The settings bound their number. */
export function parentCautions(parents: readonly ParentState[]): readonly string[] {
  return parents.flatMap(({ name, because }) =>
    because === undefined ? [] : [`the parent proxy ${name} fails: ${because}`],
  )
}

/** One sentence for each origin that has confirmed nothing for a time, and one for those beyond the bound. */
export function originCautions(origins: readonly UnconfirmedOrigin[]): readonly string[] {
  const all = origins.map(
    ({ origin, lasts, ...trouble }) =>
      `${origin} has confirmed nothing for ${elapsedText(lasts)} (${troubleText(trouble)}): clients get what is stored, or an error`,
  )
  const more = all.length - mostSuites
  return more > 0 ? [...all.slice(0, mostSuites), `and ${countOf(more, 'origin')} more`] : all
}

/** The reason with the phase and the address, where they are known. */
export function troubleText({ because, phase, address }: OriginTrouble): string {
  const where = address === undefined ? [] : [`at ${address}`]
  const when = phase === undefined || phase === 'status' ? [] : [`phase ${phase}`]
  return [because, ...when, ...where].join(', ')
}

/** Whether the origin is known to have another Release file. While the origin fails or is slow, that is unknown. */
export function isBehind({ because }: ReleaseBehind): boolean {
  return because.startsWith('stale-suite')
}

const mostFiles = 3

const behindWords = {
  'stale-origin-failed': 'the origin fails',
  'stale-origin-slow': 'the origin is slow',
  'stale-suite-incomplete': 'the origin has a newer one, and not all its files yet',
  'stale-suite-refused': 'the origin has another one that may not be adopted',
} as const

/** Which indexes of a suite contradict each other, and about which files. */
export function contradictionsText({ count: files, examples }: Contradictions): string {
  const [first] = examples
  if (first === undefined) {
    return `its indexes name different contents for ${countOf(files, 'file')}, which is an error of the archive`
  }
  const more = files > 1 ? ` and ${countOf(files - 1, 'file')} more` : ''
  return `${first.indexes.join(' and ')} name different contents for ${first.path}${more}, which is an error of the archive`
}

const mostSuites = 5

/** The first sentences, and one for the suites beyond the bound. */
export function firstSuites(all: readonly string[], and: string): readonly string[] {
  const more = all.length - mostSuites
  return more > 0 ? [...all.slice(0, mostSuites), `${and} ${countOf(more, 'suite')} more`] : all
}
