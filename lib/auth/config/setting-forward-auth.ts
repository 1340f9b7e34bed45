/**
 * The settings under `forwardAuth`: an edge that forwards requests itself and asks about each whether it may pass.
 */
import { isAbsolute } from 'node:path'
import { network, readListenAddress } from '../../config/address-kinds.ts'
import { mismatch, type ReadResult, readResult } from '../../config/reading.ts'
import { secretPlace } from '../../config/secret-place.ts'
import { oneOf } from '../../config/setting-kinds.ts'
import { group, type Kind, kind, listOf, optionalSetting, setting } from '../../config/settings.ts'
import type { ListenAddress, SocketPath } from '../../http/server/listen.ts'
import { domain } from './setting-kinds.ts'

/** The edges whose contract is known (forward-auth/contract.ts). */
export const edges = ['nginx', 'traefik', 'caddy', 'envoy', 'haproxy'] as const

export type Edge = (typeof edges)[number]

export type CheckAddress = ListenAddress | SocketPath

/** Bytes of the name of a socket (unix(7), sun_path). */
const LONGEST_NAME = 107

/** `unix:/PATH`, or an address with a port. */
const checkAddress: Kind<CheckAddress> = kind(
  { name: 'unix:/PATH or ADDRESS:PORT', json: { type: ['string', 'integer'] } },
  readCheckAddress,
)

export function readCheckAddress(found: unknown): ReadResult<CheckAddress> {
  if (typeof found !== 'string' || !found.startsWith('unix:')) return readListenAddress(found)
  const what = 'a socket such as unix:/run/authproxy/app-auth.sock'
  const path = found.slice('unix:'.length)
  if (!isAbsolute(path) || path.endsWith('/')) return mismatch(found, what)
  // Other characters would end or continue a line in the unit of the socket.
  if (/[^!-~]|\\/.test(path)) {
    return mismatch(
      found,
      what,
      'the name has a character that is not printable ASCII, a space or a backslash',
    )
  }
  return Buffer.byteLength(path) > LONGEST_NAME
    ? mismatch(found, what, `at most ${LONGEST_NAME} bytes behind unix:`)
    : readResult({ path })
}

export const forwardAuth = group(
  'Checks for an edge that forwards requests to the application itself, and asks about each of them whether it may pass (nginx auth_request, Traefik ForwardAuth, Caddy forward_auth, Envoy ext_authz, HAProxy).',
  {
    listenAddress: optionalSetting(
      checkAddress,
      'none: no checks are answered',
      'forwardAuth:\n  listenAddress: unix:/run/authproxy/app-auth.sock\n  edge: nginx',
    )
      .needsRestart('forwardAuth.listen')
      .needs('forwardAuth.edge', 'name the one that asks: nginx, traefik, caddy, envoy or haproxy')
      .says(
        'Where checks are answered, only at `/check`: `unix:/PATH` for a socket in the file system, or an address with a port. Browsers must never reach it. Logins, logouts and `/__authproxy/` stay at `proxy.listenAddress`, where the edge must route `/saml/` and paths that begin with `/__authproxy`.',
        'Every local program may connect to the socket, unless the permissions of its directory prevent that. The packaged service has `/run/authproxy` for it.',
        'Forms of a POST are not kept over a login, WebSockets and event streams do not end with the session, and the application must not be reachable past the edge (`docs/forward-auth.md`).',
      ),
    edge: optionalSetting(oneOf(...edges), 'none: required with `listenAddress`')
      .needs('forwardAuth.listenAddress')
      .says(
        'The reverse proxy that asks. It decides which one field names the method, the path and the host of a request; a check without it, or with it twice, is answered with 400. The last address in `X-Forwarded-For` that is not among `trustedProxies` is the client (`docs/forward-auth.md`).',
      ),
    trustedProxies: setting(
      listOf(network, 'networks'),
      [],
      'forwardAuth:\n  listenAddress: 10.0.0.5:9090\n  edge: traefik\n  trustedProxies: [10.0.0.0/28]',
    )
      .needs('forwardAuth.listenAddress')
      .says(
        'Peers that may ask, and proxies in `X-Forwarded-For` that are not the client. Required unless `listenAddress` is a socket in the file system. A peer that is not among them gets 403.',
      ),
    secretFile: optionalSetting(secretPlace, 'none')
      .needs('forwardAuth.listenAddress')
      .says(
        'File with a secret of at least 16 characters that the edge has to send in `X-Authproxy-Edge-Secret`: a path, or `credential:NAME` for a credential of systemd (`LoadCredential=`). A line break at its end is ignored.',
      ),
    hosts: setting(listOf(domain, 'host names'), [])
      .needs('forwardAuth.listenAddress')
      .says(
        'Hosts that may be asked about; `domain` when the list is empty. Sessions are of one host, so there can be no other: an application under another name needs an instance of its own.',
      ),
  },
)
