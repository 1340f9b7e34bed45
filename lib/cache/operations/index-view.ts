/**
 * The index page: what this service is, how it is set up, and whether it is well. Pure.
 */
import type { View } from '../../template.ts'
import type { Config } from '../config/config.ts'
import type { HostPattern } from '../config/setting-kinds.ts'
import { type Endpoint, hostInUri } from './endpoint.ts'
import { count, duration } from './figures.ts'
import type { Health, HttpsMode, Listener, OperationsSources } from './sources.ts'

const httpsWords: Readonly<Record<HttpsMode, readonly [label: string, meaning: string]>> = {
  tunnel: ['Tunnel', 'HTTPS is carried through unread; what it carries is not cached.'],
  intercept: [
    'Intercept',
    'HTTPS is read and cached; clients must trust this service’s certificate. Hosts can be excepted.',
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
    authority: authorityView(sources),
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

/** At most so many clients are named; the others are counted. */
const mostNamed = 20

/** The CA, how long it lasts, and who does not trust it. */
function authorityView({ https, clock }: OperationsSources): View | undefined {
  const state = https?.()
  if (state === undefined) return undefined
  const { subject, fingerprint, notAfter, expiresSoon, remembered, distrusting } = state
  const more = distrusting.length - mostNamed
  return {
    subject,
    fingerprint,
    expires: new Date(notAfter).toISOString().slice(0, 10),
    expiresSoon,
    expired: notAfter <= clock.now(),
    distrust: remembered > 0,
    remembered: duration(remembered),
    anyDistrusting: distrusting.length > 0,
    distrusting: distrusting.slice(0, mostNamed).map(({ client, host, since }) => ({
      client,
      host,
      since: `${new Date(since).toISOString().slice(0, 16).replace('T', ' ')} UTC`,
    })),
    more: more > 0 ? `and ${count(more)} more` : '',
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
