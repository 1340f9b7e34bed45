/**
 * What Prometheus and Grafana are given, held against the metrics of the code: the list of metrics, the alert rules and the dashboards.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { AuthMetrics } from '../lib/auth/metrics.ts'
import { listMetrics } from '../lib/cache/reporting.ts'
import { isRecord } from '../lib/json.ts'
import { packageRoot } from '../lib/package.ts'
import { metricsList } from '../tools/metrics-list.ts'
import { attempt, lacking } from './fixtures/process/command.ts'

const folder = join(packageRoot(), 'packaging/monitoring')
const names = readdirSync(folder)
const read = (name: string) => readFileSync(join(folder, name), 'utf8')
const services = { cachesvc: listMetrics(), authproxy: AuthMetrics.list() }

t.test('docs/metrics.md is what the code measures', async t => {
  const [path, content] = metricsList(services)
  t.equal(readFileSync(join(packageRoot(), path), 'utf8'), content, 'run `npm run manual`')
})

t.test('rules and dashboards name metrics that there are', async t => {
  const known = new Set(
    Object.values(services).flatMap(metrics =>
      metrics.flatMap(({ name, type }) =>
        type === 'histogram' ? ['_bucket', '_sum', '_count'].map(end => name + end) : [name],
      ),
    ),
  )
  for (const name of names) {
    const words = read(name).match(/\b(?:cachesvc|authproxy|process|nodejs)_[a-z0-9_]+/g) ?? []
    t.ok(words.length > 10, name)
    for (const word of new Set(words)) t.ok(known.has(word), `${name}: ${word}`)
  }
})

/** All texts of the members called `expr`. */
function expressions(value: unknown): readonly string[] {
  if (Array.isArray(value)) return value.flatMap(expressions)
  if (!isRecord(value)) return []
  const { expr, ...others } = value
  return [...(typeof expr === 'string' ? [expr] : []), ...expressions(Object.values(others))]
}

const lacks = { skip: lacking('promtool') }

t.test('promtool reads every rule, and every expression of the dashboards', lacks, async t => {
  const directory = t.testdir()
  const dashboards = names.filter(name => name.endsWith('.json'))
  const rules = dashboards
    .flatMap(name => expressions(JSON.parse(read(name))))
    .map(expr => expr.replaceAll('$__rate_interval', '5m').replaceAll('$instance', '.*'))
    .map((expr, n) => ({ record: `panel${n}`, expr }))
  t.ok(rules.length > 30)
  const panels = join(directory, 'panels.yaml')
  writeFileSync(panels, JSON.stringify({ groups: [{ name: 'panels', rules }] }))
  const alerts = names.filter(name => name.endsWith('.yaml')).map(name => join(folder, name))
  const { code, stdout, stderr } = await attempt('promtool', ['check', 'rules', panels, ...alerts])
  t.equal(code, 0, `${stdout}${stderr}`)
})

t.test('promtool takes the configuration of docs/metrics.md', lacks, async t => {
  const [, yaml = ''] =
    /```yaml\n(rule_files:.*?)```/s.exec(
      readFileSync(join(packageRoot(), 'docs/metrics.md'), 'utf8'),
    ) ?? []
  const file = join(t.testdir(), 'prometheus.yml')
  writeFileSync(file, yaml.replaceAll('/etc/prometheus', folder))
  const { code, stdout, stderr } = await attempt('promtool', ['check', 'config', file])
  t.equal(code, 0, `${stdout}${stderr}`)
})

t.test('panels of a dashboard have numbers of their own and do not overlap', async t => {
  for (const name of names.filter(name => name.endsWith('.json'))) {
    const {
      panels,
    }: { panels: ReadonlyArray<{ id: number; gridPos: Record<'x' | 'y' | 'w' | 'h', number> }> } =
      JSON.parse(read(name))
    t.equal(new Set(panels.map(({ id }) => id)).size, panels.length)
    const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, n) => `${x + (n % w)} ${y + Math.floor(n / w)}`),
    )
    t.equal(new Set(cells).size, cells.length, name)
  }
})

