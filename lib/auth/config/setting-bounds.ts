/**
 * Settings that bound time and size: `timeouts` and `limits`.
 */
import { duration, integer, size } from '../../config/setting-kinds.ts'
import { group, setting } from '../../config/settings.ts'

export const timeouts = group('How long is waited, for whom.', {
  connect: setting(duration('100ms', '5m'), '10s').says(
    'For a connection to the backend, each of: name, TCP, TLS.',
  ),
  response: setting(duration('1s', '1d'), '5m').says(
    'For the backend to answer a request that has been sent to its end.',
  ),
  content: setting(duration('0s', '1d'), '0s').says(
    'The longest silence within a response of the backend; 0 for any, as event streams need.',
  ),
  tunnel: setting(duration('0s', '7d'), '0s').says(
    'The longest silence on a WebSocket; 0 for any. Dead peers are found by TCP keep-alive.',
  ),
  clientHead: setting(duration('1s', '5m'), '30s').says(
    'For a client to send the head of a request.',
  ),
  clientContent: setting(duration('1s', '1h'), '1m').says(
    'The longest silence of a client within the content of a request.',
  ),
  clientTaking: setting(duration('1s', '1h'), '2m').says(
    'For a client to take a block of a response.',
  ),
  clientIdle: setting(duration('1s', '1h'), '75s').says(
    'How long a connection of a client, or of the edge, is kept between requests.',
  ),
  drain: setting(duration('0s', '10m'), '30s').says(
    'How long running requests may take when the service stops. WebSockets and event streams are ended at once.',
  ),
})

export const limits = group('How much is taken.', {
  head: setting(size('8K', '4M'), '1M').says('The size of a request’s head.'),
  fields: setting(integer(20, 2000, 'a number of fields'), 900).says(
    'Field lines of a request. Servers of Node drop what comes behind the thousandth in silence.',
  ),
  responseHead: setting(size('8K', '4M'), '256K').says(
    'The size of the head of a backend’s response.',
  ),
  connections: setting(integer(10, 1_000_000, 'a number of connections'), 10_000).says(
    'Connections of clients.',
  ),
  backendConnections: setting(integer(1, 100_000, 'a number of connections'), 512).says(
    'Connections to the backend, WebSockets not counted. Requests beyond wait.',
  ),
})
