/**
 * The settings of cachesvc.yaml for what signed indexes say about files: archives, keyrings, memory.
 */
import { absolutePath, duration, oneOf, size } from '../../config/setting-kinds.ts'
import { group, listOf, listOfGroups, required, setting } from '../../config/settings.ts'
import { remapTo } from './setting-kinds.ts'

export const archives = listOfGroups(
  'list of groups',
  {
    url: required(remapTo, 'an archive has a url').says(
      'The archive: a host, `archive.example.org`, or a host with a path, `archive.example.org/debian`, and everything below that path. With `http://` or `https://` in front it applies to that scheme only, with a port to that port only. Where several fit, the longest path decides. After routing, the place files are fetched from counts.',
    ),
    verify: setting(oneOf('prefer', 'require', 'off'), 'prefer').says(
      'What a Release file must be for its indexes to count. `require`: signed by a known key, not past its `Valid-Until`, not older than the one before. `prefer`: not signed wrongly by a known key, not older than the one before, and not unsigned when the one before was signed; a missing keyring or an unknown key is no reason to refuse it. `off`: files of this archive are not compared with its indexes.',
    ),
    signed_by: setting(listOf(absolutePath, 'paths'), []).says(
      'Keyrings of this archive, files or directories, in place of `suites.keyrings`.',
    ),
  },
  'archives:\n  - url: archive.example.org/debian\n    verify: require\n    signed_by:\n      - /usr/share/keyrings/example-archive.gpg',
).says(
  'How Release files of single archives are judged. Archives that are not listed are judged with `prefer` and the keys of `suites.keyrings`.',
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
    wait: setting(duration('0s', '20s'), '5s').says(
      'Time limit for a request that waits until an index which may name its file has been read. After that the file is fetched without being compared with it.',
    ),
  },
)
