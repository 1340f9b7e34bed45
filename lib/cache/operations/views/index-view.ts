/**
 * The values of the index page. It shows what the service does, which clients use it, what went wrong, and how it is set up.
 * Pure.
 */
import type { Milliseconds } from '../../../async/clock.ts'
import { formatAuthority } from '../../../http/message/target.ts'
import { redactUrl } from '../../../log/redact.ts'
import type { View } from '../../../template.ts'
import type { Config } from '../../config/config.ts'
import {
  count,
  countOf,
  date,
  duration,
  elapsed,
  moment,
  percent,
  rate,
  size,
  sizeView,
  timeOfDay,
} from '../../figures.ts'
import type { AnsweredRequest, Tally } from '../../stats/activity.ts'
import { hitRate, trafficSaved } from '../../stats/report.ts'
import { calendarDate, noCounters } from '../../stats/statistics.ts'
import type { Endpoint } from '../endpoint.ts'
import type { ActivityReport, Listener, OperationsSources } from '../sources.ts'

export function indexView(sources: OperationsSources, here: Endpoint): View {
  const { config, httpsMode, routing } = sources
  return {
    url: here.url,
    ...activityView(sources.activity(), sources),
    mode: { tunnel: false, intercept: false, disabled: false, [httpsMode]: true },
    authority: authorityView(sources),
    listeners: sources.listeners().map(listener => listenerView(listener, here)),
    ...hostsView(config),
    rules: routing,
    clients: config.clients,
    guarded: config.index.clients.length > 0 || config.index.password !== undefined,
    // Host and port: credentials never reach a page.
    parent: config.parentProxy === undefined ? '' : formatAuthority(config.parentProxy),
    directly: config.parentProxy?.except.map(({ text }) => text).join(', ') ?? '',
    contact: config.index.contact.trim(),
  }
}

/** Lines of each table. */
const most = { requests: 15, problems: 15, names: 10, arriving: 10 }

/** The figures that open pages get anew all the time. */
export function liveFigures({ clock, statistics, activity }: OperationsSources) {
  const now = clock.now()
  const today = statistics().daily.find(({ date }) => date === calendarDate(now)) ?? noCounters
  const { started, rates, connections, arriving } = activity()
  return {
    uptime: elapsed(now - started),
    requestRate: rate(rates.requests),
    byteRate: size(Math.round(rates.bytes)),
    todayRate: percent(hitRate(today)),
    todayRequests: countOf(today.requests, 'request'),
    todaySaved: size(trafficSaved(today)),
    connections: count(connections),
    transfers: countOf(arriving.length, 'download'),
  }
}

/** What the service does now, and what happened lately. */
function activityView(activity: ActivityReport, sources: OperationsSources): View {
  const { clock, config } = sources
  const now = clock.now()
  const { started, arriving, requests, problems, archives, clients } = activity
  const named = (all: readonly Tally[]) => all.slice(0, most.names).map(one => tallyView(one, now))
  return {
    ...liveFigures(sources),
    started: moment(started),
    arriving: [...(config.index.activity ? arriving : [])]
      .sort((a, b) => (b.length ?? b.received) - (a.length ?? a.received))
      .slice(0, most.arriving)
      .map(({ key, received, length }) => ({
        target: shown(key),
        received: size(received),
        length: length === undefined ? '' : size(length),
        share: length ? Math.min(100, Math.floor((received / length) * 100)) : undefined,
      })),
    showActivity: config.index.activity,
    problems: problems.slice(0, most.problems).map(one => answeredView(one, now)),
    requests: requests.slice(0, most.requests).map(one => answeredView(one, now)),
    archives: named(archives),
    clientTallies: named(clients),
  }
}

function tallyView({ name, requests, hits, bytes, last }: Tally, now: Milliseconds): View {
  return {
    name,
    requests: count(requests),
    rate: percent(requests === 0 ? 0 : hits / requests),
    sent: sizeView(bytes),
    last: now - last < 60_000 ? 'just now' : `${elapsed(now - last)} ago`,
  }
}

function answeredView(answered: AnsweredRequest, now: Milliseconds): View {
  const { at, client, method, target, status, outcome, bytes, complete, notStored } = answered
  const because = notStored === undefined ? answered.because : `served, not stored: ${notStored}`
  const isFile = /^https?:\/\//.test(target)
  return {
    at: date(at) === date(now) ? timeOfDay(at) : moment(at),
    instant: new Date(at).toISOString(),
    client,
    target: shown(target),
    method: method === 'GET' ? '' : method,
    explain: isFile ? `/_cachesvc/explain?url=${encodeURIComponent(shown(target))}` : '',
    status,
    outcome,
    because: complete ? because : `${because}, cut off`,
    sent: size(bytes),
  }
}

const longestShown = 300

/** Queries can carry signatures. */
function shown(target: string): string {
  const text = redactUrl(target).replace(/\?.*$/, '?...')
  return text.length > longestShown ? `${text.slice(0, longestShown)}...` : text
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

function hostsView({ domains, passthroughDomains, privateDomains }: Config): View {
  return {
    private: privateDomains.map(({ text }) => text),
    domains: domains.map(({ text }) => text),
    passthrough: passthroughDomains.map(({ text }) => text),
    open: domains.length === 0 && passthroughDomains.length === 0,
    dotted: [...domains, ...passthroughDomains, ...privateDomains].some(
      pattern => pattern.subdomains,
    ),
  }
}
