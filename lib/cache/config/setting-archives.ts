/**
 * The settings of cachesvc.yaml for single archives.
 */
import { listOf, listOfGroups, required } from '../../config/settings.ts'
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
  },
  'archives:\n  - origins: [archive.example.org/debian, mirror.example.net/pub/debian]',
).says(
  'Archives with several mirrors, and what is special about an archive. The rules of `remap` apply before.',
)
