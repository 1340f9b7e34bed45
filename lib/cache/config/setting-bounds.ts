/**
 * The settings of cachesvc.yaml for verification, freshness, time limits and other limits.
 */
import { duration, integer, oneOf, size } from '../../config/setting-kinds.ts'
import { group, optional, setting } from '../../config/settings.ts'

export const retention = group(
  'What is kept when there is much of it. Changes take effect with a reload: what is too much then goes in the background. The files that clients have not asked for longest go first; those that no stored index names go before the others.',
  {
    size: setting(size('0', '1024T'), '0').says(
      'Most bytes of stored files, downloads under way included; 0 is no limit. A file larger than half of it is passed through and not stored.',
    ),
    free: optional(
      size('0', '1024T'),
      'a fiftieth of the file system, at most `1G`',
      'free: 20G',
    ).says(
      'Bytes of the file system that stay free. When less is free, stored files are removed, also when other programs have filled it. When removing all of them would not be enough, none is removed, what does not fit is not stored, and the log has a warning.',
    ),
    object_size: setting(size('0', '1024T'), '0').says(
      'Largest file that is stored; 0 is no limit. Larger ones are passed through.',
    ),
    versions: setting(integer(0, 1000), 0).says(
      'Newest versions of a package that are kept, for each directory and architecture; 0 keeps all. Older ones go with the daily sweep, unless a client asked for them in the last seven days or a stored index names them.',
    ),
  },
)

export const verification = group(
  'Regular checks of all stored files: indexes against their Release files, packages against indexes, content against its digest. A wrong file is logged as a repository-verification warning and removed, so that the next request fetches it again. `cachesvc verify-repos` runs a check at once.',
  {
    interval: setting(duration('0s', '365d'), '1d').says(
      'Time from the end of one check to the start of the next. 0 switches checks off.',
    ),
    max_age: setting(duration('0s', '365d'), '1d').says(
      'Age from which the last check of a stored file does not count any more: the file is hashed again while a client reads it from the disk, and the client gets the last bytes when the digest is right, or when that is not known after ten seconds. It is always hashed at the first reading after a start.',
    ),
    rate: setting(size('0', '100G'), '64M').says(
      'Most bytes that a check reads in a second, so that requests are not slowed down. 0 is no limit.',
    ),
  },
)

export const freshness = group(
  'Times for which a stored file is served without asking the origin. Files in a pool and files named by their hash never change, so the origin is not asked about them again.',
  {
    index: setting(duration('0s', '1d'), '1m').says(
      'Freshness of indexes and Release files, for clients that do not ask for validation.',
    ),
    other: setting(duration('0s', '365d'), '1h').says(
      'Freshness of files that are neither indexes nor immutable, for clients that do not ask for validation.',
    ),
    negative: setting(duration('0s', '1h'), '5s').says(
      'Time for which a 404 of the origin is remembered.',
    ),
    floor: setting(duration('0s', '5m'), '5s').says(
      'Freshness of all files for clients that ask for validation. apt asks for it with each index (`max-age=0`), and many machines ask in the same second.',
    ),
    serve_stale: setting(oneOf('always', 'permitted'), 'always').says(
      'Whether stale files are served when the origin fails or is slow. `permitted` obeys origins that forbid it with `must-revalidate`, `proxy-revalidate`, `s-maxage` or `no-cache` (RFC 9111 section 4.2.4) and answers 504 in their place. `always` does not: a signed archive is its own judge of what is too old, and machines can go on installing.',
    ),
  },
)

export const timeouts = group(
  'Time limits. apt gives up after 30 seconds without a byte: keep `connect` and `fields` together below that.',
  {
    connect: setting(duration('100ms', '5m'), '8s').says(
      'Time limit for the name look-up and for the connection to an origin, a parent proxy or the far end of a tunnel.',
    ),
    fields: setting(duration('100ms', '10m'), '15s').says(
      'Time limit for the head of the origin’s response, after the request was sent.',
    ),
    content: setting(duration('100ms', '10m'), '25s').says(
      'Time limit for the next byte of the origin’s content.',
    ),
    revalidation: setting(duration('0s', '1m'), '4s').says(
      'Time limit for a client that waits while the origin is asked about a stored file. After that the client gets the stored copy, and the response says so.',
    ),
    tunnel: setting(duration('1s', '1d'), '10m').says(
      'Idle timeout of a tunnel: it is closed when no byte has moved in either direction for so long.',
    ),
    client_head: setting(duration('1s', '10m'), '15s').says(
      'Time limit for a client to send the head of its request.',
    ),
    client_idle: setting(duration('1s', '1h'), '2m').says(
      'Idle timeout of a client connection between requests. apt pauses between update and download: keep it above a minute.',
    ),
    client_stalled: setting(duration('1s', '1h'), '1m').says(
      'Time limit for a client that reads nothing of its response.',
    ),
    drain: setting(duration('0s', '1h'), '30s').says(
      'Time limit for running transfers when the daemon stops.',
    ),
  },
)

export const limits = group('Limits for clients and origins.', {
  head: setting(size('4K', '1M'), '64K').says('Most bytes of the head of a request.'),
  connections: setting(integer(1, 1_000_000), 4096).says(
    'Most client connections at a time. Further ones are closed at once.',
  ),
  memory: setting(size('0', '64G'), '64M').says('Memory for small files that are in use.'),
  transfers: setting(size('1M', '64G'), '128M').says(
    'Memory for content on its way between origins, disk and clients. When it is used up, transfers go on in small pieces.',
  ),
  origin_connections: setting(integer(1, 10_000), 16).says(
    'Most connections to one origin at a time, and as many again for requests that are passed through.',
  ),
})
