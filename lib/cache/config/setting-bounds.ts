/**
 * The part of cachesvc.yaml that counts: how long things are fresh, how long requests wait, how much a client may use.
 */
import { duration, integer, size } from '../../config/setting-kinds.ts'
import { group, setting } from '../../config/settings.ts'

export const verification = group(
  'Everything stored is checked now and then: indexes against their Release files, packages against indexes, content against its digest. What is wrong is logged as a repository-verification warning and removed, so that it is fetched again. `cachesvc verify-repos` does the same at once.',
  {
    interval: setting(duration('0s', '365d'), '1d').says(
      'From the end of one check to the beginning of the next; 0 is never.',
    ),
    rate: setting(size('0', '100G'), '64M').says(
      'How much is read a second at most, so that requests go first; 0 is no bound.',
    ),
  },
)

export const freshness = group(
  'For how long the origin need not be asked again. Files in a pool and files named by their hash never change and are not asked for again.',
  {
    index: setting(duration('0s', '1d'), '1m').says(
      'For indexes and Release files, when the client does not insist on the newest.',
    ),
    other: setting(duration('0s', '365d'), '1h').says(
      'For files that are neither indexes nor immutable, when the client does not insist.',
    ),
    negative: setting(duration('0s', '1h'), '30s').says('For a 404 the origin gave.'),
    floor: setting(duration('0s', '5m'), '5s').says(
      'For anything, even when the client insists. apt insists on every index (`max-age=0`), and many machines ask in the same second.',
    ),
  },
)

export const timeouts = group(
  'The longest waits. apt gives up after 30 seconds without a byte: keep `connect` and `fields` together below that.',
  {
    connect: setting(duration('100ms', '5m'), '8s').says(
      'For the name look-up and the connection to an origin, a parent proxy or the far end of a tunnel.',
    ),
    fields: setting(duration('100ms', '10m'), '15s').says(
      'From the request sent to the head of the origin’s response.',
    ),
    content: setting(duration('100ms', '10m'), '25s').says(
      'For the next byte of the origin’s content.',
    ),
    revalidation: setting(duration('0s', '1m'), '4s').says(
      'How long a client waits while the origin is asked about something stored. After that it gets the stored copy, and the answer says so.',
    ),
    tunnel: setting(duration('1s', '1d'), '10m').says(
      'The silence, in both directions, after which a tunnel is closed.',
    ),
    client_head: setting(duration('1s', '10m'), '15s').says(
      'For a client to send the head of its request.',
    ),
    client_idle: setting(duration('1s', '1h'), '2m').says(
      'For an idle client connection. apt pauses between update and download: keep it above a minute.',
    ),
    client_stalled: setting(duration('1s', '1h'), '1m').says(
      'For a client that does not take what it asked for.',
    ),
    drain: setting(duration('0s', '1h'), '30s').says(
      'For running transfers when the daemon stops.',
    ),
  },
)

export const limits = group('Bounds on what clients and origins may use.', {
  head: setting(size('4K', '1M'), '64K').says('Size of a request’s head.'),
  connections: setting(integer(1, 1_000_000), 4096).says(
    'Client connections at once; further ones are closed when they come.',
  ),
  memory: setting(size('0', '64G'), '64M').says('Memory for small files in demand.'),
  origin_connections: setting(integer(1, 10_000), 16).says(
    'Connections to one origin at once, and as many again for what is passed through to single clients.',
  ),
})
