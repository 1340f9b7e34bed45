/**
 * Finds mistakes and dangers in the settings under `forwardAuth`. Pure.
 */
import { type Remarks, valueRemarks } from '../../../config/reading.ts'
import type { ListenAddress } from '../../../http/server/listen.ts'
import { isLoopback } from '../../../ip.ts'
import type { SettingValues } from '../settings.ts'

/** The remarks on the values. */
export function checkForwardAuth({ domain, proxy, admin, forwardAuth }: SettingValues): Remarks {
  const { problems, warnings, wrong, warn } = valueRemarks('forwardAuth')
  const { listenAddress, edge, trustedProxies, secretFile, hosts } = forwardAuth

  if (listenAddress === undefined) {
    const isSet = edge !== undefined || secretFile !== undefined || trustedProxies.length > 0
    if (isSet || hosts.length > 0) {
      wrong([], 'has no listenAddress, so no edge can ask; name where it asks')
    }
    return { problems, warnings }
  }
  if (edge === undefined) {
    wrong([], 'has no edge; name the one that asks: nginx, traefik, caddy, envoy or haproxy')
  }
  for (const [index, host] of hosts.entries()) {
    if (host !== domain) {
      wrong(
        ['hosts', index],
        `is not ${domain}: browsers send the cookie of a session to the host of its login alone, so no one could be signed in under another name; give that application an instance of its own`,
      )
    }
  }
  trustedProxies.forEach((network, index) => {
    const length = Number(network.split('/')[1])
    const [most, wide] = network.includes(':') ? [16, 48] : [8, 16]
    if (length < most) {
      wrong(
        ['trustedProxies', index],
        'is a network of strangers: every host in it could ask in the name of any client; name the edge',
      )
    } else if (length < wide) {
      warn(
        ['trustedProxies', index],
        'is a wide network: every host in it can ask, and claim any client address; name exact addresses',
      )
    }
  })
  if ('path' in listenAddress) return { problems, warnings }
  if (trustedProxies.length === 0) {
    wrong(
      ['listenAddress'],
      'needs forwardAuth.trustedProxies beside it: name the address of the edge, which alone may ask',
    )
  }
  for (const [name, other] of [
    ['proxy.listenAddress', proxy.listenAddress],
    ['admin.listenAddress', admin.listenAddress],
  ] as const) {
    if (other !== undefined && same(listenAddress, other)) {
      wrong(['listenAddress'], `is the same as ${name}; take another port`)
    }
  }
  const { address } = listenAddress
  if (secretFile === undefined && (address === undefined || !isLoopback(address))) {
    warn(
      ['listenAddress'],
      'is open to the network without a secret: set forwardAuth.secretFile, so that the edge alone can ask',
    )
  }
  return { problems, warnings }
}

/** Whether two listeners would use the same address and port. A listener without an address uses every address. */
function same(a: ListenAddress, b: ListenAddress): boolean {
  if (a.port === 0 || a.port !== b.port) return false
  return a.address === undefined || b.address === undefined || a.address === b.address
}
