import t from 'tap'
import { CacheMetrics } from '../../../lib/cache/operations/metrics.ts'
import type { Exchange } from '../../../lib/http/message/message.ts'

const none = () => 0

function metrics(): CacheMetrics {
  const metrics = new CacheMetrics()
  const gauges = {
    ...{ client_connections: none, origin_connections: none, fetches_under_way: none },
    ...{ files_being_written: none, stored_objects: none, stored_bytes: none },
    ...{
      damaged_contents: none,
      unremovable_contents: none,
      filesystem_free_bytes: none,
      store_writable: none,
    },
    ...{ adopted_suites: none, suites_being_adopted: none },
    ...{ unconfirmed_origins: none },
    ...{ suites_behind: none, suites_behind_seconds: none },
    ...{ refused_signatures: none, unreferenced_files: none, clients_waiting_for_rate: none },
  }
  metrics.read(
    gauges,
    () => [],
    () => [{ name: 'proxy.example.org:3128', answered: 3, failed: 1, because: 'it hangs' }],
  )
  return metrics
}

/** As much of an exchange as is counted. */
function exchange(outcome: string, origin: string | undefined, sent = 10): Exchange {
  const facts = { outcome, ...(origin !== undefined && { origin }) }
  return { response: { facts }, sent, complete: true, duration: 1 } as unknown as Exchange
}

t.test('requests and bytes are counted by archive and outcome', async t => {
  const counted = metrics()
  counted.exchange(exchange('failed', 'made-up.example.org', 0))
  counted.exchange(exchange('miss', 'archive.example.org', 7))
  counted.exchange(exchange('hit', 'archive.example.org', 7))
  counted.exchange(exchange('hit', 'archive.example.org', 7))
  counted.exchange(exchange('failed', 'archive.example.org', 1))
  counted.exchange(exchange('tunnel', 'tunnel.example.org'))
  counted.exchange(exchange('operations', undefined))
  const lines = (await counted.text()).split('\n').filter(line => /^cachesvc_archive_/.test(line))
  t.strictSame(lines.sort(), [
    'cachesvc_archive_requests_total{archive="archive.example.org",outcome="failed"} 1',
    'cachesvc_archive_requests_total{archive="archive.example.org",outcome="hit"} 2',
    'cachesvc_archive_requests_total{archive="archive.example.org",outcome="miss"} 1',
    'cachesvc_archive_requests_total{archive="other",outcome="failed"} 1',
    'cachesvc_archive_sent_bytes_total{archive="archive.example.org",outcome="failed"} 1',
    'cachesvc_archive_sent_bytes_total{archive="archive.example.org",outcome="hit"} 14',
    'cachesvc_archive_sent_bytes_total{archive="archive.example.org",outcome="miss"} 7',
    'cachesvc_archive_sent_bytes_total{archive="other",outcome="failed"} 0',
  ])
})

t.test('what archives do not have is counted apart from other failures', async t => {
  const counted = metrics()
  for (const [outcome, status] of [
    ['failed', 404],
    ['failed', 410],
    ['failed', 503],
    ['miss', 404],
    ['hit', 200],
  ] as const) {
    const { response, ...rest } = exchange(outcome, undefined)
    counted.exchange({ ...rest, response: { ...response, status } })
  }
  const text = await counted.text()
  t.match(text, /cachesvc_requests_total\{outcome="failed"\} 3\n/)
  t.match(text, /cachesvc_absent_files_total 2\n/)
})

t.test('archives beyond a bound are counted together', async t => {
  const counted = metrics()
  for (let n = 0; n < 100; n += 1) counted.exchange(exchange('miss', `a${n}.example.org`))
  const labels = new Set((await counted.text()).match(/archive="[^"]*"/g))
  t.equal(labels.size, 65)
  t.match(await counted.text(), /requests_total\{archive="other",outcome="miss"\} 36\n/)
})
