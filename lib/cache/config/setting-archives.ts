/**
 * The settings of cachesvc.yaml for single archives.
 */
import { absolutePath, oneOf } from '../../config/setting-kinds.ts'
import { listOf, listOfGroups, optional, required, setting } from '../../config/settings.ts'
import { mirror } from './setting-kinds.ts'

export const archives = listOfGroups(
  'list of groups',
  {
    origins: required(
      listOf(mirror, 'places', 16),
      'an archive has at least one origin, the preferred one first',
    ).says(
      'Places that have the same files, the preferred one first: a host, optionally with a port and a path, and with `http://` or `https://` in front. All of them must be allowed: list them in `domains`.',
      'Requests for any of them are fetched from the first one and stored under its name. When it fails, refuses, has no such file or is silent for ten seconds, the next one is asked. A transfer that breaks off goes on from the next one.',
    ),
    verify: setting(oneOf('prefer', 'require', 'off'), 'prefer').says(
      'What a Release file must be for its indexes to count. `require`: signed by a known key, not past its `Valid-Until`, not older than the one before. `prefer`: not wrongly signed by a known key, not older than the one before, and not unsigned when the one before was signed; without a keyring and for unknown keys it counts. `off`: files of this archive are not compared with its indexes.',
    ),
    signed_by: setting(listOf(absolutePath, 'paths'), []).says(
      'Keyrings of this archive, files or directories, in place of `suites.keyrings`.',
    ),
    redirects: optional(oneOf('follow', 'pass'), 'that of `redirects`').says(
      'Which side follows redirects of this archive, as with `redirects`.',
    ),
  },
  'archives:\n  - origins: [archive.example.org/debian, mirror.example.net/pub/debian]',
).says(
  'Archives with several mirrors, and what is special about an archive. The rules of `remap` apply before.',
)
