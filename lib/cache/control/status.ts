/**
 * The answers to `cachesvc status` and `cachesvc stats`, as values and as text.
 */

import { count, countOf, elapsedText, percent, rate, size } from '../../figures.ts'
import { formatAuthority } from '../../http/message/target.ts'
import { redactUrl } from '../../log/redact.ts'
import { reachableUrl, type ServiceState, serviceState } from '../operations/endpoint.ts'
import type { OperationsSources, StatusPart } from '../operations/sources.ts'
import { contradictionsText } from '../operations/state-text.ts'
import { hitRate, type StatisticsReport, trafficSaved } from '../stats/report.ts'
import { type Counters, noCounters } from '../stats/statistics.ts'

/** The JSON that `cachesvc status --json` prints. */
export type Status = Awaited<ReturnType<typeof statusOf>>

/** The state of the service now. Moments are ISO 8601, sizes are bytes, times are seconds. */
export async function statusOf(sources: OperationsSources) {
  const { version, config, clock, addresses, listeners, parents, origins } = sources
  const { is, because, full, cautions } = await serviceState(sources)
  const { started, rates, connections, waitingForRate, arriving } = sources.activity()
  const { objects, bytes, filesystem } = await sources.usage()
  const unreferenced = sources.unreferenced()
  return {
    version,
    state: is,
    ...(because !== '' && { because }),
    cautions,
    process: process.pid,
    started: new Date(started).toISOString(),
    uptime: Math.round((clock.now() - started) / 1000),
    listening: listeners().map(({ address = '*', port, secure }) => {
      return `${secure ? 'https' : 'http'}://${formatAuthority({ host: address, port })}`
    }),
    setup: `${reachableUrl(config, addresses(), listeners())}/_cachesvc/setup`,
    ...(config.parentProxy && { parents: parents() }),
    origins: origins(),
    connections,
    ...(waitingForRate > 0 && { waitingForRate }),
    unconfirmed: sources.unconfirmed().map(({ since, lasts, ...origin }) => ({
      ...origin,
      since: new Date(since).toISOString(),
      seconds: Math.round(lasts / 1000),
    })),
    // The rates are averages per second over the last minute.
    rates,
    downloads: arriving.map(({ key, received, length }) => ({
      url: key,
      received,
      ...(length !== undefined && { length }),
    })),
    // Errors of archives: paths that indexes of one suite name with different contents.
    contradictions: sources.suites().flatMap(({ name, contradictions = [] }) =>
      contradictions.map(one => ({
        suite: redactUrl(name),
        files: one.count,
        examples: one.examples,
        text: contradictionsText(one),
      })),
    ),
    ...(unreferenced && {
      unreferenced: {
        files: unreferenced.files,
        bytes: unreferenced.bytes,
        removed_files: unreferenced.removedFiles,
        removed_bytes: unreferenced.removedBytes,
      },
    }),
    store: {
      directory: config.cacheDirectory,
      files: objects,
      bytes,
      ...(filesystem && { free: filesystem.free }),
      ...(full && { full }),
    },
  }
}

/** What the features say in `cachesvc status`. */
export function statusParts({ features }: OperationsSources): readonly StatusPart[] {
  return features.flatMap(({ status }) => status?.() ?? [])
}

const states: Readonly<Record<ServiceState['is'], string>> = {
  ready: 'ready',
  doubtful: 'ready, with something to look after',
  broken: 'not ready',
}

const mostListed = 20

export function statusText(status: Status, parts: readonly StatusPart[]): string {
  const { state, because, downloads, store, unreferenced } = status
  const line = (name: string, text: string) => `${name.padEnd(13)}${text}\n`
  const reasons = [...(because === undefined ? [] : [because]), ...status.cautions]
  const rows = downloads
    .slice(0, mostListed)
    .map(({ url, received, length }) =>
      line('', `${size(received)}${length === undefined ? '' : ` of ${size(length)}`}  ${url}`),
    )
  const more = downloads.length - mostListed
  // The number of free bytes would suggest that there is room.
  const room = store.free === undefined ? '' : `, ${size(store.free)} free`
  const free = store.full === true ? ', full' : room
  return [
    `cachesvc ${status.version} is ${states[state]}\n`,
    ...reasons.map(reason => `  ${reason}\n`),
    line('Running', `for ${elapsedText(status.uptime * 1000)}, process ${status.process}`),
    line('Listening', status.listening.join(', ')),
    line('Clients', `set them up with ${status.setup}`),
    line('Connections', `${count(status.connections)} of clients${heldBack(status)}`),
    line(
      'Last minute',
      `${rate(status.rates.requests)} requests and ${size(Math.round(status.rates.bytes))} a second`,
    ),
    ...(status.parents ?? []).map(({ name, answered, failed, because }, at) => {
      // A caution has the reason.
      const state = because === undefined ? '' : ', fails now'
      const figures = `${count(answered)} answered, ${count(failed)} failed`
      return line(at === 0 ? 'Parents' : '', `${name}: ${figures}${state}`)
    }),
    ...status.origins
      .slice(0, mostListed)
      .map(({ origin, text }, n) => line(n === 0 ? 'Origins' : '', `${origin} ${text}`)),
    line('Downloads', downloads.length === 0 ? 'none' : `${count(downloads.length)} running`),
    ...rows,
    ...(more > 0 ? [line('', `and ${count(more)} more`)] : []),
    ...status.contradictions
      .slice(0, mostListed)
      .map(({ suite, text }, n) => line(n === 0 ? 'Disputed' : '', `${suite}: ${text}`)),
    line('Store', `${countOf(store.files, 'file')}, ${size(store.bytes)}${free}`),
    line('', store.directory),
    ...parts.flatMap(({ lines }) => lines.map(({ name, text }) => line(name, text))),
    ...(unreferenced === undefined
      ? []
      : [
          line(
            'Unreferenced',
            `${countOf(unreferenced.files, 'file')}, ${size(unreferenced.bytes)} that no index names; removed so far: ${countOf(unreferenced.removed_files, 'file')}, ${size(unreferenced.removed_bytes)}`,
          ),
        ]),
  ].join('')
}

function heldBack({ waitingForRate = 0 }: Status): string {
  if (waitingForRate === 0) return ''
  return `; content of ${countOf(waitingForRate, 'client')} waits for \`limits.per_client.rate\``
}

/** A table of the days, with today first and the total last. */
export function statsText({ totals, daily, oldest_day }: StatisticsReport, today: string): string {
  const isToday = daily[0]?.date === today
  const rows: ReadonlyArray<readonly [string, Counters]> = [
    ...(isToday ? [] : [['today', noCounters] as const]),
    ...daily.map(day => [day.date === today ? 'today' : day.date, day] as const),
    ['total', totals],
  ]
  const cells = rows.map(([name, of]) => [
    name,
    ...[of.requests, of.hits, of.misses, of.tunnel].map(count),
    percent(hitRate(of)),
    ...[of.traffic_up, of.traffic_down, trafficSaved(of)].map(size),
  ])
  const table = [
    ['', 'requests', 'hits', 'misses', 'tunnels', 'hit rate', 'sent', 'fetched', 'saved'],
    ...cells,
  ]
  const widths = table[0]?.map((_, i) => Math.max(...table.map(row => row[i]?.length ?? 0))) ?? []
  const lines = table.map(row =>
    row.map((cell, i) => (i === 0 ? cell.padEnd(12) : cell.padStart(widths[i] ?? 0))).join('  '),
  )
  return `${lines.join('\n')}\n\nThe total begins on ${oldest_day}.\n`
}
