/**
 * Settings that bound time and size: `timeouts` and `limits`.
 */
import { duration, integer, size } from '../../config/setting-kinds.ts'
import { group, setting } from '../../config/settings.ts'

export const timeouts = group('Time limits.', {
  connect: setting(duration('100ms', '5m'), '10s').says(
    'Time limit for a connection to the backend, for each of name look-up, TCP and TLS.',
  ),
  response: setting(duration('1s', '1d'), '5m').says(
    'Time limit for the backend to answer a request that has been sent completely.',
  ),
  content: setting(duration('0s', '1d'), '0s').says(
    'Idle timeout within a response of the backend. 0 is no limit, which event streams need.',
  ),
  tunnel: setting(duration('0s', '7d'), '0s').says(
    'Idle timeout of a WebSocket. 0 is no limit; TCP keep-alive detects dead peers.',
  ),
  clientHead: setting(duration('1s', '5m'), '30s').says(
    'Time limit for a client to send the head of a request.',
  ),
  clientContent: setting(duration('1s', '1h'), '1m').says(
    'Idle timeout of a client within the content of a request.',
  ),
  clientTaking: setting(duration('1s', '1h'), '2m').says(
    'Time limit for a client to read a block of a response.',
  ),
  clientIdle: setting(duration('1s', '1h'), '75s').says(
    'Idle timeout of a connection of a client or the edge between requests.',
  ),
  drain: setting(duration('0s', '10m'), '30s').says(
    'Time limit for running requests when the service stops. WebSockets and event streams end at once.',
  ),
})

export const limits = group('Limits on sizes and numbers.', {
  head: setting(size('8K', '4M'), '1M').says('Most bytes of the head of a request.'),
  fields: setting(integer(20, 2000, 'a number of fields'), 900).says(
    'Most header lines of a request. Node servers ignore lines after the thousandth without an error.',
  ),
  responseHead: setting(size('8K', '4M'), '256K').says(
    'Most bytes of the head of a backend’s response.',
  ),
  connections: setting(integer(10, 1_000_000, 'a number of connections'), 10_000).says(
    'Most connections of clients.',
  ),
  backendConnections: setting(integer(1, 100_000, 'a number of connections'), 512).says(
    'Most connections to the backend, not counting WebSockets. Further requests wait. Requests that last longer than a second may have as many again.',
  ),
})
