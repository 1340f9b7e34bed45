/**
 * The values of the overview. The page shows the activity and savings of the service, its clients, the latest problems and the settings
 * in short; the configuration page shows more of the settings.
 */
import type { Milliseconds } from '../../../async/clock.ts'
import {
  count,
  countOf,
  date,
  duration,
  elapsedText,
  moment,
  percent,
  rate,
  size,
  sizeView,
  timeOfDay,
} from '../../../figures.ts'
import { formatAuthority } from '../../../http/message/target.ts'
import { isLoopback } from '../../../ip.ts'
import { redactUrl } from '../../../log/redact.ts'
import type { View } from '../../../template.ts'
import type { Config } from '../../config/config.ts'
import type { HostPattern } from '../../config/setting-kinds.ts'
import type { AnsweredRequest, Run, Tally } from '../../stats/activity.ts'
import { hitRate, trafficSaved } from '../../stats/report.ts'
import { calendarDate, type Hour } from '../../stats/statistics.ts'
import type { Endpoint } from '../endpoint.ts'
import type { ActivityReport, Listener, OperationsSources } from '../sources.ts'
import { spark } from './chart.ts'

export async function indexView(sources: OperationsSources, here: Endpoint): Promise<View> {
  return {
    host: here.host,
    url: here.url,
    unused: isUnused(sources),
    ...diskView(await usageOf(sources), sources),
    ...rateLine(sources.history().lastDay),
    ...activityView(sources.activity(), sources),
    ...configurationView(sources, here),
  }
}

/** The values of the configuration page. The overview shows the most important of them. */
export function configurationView(sources: OperationsSources, here: Endpoint): View {
  const { config, httpsMode, routing } = sources
  return {
    mode: { tunnel: false, intercept: false, disabled: false, [httpsMode]: true },
    authority: authorityView(sources),
    listeners: sources.listeners().map(listener => listenerView(listener, here)),
    ...hostsView(config),
    rules: routing,
    clients: config.clients,
    guarded: config.index.clients.length > 0,
    // The page gets host and port of the parents only, so that it never shows credentials.
    parents: parentViews(sources),
    thenDirectly: config.parentProxy?.direct === true,
    contact: config.index.contact.trim(),
  }
}

function parentViews({ config, parents }: OperationsSources): readonly View[] {
  const named = (patterns: readonly HostPattern[]) => patterns.map(({ text }) => text).join(', ')
  const states = parents()
  return (config.parentProxy?.parents ?? []).map(parent => {
    const name = formatAuthority(parent)
    const because = states.find(state => state.name === name)?.because ?? ''
    return { name, only: named(parent.only), except: named(parent.except), because }
  })
}

const most = { runs: 12, problems: 15, names: 10, arriving: 10 }

/** Whether no other machine has sent a request yet. Then the page says how to use the service. */
function isUnused({ activity, statistics }: OperationsSources): boolean {
  const { clients } = activity()
  const ours = clients.reduce((sum, { requests }) => sum + requests, 0)
  return clients.every(({ name }) => isLoopback(name)) && statistics().totals.requests <= ours
}

/** The figures that open pages get again and again. */
export function liveFigures({ clock, activity, history }: OperationsSources) {
  const now = clock.now()
  const { lastDay, problemsToday } = history()
  const sum = (name: keyof Hour) => lastDay.reduce((all, hour) => all + hour[name], 0)
  const hits = sum('hits')
  const requests = hits + sum('misses') + sum('tunnel')
  const saved = trafficSaved({ traffic_up: sum('traffic_up'), traffic_down: sum('traffic_down') })
  const { started, rates, connections, arriving, clientsToday } = activity()
  return {
    uptime: elapsedText(now - started),
    requestRate: rate(rates.requests),
    byteRate: size(Math.round(rates.bytes)),
    dayRate: requests === 0 ? 'none' : percent(hitRate({ requests, hits })),
    dayRequests: countOf(requests, 'request'),
    daySaved: size(saved),
    clientsToday: count(clientsToday),
    problemsToday: count(problemsToday),
    connections: countOf(connections, 'connection'),
    transfers: countOf(arriving.length, 'download'),
  }
}

/** The hit rate of each hour as a line. `line` is false when there was no request. */
function rateLine(hours: readonly Hour[]): View {
  const rates = hours.map(({ hits, misses, tunnel }) => {
    const requests = hits + misses + tunnel
    return requests === 0 ? undefined : hitRate({ requests, hits })
  })
  const known = rates.filter(rate => rate !== undefined)
  if (known.length === 0) return { line: false }
  const words = (at: number, value: number) =>
    `${timeOfDay(hours[at]?.from ?? 0).slice(0, 5)} UTC: ${percent(value)}`
  const [least, most] = [percent(Math.min(...known)), percent(Math.max(...known))]
  const range =
    least === most
      ? `${least} in each hour with requests`
      : `Between ${least} and ${most} in an hour with requests`
  return { line: { ...spark(rates, words), range } }
}