const day = 86_400
/** For each alert: series of a minute each that raise it, and series that do not. promtool's clock begins at 0. */
const alerts: Readonly<Record<string, readonly [raise: Series, leave: Series]>> = {
  CachesvcDown: [{ 'up{job="cachesvc"}': '0x120' }, { 'up{job="cachesvc"}': '1x120' }],
  CachesvcStoresNothing: [
    { cachesvc_store_writable: '0x120' },
    { cachesvc_store_writable: '1x120' },
  ],
  CachesvcDiskNearlyFull: [
    { cachesvc_filesystem_free_bytes: '1000000x120' },
    { cachesvc_filesystem_free_bytes: '2000000000x120' },
  ],
  CachesvcSuiteBehind: [
    { cachesvc_suites_behind_seconds: '3000+60x120' },
    { cachesvc_suites_behind_seconds: '600x120' },
  ],
  CachesvcOriginUnconfirmed: [
    { cachesvc_unconfirmed_origins: '1x120' },
    { cachesvc_unconfirmed_origins: '0x120' },
  ],
  CachesvcOriginsFail: [
    {
      'cachesvc_requests_total{outcome="failed"}': '0+10x120',
      'cachesvc_requests_total{outcome="hit"}': '0+90x120',
    },
    {
      'cachesvc_requests_total{outcome="failed"}': '0+1x120',
      'cachesvc_requests_total{outcome="hit"}': '0+99x120',
    },
  ],
  CachesvcWrongContent: [
    { 'cachesvc_wrong_content_total{code="size"}': '0+1x120' },
    { 'cachesvc_wrong_content_total{code="size"}': '7x120' },
  ],
  CachesvcDiskDamagesFiles: [
    { cachesvc_damaged_contents: '1x120' },
    { cachesvc_damaged_contents: '0x120' },
  ],
  CachesvcVerificationOverdue: [
    { cachesvc_verification_timestamp_seconds: '1x200' },
    { cachesvc_verification_timestamp_seconds: '0x200' },
  ],
  CachesvcAuthorityEnds: [
    { cachesvc_authority_expiry_timestamp_seconds: `${20 * day}x120` },
    { cachesvc_authority_expiry_timestamp_seconds: `${40 * day}x120` },
  ],
  CachesvcOpenFilesNearLimit: [
    {
      'process_open_fds{job="cachesvc"}': '900x120',
      'process_max_fds{job="cachesvc"}': '1000x120',
    },
    {
      'process_open_fds{job="cachesvc"}': '100x120',
      'process_max_fds{job="cachesvc"}': '1000x120',
    },
  ],
  CachesvcEventLoopSlow: [
    { 'nodejs_eventloop_lag_p99_seconds{job="cachesvc"}': '0.7x120' },
    { 'nodejs_eventloop_lag_p99_seconds{job="cachesvc"}': '0.1x120' },
  ],
  AuthproxyDown: [{ 'up{job="authproxy"}': '0x120' }, { 'up{job="authproxy"}': '1x120' }],
  AuthproxyMetadataExpires: [
    { authproxy_idp_metadata_valid_until_seconds: '50000x120' },
    { authproxy_idp_metadata_valid_until_seconds: `${2 * day}x120` },
  ],
  AuthproxyMetadataOld: [
    { authproxy_idp_metadata_fetched_seconds: '1x200' },
    { authproxy_idp_metadata_fetched_seconds: '0x200' },
  ],
  AuthproxyIdpCertificateEnds: [
    { authproxy_idp_certificate_ends_seconds: `${10 * day}x120` },
    { authproxy_idp_certificate_ends_seconds: `${20 * day}x120` },
  ],
  AuthproxyOwnCertificateEnds: [
    { authproxy_own_certificate_ends_seconds: `${20 * day}x120` },
    { authproxy_own_certificate_ends_seconds: '0x120' },
  ],
  AuthproxyLoginsFail: [
    { 'authproxy_failures_total{category="SAML-ERROR"}': '0+2x120' },
    { 'authproxy_failures_total{category="SAML-ERROR"}': '0+1x120' },
  ],
  AuthproxyBackendFails: [
    {
      'authproxy_failures_total{category="PROXY-ERROR"}': '0+10x120',
      'authproxy_requests_total{outcome="failed",status="5xx"}': '0+10x120',
    },
    {
      'authproxy_failures_total{category="PROXY-ERROR"}': '0+1x120',
      'authproxy_requests_total{outcome="forwarded",status="2xx"}': '0+99x120',
    },
  ],
  AuthproxyRequestsWait: [
    { authproxy_backend_requests_waiting: '50x120' },
    { authproxy_backend_requests_waiting: '0 50 0 0 0 0x120' },
  ],
  AuthproxyOpenFilesNearLimit: [
    {
      'process_open_fds{job="authproxy"}': '900x120',
      'process_max_fds{job="authproxy"}': '1000x120',
    },
    {
      'process_open_fds{job="authproxy"}': '100x120',
      'process_max_fds{job="authproxy"}': '1000x120',
    },
  ],
  AuthproxyEventLoopSlow: [
    { 'nodejs_eventloop_lag_p99_seconds{job="authproxy"}': '0.7x120' },
    { 'nodejs_eventloop_lag_p99_seconds{job="authproxy"}': '0.1x120' },
  ],
}
type Series = Readonly<Record<string, string>>

t.test('each alert is raised when it should be, and only then', lacks, async t => {
  const rules = names.filter(name => name.endsWith('.yaml'))
  const there = rules.flatMap(name =>
    [...read(name).matchAll(/alert: (\w+)/g)].map(([, alert]) => alert),
  )
  t.strictSame(there.toSorted(), Object.keys(alerts).toSorted())
  const rule_files = rules.map(name => join(folder, name))
  const directory = t.testdir()
  for (const long of [false, true]) {
    const of = Object.entries(alerts).filter(([, [raise]]) => isLong(raise) === long)
    // All series that raise alerts together, and all that do not: they are different ones.
    const tests = [0, 1].map(n => ({
      interval: long ? '30m' : '1m',
      input_series: of
        .flatMap(([, series]) => Object.entries(series[n] ?? {}))
        .map(([name, values]) => ({ series: name, values })),
      promql_expr_test: of.map(([alert]) => ({
        expr: `count(ALERTS{alertname="${alert}",alertstate="firing"}) or vector(0)`,
        eval_time: long ? '4500m' : '90m',
        exp_samples: [{ labels: '{}', value: n === 0 ? 1 : 0 }],
      })),
    }))
    const evaluation_interval = long ? '30m' : '1m'
    const file = join(directory, `${long ? 'days' : 'minutes'}.yaml`)
    writeFileSync(file, JSON.stringify({ rule_files, evaluation_interval, tests }))
    const { code, stdout, stderr } = await attempt('promtool', ['test', 'rules', file])
    t.equal(code, 0, `${stdout}${stderr}`)
  }
})

function isLong(series: Series): boolean {
  return Object.values(series).some(values => values.endsWith('x200'))
}
