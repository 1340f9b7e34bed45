/**
 * Archives that many hosts have, such as the mirrors of countries. This file has the form of the file that `overrides.mirrors` names,
 * and the archives that count without such a file. `packaging/mirrors.yaml` has the same archives, as a file to start from.
 *
 * # Facts
 * - Ubuntu's archive is archive.ubuntu.com and the hosts below it; ports and security updates have hosts of their own.
 * - Debian's archive is on every host below debian.org that has a `/debian/`. Two of them have another one: the archive host has the
 *   past releases, and the snapshot host has every past state.
 * - Security updates come from one archive, `/debian-security/` at security.debian.org. A mirror that lags behind would withhold them.
 */
import { type Check, valueRemarks } from '../../config/reading.ts'
import { text } from '../../config/setting-kinds.ts'
import {
  checkSettings,
  group,
  listOf,
  listOfGroups,
  optionalSetting,
  requiredSetting,
  setting,
} from '../../config/settings.ts'
import { mirror, type Place, remapFrom, remapTo } from './setting-kinds.ts'

/** An archive and the hosts that have it. */
export interface KnownArchive {
  readonly name: string
  /** The places that have the archive: a host alone with all its paths, or a host with a path. */
  readonly places: readonly Place[]
  /** Labels of excluded hosts: a host with one of these labels in its name does not have the archive. */
  readonly except: readonly string[]
  /** The path that replaces the path of a place. Empty when there is none. */
  readonly path: string
  /** The place that is asked instead of the others; undefined when a setting names it. */
  readonly to: Place | undefined
  /** The name of another archive. This archive is routed only when that one is fetched from another host. */
  readonly with: string | undefined
}

const mostPlaces = 5000

const file = group('', {
  archives: listOfGroups('list of groups', {
    name: requiredSetting(text, 'an archive has a name, such as debian').says(),
    places: requiredSetting(
      listOf(remapFrom, 'places', mostPlaces),
      'an archive has places, such as places: [mirror.example.org/debian]',
    ).says(),
    except: setting(listOf(text, 'names'), []).says(),
    path: optionalSetting(remapTo).says(),
    to: optionalSetting(mirror).says(),
    with: optionalSetting(text).says(),
  }).says(),
})

/** The archives for which a setting names the host that is asked instead of theirs. */
const ofSettings: ReadonlySet<string> = new Set(['debian', 'ubuntu'])

/** The check of the file that `overrides.mirrors` names. */
export const checkKnownArchives: Check<readonly KnownArchive[]> = found => {
  const checked = checkSettings(file)(found)
  if (!checked.ok) return checked
  const { archives } = checked.value
  const { problems, warnings, wrong } = valueRemarks()
  const names = archives.map(({ name }) => name)
  for (const [n, { name, places, path, to, with: other }] of archives.entries()) {
    const at = (key: string) => ['archives', n, key]
    if (names.indexOf(name) < n) wrong(at('name'), 'is listed twice; put the places together')
    if (places.length === 0) wrong(at('places'), 'has no place; write at least one')
    for (const [m, { host }] of places.entries()) {
      if (host === undefined) wrong([...at('places'), m], 'the host is missing')
    }
    if (path !== undefined && path.host !== undefined) {
      wrong(at('path'), 'names a host, expected a path such as /debian')
    }
    if (to === undefined && !ofSettings.has(name)) {
      wrong(at('name'), 'is fetched from nowhere; name a host: to: mirror.example.org/path')
    }
    if (other !== undefined && (other === name || !names.includes(other))) {
      wrong(at('with'), 'is not the name of another archive of this file')
    }
  }
  const value = archives.map(archive => ({ ...archive, path: archive.path?.path ?? '' }))
  return problems.length > 0 ? { ok: false, problems, warnings } : { ok: true, value, warnings }
}

/** Labels of the hosts below debian.org that have another archive. */
const otherArchives = ['archive', 'snapshot', 'security']

/**
 * The hosts of archives by the first segment of a path on this proxy. apt-cacher-ng comes with these prefixes, and `sources.list`, preseed
 * files and calls of debootstrap use them: `http://proxy:3142/debian`. Each is the path of the archive on its host, too.
 */
export const archivePrefixes: ReadonlyMap<string, string> = new Map([
  ['debian', 'ftp.debian.org'],
  ['debian-security', 'security.debian.org'],
  ['ubuntu', 'archive.ubuntu.com'],
])

/** The archives that are known without a file, in the form of the file. */
const builtIn = {
  archives: [
    { name: 'ubuntu', places: ['.archive.ubuntu.com'], path: '/ubuntu' },
    {
      name: 'debian',
      places: ['.debian.org/debian'],
      except: otherArchives,
      path: '/debian',
    },
    {
      name: 'debian-security',
      places: ['.debian.org/debian-security'],
      except: otherArchives,
      path: '/debian-security',
      to: 'security.debian.org',
      with: 'debian',
    },
  ],
}

/** The archives that are known without a file. Throws when the table in this file is wrong, because it would route nothing. */
export function builtInArchives(table: unknown = builtIn): readonly KnownArchive[] {
  const checked = checkKnownArchives(table)
  if (checked.ok) return checked.value
  throw new Error(
    `the built-in archives are wrong: ${checked.problems.map(({ text }) => text).join('; ')}`,
  )
}
