/**
 * A row of denied packages, and its ranges of versions, such as `>= 5.6.0, << 5.6.1-2`, with the relations of deb-control(5). This file is
 * pure.
 */
import type { Milliseconds } from '../../../async/clock.ts'
import { compareVersions } from '../../archive/version.ts'
import type { PackageFacts } from './plain.ts'

/** Packages that are denied, and why. */
export interface DenyRow {
  readonly package: string
  /** Whether that is the name of a source package, all of whose packages are denied. */
  readonly source: boolean
  readonly ranges: readonly VersionRange[]
  /** The ranges where the release of the file is known, by its code name. */
  readonly byRelease?: ReadonlyMap<string, readonly VersionRange[]>
  /** The only distribution that the row is about: that of an advisory. */
  readonly distribution?: string
  readonly architecture?: string | undefined
  readonly reason: string
  /** The moment from which the row does not count. */
  readonly until?: Milliseconds | undefined
}

const relations = {
  '<<': (order: number) => order < 0,
  '<=': (order: number) => order <= 0,
  '=': (order: number) => order === 0,
  '>=': (order: number) => order >= 0,
  '>>': (order: number) => order > 0,
}

interface Bound {
  readonly relation: keyof typeof relations
  readonly version: string
}

/** The versions for which all bounds hold. Without bounds it has every version. */
export type VersionRange = readonly Bound[]

const BOUND = /^(<<|<=|=|>=|>>)?\s*([0-9][A-Za-z0-9.+~:-]*)$/

/** Reads bounds with commas between them. A version alone stands for itself. Undefined for other text. */
export function parseRange(text: string): VersionRange | undefined {
  const bounds = text.split(',').map(part => BOUND.exec(part.trim()))
  const read = bounds.flatMap(match => {
    const [, relation = '=', version] = match ?? []
    return version === undefined ? [] : [{ relation: relation as Bound['relation'], version }]
  })
  return read.length === bounds.length ? read : undefined
}

/** Whether a whole version is in one of the ranges. */
export function isWithin(version: string, ranges: readonly VersionRange[]): boolean {
  return ranges.some(range =>
    range.every(one => relations[one.relation](compareVersions(version, one.version))),
  )
}

/** The most epochs that are tried. A package has one or two in its life. */
const mostEpochs = 10

/**
 * The same for the version in the name of a file, which may lack its epoch, or undefined when the name has none. It is `unknown` when
 * epochs that the ranges have would lead to different answers.
 */
export function mayBeWithin(
  version: string | undefined,
  ranges: readonly VersionRange[],
): boolean | 'unknown' {
  if (ranges.some(range => range.length === 0)) return true
  if (version === undefined) return ranges.length > 0 && 'unknown'
  if (version.includes(':')) return isWithin(version, ranges)
  const found = ranges.flat().map(bound => /^\d+(?=:)/.exec(bound.version)?.[0] ?? '0')
  const epochs = [...new Set(['0', ...found])]
  if (epochs.length > mostEpochs) return 'unknown'
  const answers = new Set(epochs.map(epoch => isWithin(`${epoch}:${version}`, ranges)))
  return answers.size > 1 ? 'unknown' : answers.has(true)
}

/** The version that ranges are compared with. The `+b1` of a package that was only built again is no part of the version of its source. */
export function comparedVersion(
  { source }: Pick<DenyRow, 'source'>,
  { version }: PackageFacts,
): string | undefined {
  return source ? version?.replace(/\+b\d+$/, '') : version
}