type Usage = Awaited<ReturnType<OperationsSources['usage']>>

/** The usage of the store; undefined when the disk fails, so that the page can show its other values. */
async function usageOf(sources: OperationsSources): Promise<Usage | undefined> {
  try {
    return await sources.usage()
  } catch {
    return undefined
  }
}

/** The values about the space of the cache: the quota if there is one, else the file system. */
function diskView(usage: Usage | undefined, { config, nothingStored }: OperationsSources): View {
  const { bytes, filesystem } = usage ?? { bytes: 0, filesystem: undefined }
  const quota = config.retention.size
  const { used, free } = filesystem ?? { used: 0, free: 0 }
  const room = used + free
  const limit = quota > 0 ? quota : room
  const share = (part: number) => Math.min(1, part / Math.max(1, limit))
  const full = nothingStored() !== undefined
  const taken = share(bytes)
  return {
    stored: usage === undefined ? 'unknown' : size(bytes),
    quota: quota > 0 && size(quota),
    free: room > 0 && `${size(free)} free`,
    gauge: usage !== undefined &&
      limit > 0 && {
        taken: (taken * 100).toFixed(1),
        words: `${percent(taken)} of the ${quota > 0 ? 'quota' : 'file system'}`,
      },
    full,
  }
}

function activityView(activity: ActivityReport, sources: OperationsSources): View {
  const { clock, config } = sources
  const now = clock.now()
  const { started, arriving, runs, problems, archives, clients } = activity
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
    startedToday: calendarDate(started) === calendarDate(now),
    problems: problems.slice(0, most.problems).map(one => {
      return { ...answeredView(one, now), by: `${one.client}, ${one.agent}` }
    }),
    runs: runs.slice(0, most.runs).map(run => runView(run, now)),
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
    last: now - last < 60_000 ? 'just now' : `${elapsedText(now - last)} ago`,
  }
}

function runView(
  { client, agent, first, last, requests, ...figures }: Readonly<Run>,
  now: Milliseconds,
): View {
  const earlier = figures.count - requests.length
  return {
    client,
    agent,
    day: date(first) === date(now) ? '' : `${date(first)} `,
    first: { at: timeOfDay(first), instant: new Date(first).toISOString() },
    last: { at: timeOfDay(last), instant: new Date(last).toISOString() },
    requests: countOf(figures.count, 'request'),
    hits: countOf(figures.hits, 'hit'),
    sent: size(figures.bytes),
    problems: figures.problems > 0 && countOf(figures.problems, 'problem'),
    answers: [...requests].reverse().map(one => ({ ...answeredView(one, now), by: '' })),
    earlier: earlier > 0 && `${countOf(earlier, 'earlier request')}`,
  }
}

function answeredView(answered: AnsweredRequest, now: Milliseconds): View {
  const { at, method, target, status, outcome, bytes, complete, slowClient, notStored } = answered
  const because = notStored === undefined ? answered.because : `served, not stored: ${notStored}`
  const isFile = /^https?:\/\//.test(target)
  return {
    at: date(at) === date(now) ? timeOfDay(at) : moment(at),
    instant: new Date(at).toISOString(),
    target: shown(target),
    method: method === 'GET' ? '' : method,
    explain: isFile ? `/_cachesvc/explain?url=${encodeURIComponent(linked(target))}` : '',
    status,
    outcome,
    because: complete
      ? because
      : `${because}, cut off${slowClient ? ': the client read too slowly' : ''}`,
    sent: size(bytes),
  }
}

const longestShown = 300

/** A URL for people: apt escapes the plus signs of versions. */
export function withPlus(url: string): string {
  return url.replace(/%2B/gi, '+')
}

/** A target as the page shows it. The page hides queries, which can contain signatures. */
function shown(target: string): string {
  return withPlus(linked(target))
}

/** The same as it is asked for. */
function linked(target: string): string {
  const text = redactUrl(target).replace(/\?.*$/, '?...')
  return text.length > longestShown ? `${text.slice(0, longestShown)}...` : text
}

/** The most clients that the page names. It counts the others. */
const mostNamed = 20

/** The values about the CA, its expiry and the clients that do not trust it; undefined without a CA. */
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
