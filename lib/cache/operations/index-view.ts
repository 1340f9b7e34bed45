/**
 * The values of the index page: what this service is and how it is set up. Pure.
 */
import { formatAuthority } from '../../http/message/target.ts'
import type { View } from '../../template.ts'
import type { Config } from '../config/config.ts'
import type { Endpoint } from './endpoint.ts'
import { count, date, duration, moment } from './figures.ts'
import type { Listener, OperationsSources } from './sources.ts'

export function indexView(sources: OperationsSources, here: Endpoint): View {
  const { config, httpsMode, routing } = sources
  return {
    url: here.url,
    mode: { tunnel: false, intercept: false, disabled: false, [httpsMode]: true },
    authority: authorityView(sources),
    listeners: sources.listeners().map(listener => listenerView(listener, here)),
    ...hostsView(config),
    rules: routing,
    clients: config.clients,
    // Host and port: credentials never reach a page.
    parent: config.parentProxy === undefined ? '' : formatAuthority(config.parentProxy),
    contact: config.index.contact.trim(),
  }
}

/** At most so many clients are named; the others are counted. */
const mostNamed = 20

/** The CA, how long it lasts, and the clients that do not trust it. */
function authorityView({ https, clock }: OperationsSources): View | undefined {
  const state = https()
  if (state === undefined) return undefined
  const { subject, fingerprint, notAfter, expiresSoon, remembered, distrusting } = state
  const more = distrusting.length - mostNamed
  return {
    subject,
    fingerprint,
    expires: date(notAfter),
    expiresSoon,
    expired: notAfter <= clock.now(),
    distrust: remembered > 0,
    remembered: duration(remembered),
    distrusting: distrusting
      .slice(0, mostNamed)
      .map(({ client, host, since }) => ({ client, host, since: moment(since) })),
    more: more > 0 ? `and ${count(more)} more` : '',
  }
}

function listenerView({ address, port, secure }: Listener, here: Endpoint): View {
  const authority = formatAuthority({ host: address ?? here.host, port })
  return {
    url: `${secure ? 'https' : 'http'}://${authority}/`,
    reach: address ?? 'every address of this machine',
    secure,
  }
}

function hostsView({ domains, passthroughDomains }: Config): View {
  return {
    domains: domains.map(({ text }) => text),
    passthrough: passthroughDomains.map(({ text }) => text),
    open: domains.length === 0 && passthroughDomains.length === 0,
    dotted: [...domains, ...passthroughDomains].some(pattern => pattern.subdomains),
  }
}
