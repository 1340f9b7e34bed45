/**
 * What the feature `deny` is in a running service: the refusal of files, the record of what clients were given, and what pages say.
 */
import { stopStep } from '../../../daemon.ts'
import { countOf } from '../../../figures.ts'
import type { FeatureReport } from '../../operations/sources.ts'
import type { Core, Joints } from '../feature.ts'
import { DenyList } from './deny-list.ts'
import { GivenRecord } from './given-record.ts'
import { denyMetrics } from './metrics.ts'
import type { DenyRow } from './row.ts'

export async function joints(core: Core): Promise<Joints> {
  const { cacheDirectory, clock, rules, metrics } = core
  const log = core.log.child({ part: 'deny' })
  const list = await DenyList.open({ ...core, log })
  const isOn = () => rules().config.statistics.recall
  const record = new GivenRecord({ cacheDirectory, clock, log, isOn })
  const denied = denyMetrics(metrics, () => list.rows.length)
  return {
    refuse: list.refuse,
    answered: exchange => {
      if (exchange.response.facts?.['because'] === 'deny') denied.add({})
      record.note(exchange)
    },
    report: reportOf(list, () => rules().config.deny.length > 0),
    stops: [
      { when: 'work', step: stopStep('stop reading the deny list', 1000, () => list.close()) },
      { when: 'last', step: stopStep('write what clients were given', 5000, () => record.close()) },
    ],
  }
}

/** The most rows on the cache page, and the most ranges of one in words. */
const mostShown = 100
const mostVersions = 10

function reportOf(list: DenyList, isSet: () => boolean): FeatureReport {
  const rowsText = () => countOf(list.rows.length, 'row')
  return {
    cautions: () => {
      const text = `an earlier list of denied packages is in force: ${list.problem}`
      return list.problem === undefined ? [] : [{ text, upkeep: true }]
    },
    status: () =>
      isSet()
        ? {
            members: { denied: list.rows.map(rowText) },
            lines: [{ name: 'Denied', text: rowsText() }],
          }
        : undefined,
    sections: () => {
      const more = list.rows.length - mostShown
      const section = {
        id: 'denied',
        title: 'Denied packages',
        paragraphs: [`${rowsText()} of \`deny\`: these packages are answered 403.`],
        remarks: more > 0 ? [`${countOf(more, 'more row')}: see cachesvc status --json.`] : [],
        rows: list.rows.slice(0, mostShown).map(row => ({ name: row.package, text: rowText(row) })),
      }
      return isSet() ? [section] : []
    },
  }
}

function rowText({ package: name, source, ranges, architecture, reason, until }: DenyRow): string {
  const versions = ranges
    .slice(0, mostVersions)
    .map(range => range.map(({ relation, version }) => `${relation} ${version}`).join(', '))
  if (ranges.length > mostVersions) versions.push('…')
  const end = until === undefined ? '' : ` (before ${new Date(until).toISOString().slice(0, 10)})`
  const what = [source && 'source', name, versions.join('; '), architecture].filter(Boolean)
  return `${what.join(' ')}: ${reason}${end}`
}
