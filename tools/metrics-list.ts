/**
 * docs/metrics.md, the list of all metrics, made from the code that measures. `npm run manual` writes it; a test fails while it is
 * out of date.
 */
import type { MetricFacts } from '../lib/metrics.ts'

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
    'Both services answer with the Prometheus text format: cachesvc at `/_cachesvc/metrics` of every listener, authproxy at `/metrics` of `admin.listenAddress`. Counters begin at 0 at each start.',
    ...watching,
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

/** The steps that add the metrics, the alerts and the dashboards to a running Prometheus and Grafana. */
const watching = [
  '## Alerts and dashboards',
  '`packaging/monitoring/` has rules for alerts and dashboards for Grafana. The Debian packages install them in `/usr/share/doc/cachesvc/examples/` and `/usr/share/doc/authproxy/examples/`. Copy the rules to the machine of Prometheus. They know the services by the names of these two jobs, in `prometheus.yml`:',
  `<!-- run by test/monitoring.ts -->
\`\`\`yaml
rule_files:
  - /etc/prometheus/cachesvc-alerts.yaml
  - /etc/prometheus/authproxy-alerts.yaml
scrape_configs:
  - job_name: cachesvc
    metrics_path: /_cachesvc/metrics
    static_configs:
      - targets: [proxy.example.org:3142]
  - job_name: authproxy
    static_configs:
      - targets: [app.example.org:9080]                   # admin.listenAddress of each instance
\`\`\``,
  'cachesvc needs no setting for this, unless `index.clients` names who may read its pages: then it has to name the machine of Prometheus. authproxy answers at `admin.listenAddress`, if that is set. It asks for no password there, so let a packet filter admit only Prometheus.',
  '`promtool check config /etc/prometheus/prometheus.yml` and `sudo systemctl reload prometheus` put it in force. Which person an alert reaches is a matter of Alertmanager; the label `severity` is `critical` or `warning`. In Grafana, Dashboards > New > Import takes each `…-dashboard.json`; the list at the top of the dashboard has the data source.',
]

function table(metrics: readonly MetricFacts[]): string {
  const rows = metrics.map(({ name, type, help, labels }) => [
    `\`${name}\``,
    type,
    unitOf(name, help),
    labels.map(label => `\`${label}\``).join(', '),
    help,
  ])
  return [['Name', 'Type', 'Unit', 'Labels', 'Meaning'], Array(5).fill('---'), ...rows]
    .map(cells => `| ${cells.join(' | ')} |`)
    .join('\n')
}

/** The unit that a name ends with. Seconds of a moment are those since 1970. */
function unitOf(name: string, help: string): string {
  if (help.includes('since the epoch')) return 'seconds since 1970'
  const base = name.replace(/_total$/, '')
  return (
    ['timestamp_seconds', 'seconds', 'bytes']
      .find(unit => base.endsWith(`_${unit}`))
      ?.replace('timestamp_seconds', 'seconds since 1970') ?? 'number'
  )
}
