/**
 * docs/metrics.md, the list of all metrics, made from the code that measures. `npm run manual` writes it; a test fails while it is
 * out of date.
 */
import type { MetricFacts } from '../metrics.ts'

/** The path of the list in the repository and its text. */
export function metricsList(
  services: Readonly<Record<'cachesvc' | 'authproxy', readonly MetricFacts[]>>,
): readonly [path: string, content: string] {
  const own = (service: 'cachesvc' | 'authproxy') =>
    services[service].filter(({ name }) => name.startsWith(`${service}_`))
  const process = services.cachesvc.filter(({ name }) => !name.startsWith('cachesvc_'))
  const parts = [
    '<!-- Written by `npm run manual` from the code that measures: change that, not this file. -->',
    '# Metrics',
    'Both services answer with the Prometheus text format: cachesvc at `/_cachesvc/metrics` of every listener, authproxy at `/metrics` of `admin.listenAddress`. Counters begin at 0 at each start. `packaging/monitoring/` has rules for alerts and dashboards for Grafana, made of these metrics.',
    '## cachesvc',
    'A host is a label only after a file of it was served, and only the first 64 are; all others are `other`. Suites are labels while they are behind, at most 20.',
    table(own('cachesvc')),
    '## authproxy',
    'No label has the name of a user, a path or a host.',
    table(own('authproxy')),
    '## Both: the process',
    table(process),
  ]
  return ['docs/metrics.md', `${parts.join('\n\n')}\n`]
}

function table(metrics: readonly MetricFacts[]): string {
  const rows = metrics.map(({ name, type, help, labels }) => [
    `\`${name}\``,
    type,
    unitOf(name),
    labels.map(label => `\`${label}\``).join(', '),
    help,
  ])
  return [['Name', 'Type', 'Unit', 'Labels', 'Meaning'], Array(5).fill('---'), ...rows]
    .map(cells => `| ${cells.join(' | ')} |`)
    .join('\n')
}

/** The unit that a name ends with. */
function unitOf(name: string): string {
  const base = name.replace(/_total$/, '')
  return (
    ['timestamp_seconds', 'seconds', 'bytes']
      .find(unit => base.endsWith(`_${unit}`))
      ?.replace('timestamp_seconds', 'seconds since 1970') ?? 'number'
  )
}
