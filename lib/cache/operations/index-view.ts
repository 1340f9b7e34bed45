/**
 * The index page: what this service is, how it is set up, and whether it is well. Pure.
 */
import type { View } from '../../template.ts'
import type { Config, HostPattern } from '../config.ts'
import { type Endpoint, hostInUri } from './endpoint.ts'
import type { Health, HttpsMode, Listener, OperationsSources } from './sources.ts'

const httpsWords: Readonly<Record<HttpsMode, readonly [label: string, meaning: string]>> = {
  tunnel: ['Tunnel', 'HTTPS is carried through unread; what it carries is not cached.'],
  intercept: [
    'Intercept',
    'HTTPS is read and cached; clients must trust this service’s certificate.',
  ],
  disabled: [
    'Disabled',
    'HTTPS through this proxy is refused; clients reach HTTPS archives directly.',
  ],
}

export function indexView(sources: OperationsSources, health: Health, here: Endpoint): View {
  const { config, httpsMode } = sources
  const [mode, modeMeaning] = httpsWords[httpsMode]
  return {
    url: here.url,
    ready: health.writable,
    because: health.because ?? 'the store cannot be written',
    mode,
    modeMeaning,
    intercepting: httpsMode === 'intercept',
    listeners: sources.listeners().map(listener => listenerView(listener, here)),
    ...hostsView(config),
    rules: sources.routing.map(({ from, to }) => ({ from, to })),
    routed: sources.routing.length > 0,
    everyClient: config.clients.length === 0,
    clients: config.clients,
    parent: parentProxy(config),
    contact: config.index.contact.trim(),
  }
}

function listenerView(listener: Listener, here: Endpoint): View {
  const scheme = listener.secure ? 'https' : 'http'
  const host = hostInUri(listener.address ?? here.host)
  return {
    url: `${scheme}://${host}:${listener.port}/`,
    reach: listener.address ?? 'every address of this machine',
    secure: listener.secure,
  }
}

function hostsView({ domains, passthroughDomains }: Config): View {
  return {
    domains: domains.map(textOf),
    passthrough: passthroughDomains.map(textOf),
    anyDomain: domains.length > 0,
    anyPassthrough: passthroughDomains.length > 0,
    open: domains.length === 0 && passthroughDomains.length === 0,
    dotted: [...domains, ...passthroughDomains].some(pattern => pattern.subdomains),
  }
}

function textOf(pattern: HostPattern): string {
  return pattern.text
}

/** Host and port; credentials never reach a page. */
function parentProxy({ parentProxy }: Config): string {
  return parentProxy === undefined ? '' : `${hostInUri(parentProxy.host)}:${parentProxy.port}`
}
