/**
 * Announces the proxy in the local network by multicast DNS (RFC 6762), as `_apt_proxy._tcp` (RFC 6763). The service loads this
 * file only when `mdns` is switched on.
 */
import { hostname } from 'node:os'
import Bonjour from 'bonjour-service'
import { isLoopback } from '../ip.ts'
import type { Logger } from '../log/log.ts'
import type { Listener } from './operations/sources.ts'

/**
 * Announces the first listener that other machines reach, and answers questions about it. Returns a function that withdraws the
 * announcement, or undefined when there is no such listener.
 */
export function announce(
  listeners: readonly Listener[],
  log: Logger,
): (() => Promise<void>) | undefined {
  const open = listeners.find(({ address = '', secure }) => !secure && !isLoopback(address))
  if (open === undefined) {
    log.warn('mDNS: the proxy listens only for this machine, and is not announced')
    return undefined
  }
  const { port } = open
  const warn = (error: unknown) => log.warn('mDNS: the proxy is not announced', { error })
  const bonjour = new Bonjour({}, warn)
  // The package does not listen for these errors itself, and an `error` event without a listener ends the process.
  const { mdns } = Reflect.get(bonjour, 'server')
  mdns.on('error', warn)
  mdns.on('warning', warn)
  const [name = ''] = hostname().split('.')
  // A probe would print to standard output. The names contain the names of the hosts, so they differ without one.
  const service = { name: `cachesvc on ${name}`, type: 'apt_proxy', host: `${name}.local` }
  bonjour.publish({ ...service, port, probe: false }).on('error', warn)
  log.info('mDNS: the proxy is announced', { service: '_apt_proxy._tcp', port })
  return async () => {
    await new Promise<void>(resolve => bonjour.unpublishAll(() => resolve()))
    await new Promise<void>(resolve => bonjour.destroy(() => resolve()))
  }
}
