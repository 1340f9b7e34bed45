/**
 * The part of cachesvc.yaml that counts: how long things are fresh, how long anybody waits, how much anybody may use.
 */
import { duration, integer, size } from '../../config/setting-kinds.ts'
import { group, setting } from '../../config/settings.ts'

export const verification = group(
  'Everything stored is checked now and then: indexes against their Release files, packages against indexes, content against its digest. What is wrong is logged as a repository-verification warning and removed, so that it is fetched again. `cachesvc verify-repos` does the same at once.',
  {
    interval: setting(duration('0s', '365d'), {
      default: '1d',
      manual: 'From the end of one check to the beginning of the next; 0 is never.',
    }),
    rate: setting(size('0', '100G'), {
      default: '64M',
      manual: 'How much is read a second at most, so that requests go first; 0 is no bound.',
    }),
  },
)

export const freshness = group(
  'For how long the origin need not be asked again. Files in a pool and files named by their hash never change and are not asked for again.',
  {
    index: setting(duration('0s', '1d'), {
      default: '1m',
      manual: 'For indexes and Release files, when the client does not insist on the newest.',
    }),
    other: setting(duration('0s', '365d'), {
      default: '1h',
      manual: 'For files that are neither indexes nor immutable, when the client does not insist.',
    }),
    negative: setting(duration('0s', '1h'), {
      default: '30s',
      manual: 'For a 404 the origin gave.',
    }),
    floor: setting(duration('0s', '5m'), {
      default: '5s',
      manual:
        'For anything, even when the client insists. apt insists on every index (`max-age=0`), and many machines ask in the same second.',
    }),
  },
)

export const timeouts = group(
  'The longest waits. apt gives up after 30 seconds without a byte: keep `connect` and `fields` together below that.',
  {
    connect: setting(duration('100ms', '5m'), {
      default: '8s',
      manual:
        'For the name look-up and the connection to an origin, a parent proxy or the far end of a tunnel.',
    }),
    fields: setting(duration('100ms', '10m'), {
      default: '15s',
      manual: 'From the request sent to the head of the origin’s response.',
    }),
    content: setting(duration('100ms', '10m'), {
      default: '25s',
      manual: 'For the next byte of the origin’s content.',
    }),
    revalidation: setting(duration('0s', '1m'), {
      default: '4s',
      manual:
        'How long a client waits while the origin is asked about something stored. After that it gets the stored copy, and the answer says so.',
    }),
    tunnel: setting(duration('1s', '1d'), {
      default: '10m',
      manual: 'The silence, in both directions, after which a tunnel is closed.',
    }),
    client_head: setting(duration('1s', '10m'), {
      default: '15s',
      manual: 'For a client to send the head of its request.',
    }),
    client_idle: setting(duration('1s', '1h'), {
      default: '2m',
      manual:
        'For an idle client connection. apt pauses between update and download: keep it above a minute.',
    }),
    client_stalled: setting(duration('1s', '1h'), {
      default: '1m',
      manual: 'For a client that does not take what it asked for.',
    }),
    drain: setting(duration('0s', '1h'), {
      default: '30s',
      manual: 'For running transfers when the daemon stops.',
    }),
  },
)

export const limits = group('Bounds on what clients and origins may use.', {
  head: setting(size('4K', '1M'), { default: '64K', manual: 'Size of a request’s head.' }),
  connections: setting(integer(1, 1_000_000), {
    default: 4096,
    manual: 'Client connections at once; further ones are closed when they come.',
  }),
  memory: setting(size('0', '64G'), {
    default: '64M',
    manual: 'Memory for small files in demand.',
  }),
  origin_connections: setting(integer(1, 10_000), {
    default: 16,
    manual:
      'Connections to one origin at once, and as many again for what is passed through to single clients.',
  }),
})
