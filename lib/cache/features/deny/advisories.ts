/**
 * Rows from the JSON of others. This file is pure.
 *
 * # Facts
 * - OSV (ossf.github.io/osv-schema): `affected[]` has an ecosystem such as `Debian:12` or `Ubuntu:22.04:LTS`, the name of a source package,
 *   and `ranges` with events in order, or `versions`.
 * - Debian's security tracker: source package, identifier and `releases` with a `status` for each code name. The `fixed_version` of what
 *   is resolved is `0` where no version was affected; what is open affects all versions.
 * - A version that is fixed in one release is lower than a version that is affected in a later one. Where the release of a file is not
 *   known, it is denied when no release calls its version fixed.
 */
import { isRecord, type JsonObject } from '../../../json.ts'
import { type DenyRow, parseRange, type VersionRange } from './row.ts'

/** The code names of releases by their numbers in OSV; distro-info-data has them all. A release without one counts as not known. */
const codeNames: Readonly<Record<string, string>> = {
  ...{ 11: 'bullseye', 12: 'bookworm', 13: 'trixie', 14: 'forky', 15: 'duke' },
  ...{ '20.04': 'focal', '22.04': 'jammy', '24.04': 'noble', '26.04': 'resolute' },
}

/** The distribution of a release by its code name; undefined when it has none of those. */
export function distributionOf(codeName: string | undefined): string | undefined {
  const [number] = Object.entries(codeNames).find(([, name]) => name === codeName) ?? []
  return number && (number.includes('.') ? 'Ubuntu' : 'Debian')
}

/** The most releases of which ranges are made, and the most ranges. */
const mostReleases = 100
const mostRanges = 10_000

/** The rows of advisories; undefined when the value is none. What makes no sense in them is left out. */
export function advisoryRows(value: unknown): readonly DenyRow[] | undefined {
  const { vulns } = isRecord(value) ? value : {}
  const listed = [vulns ?? value].flat().filter(isRecord)
  if (Array.isArray(vulns) || listed.some(one => Array.isArray(one['affected'])))
    return listed.flatMap(osvRows)
  const [, vulnerabilities] = membersOf(value)[0] ?? []
  const [, one] = membersOf(vulnerabilities)[0] ?? []
  return isRecord(value) && isRecord(one) && isRecord(one['releases'])
    ? trackerRows(value)
    : undefined
}

type Releases = ReadonlyMap<string, readonly VersionRange[]>

function osvRows({ id, summary, details, affected, withdrawn }: JsonObject): readonly DenyRow[] {
  if (!Array.isArray(affected) || withdrawn !== undefined) return []
  const packages = new Map<string, Map<string, VersionRange[]>>()
  for (const one of affected.filter(isRecord)) {
    const { ecosystem, name } = isRecord(one['package']) ? one['package'] : {}
    const [system, ...parts] = String(ecosystem).split(':')
    if ((system !== 'Debian' && system !== 'Ubuntu') || typeof name !== 'string') continue
    const number = parts.find(part => /^\d/.test(part)) ?? ''
    const release = codeNames[number] ?? number
    const place = `${system}:${name}`
    const releases = packages.get(place) ?? new Map<string, VersionRange[]>()
    const ranges = releases.get(release) ?? []
    for (const range of osvRanges(one)) ranges.push(range)
    packages.set(place, releases.set(release, ranges))
  }
  const text = [id, summary ?? details].filter(part => typeof part === 'string').join(': ')
  return [...packages].flatMap(([place, releases]) => {
    const [system = '', name = ''] = place.split(':')
    return rowOf({ package: name, distribution: system, reason: text }, releases)
  })
}

function osvRanges({ ranges, versions }: JsonObject): readonly VersionRange[] {
  const found: VersionRange[] = []
  const inOrder = Array.isArray(ranges) ? ranges.filter(isRecord) : []
  for (const { type, events } of inOrder) {
    if (type !== 'ECOSYSTEM' || !Array.isArray(events)) continue
    let from: VersionRange | undefined
    for (const { introduced, fixed, last_affected: last } of events.filter(isRecord)) {
      const end = typeof fixed === 'string' ? `<< ${fixed}` : `<= ${last}`
      if (typeof introduced === 'string')
        from = introduced === '0' ? [] : parseRange(`>= ${introduced}`)
      else if (from !== undefined) {
        const to = parseRange(end)
        if (to !== undefined) found.push([...from, ...to])
        from = undefined
      }
    }
    if (from !== undefined) found.push(from)
  }
  if (found.length > 0 || !Array.isArray(versions)) return found
  return versions.flatMap(version =>
    [parseRange(`= ${version}`) ?? []].filter(one => one.length > 0),
  )
}

function trackerRows(tracker: JsonObject): readonly DenyRow[] {
  return membersOf(tracker).flatMap(([name, vulnerabilities]) =>
    membersOf(vulnerabilities).flatMap(([id, about]) => {
      const { releases, description } = isRecord(about) ? about : {}
      const ranges = membersOf(releases).map(([release, state]) => {
        const { status, fixed_version: fixed } = isRecord(state) ? state : {}
        const end = fixed === '0' ? undefined : parseRange(`<< ${fixed}`)
        const resolved = status === 'resolved' && end !== undefined ? [end] : []
        return [release, status === 'open' ? [[]] : resolved] as const
      })
      const text = typeof description === 'string' ? `${id}: ${description}` : id
      return rowOf({ package: name, distribution: 'Debian', reason: text }, new Map(ranges))
    }),
  )
}

function membersOf(value: unknown): ReadonlyArray<[string, unknown]> {
  return isRecord(value) ? Object.entries(value) : []
}

/** The row of one package; none when no release of it is affected. */
function rowOf(
  row: Pick<DenyRow, 'package' | 'distribution' | 'reason'>,
  byRelease: Releases,
): readonly DenyRow[] {
  const all = [...byRelease.values()].filter(ranges => ranges.length > 0)
  const affected = all.slice(0, mostReleases)
  if (affected.length === 0) return []
  // The ranges that all of these releases have in common. When those are too many, the first releases decide.
  const ranges = affected.reduce((all, next) =>
    all.length * next.length > mostRanges ? all : all.flatMap(a => next.map(b => [...a, ...b])),
  )
  const reason = row.reason
    .replace(/[\p{C}\s]+/gu, ' ')
    .trim()
    .slice(0, 200)
  return [{ ...row, source: true, ranges, byRelease, reason }]
}
