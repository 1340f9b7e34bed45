/**
 * The settings of cachesvc.yaml for archives and for what their signed indexes say about files.
 */
import { absolutePath, duration, integer, oneOf, size } from '../../config/setting-kinds.ts'
import { group, listOf, listOfGroups, optional, required, setting } from '../../config/settings.ts'
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

export const suites = group(
  'Files are compared with what the indexes of their archive say: a file that is fetched while it streams, a stored file before it is served. A response with other content is cut off before its end and not stored. This begins when a Release file and an index that it names are in the store.',
  {
    keyrings: setting(listOf(absolutePath, 'paths'), [
      '/etc/apt/trusted.gpg.d',
      '/etc/apt/keyrings',
      '/usr/share/keyrings',
    ]).says(
      'Files and directories of OpenPGP public keys, armoured or not, with which Release files are checked. In directories files that end in `.gpg`, `.asc` or `.pgp` count. What does not exist is passed over.',
    ),
    memory: setting(size('1M', '64G'), '64M').says(
      'Memory for what indexes say. An index of 60,000 packages takes 3.3 MB; what does not fit is read from disk when it is needed.',
    ),
    warm: group(
      'Packages that are fetched ahead. When a suite has a new Release file whose indexes name newer versions of packages that clients have asked for, these are fetched in the background: one at a time, and only while no client waits for another file from an origin. A package counts as the same when its directory, name and architecture are.',
      {
        days: setting(integer(0, 365), 0, 'warm:\n    days: 14').says(
          'Days: packages that a client has asked for in so many days are fetched ahead. 0 switches this off. A version that was fetched ahead counts as used when the version before it was used.',
        ),
        files: setting(integer(1, 100_000), 500).says(
          'Most files that are fetched ahead in 24 hours.',
        ),
        size: setting(size('1M', '1024T'), '2G').says(
          'Most bytes that are fetched ahead in 24 hours.',
        ),
      },
    ),
    update: setting(duration('0s', '25s'), '8s').says(
      'Time limit for a client that asks for a Release file of which the origin has a new one, while the indexes it names and clients use are fetched. After that the client gets the Release file and the indexes of before, which fit each other. apt gives up after 30 seconds.',
    ),
    snapshot_days: setting(integer(0, 3650), 0).says(
      'Days for which the Release files and indexes of a suite are kept after newer ones have come, so that `/_cachesvc/snapshot/` can serve them: of each day (UTC) the last ones. The three before the newest are kept in any case. Packages are kept as `retention` and `expiration` say.',
    ),
    wait: setting(duration('0s', '20s'), '5s').says(
      'Time limit for a request that waits until an index which may name its file has been read. After that the file is fetched without being compared with it.',
    ),
  },
)
