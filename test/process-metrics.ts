import { openSync } from 'node:fs'
import t from 'tap'
import { Metrics, measureProcess } from '../lib/metrics.ts'
import { attempt, lacking } from './fixtures/process/command.ts'

function measured(): Metrics {
  const metrics = new Metrics()
  measureProcess(metrics)
  return metrics
}

/** The values of a text, by name and labels. */
function valuesOf(text: string): ReadonlyMap<string, number> {
  const lines = text.split('\n').filter(line => line !== '' && !line.startsWith('#'))
  return new Map(lines.map(line => [line.replace(/ \S+$/, ''), Number(/\S+$/.exec(line))]))
}

t.test('the figures of the process are those the system and Node.js tell', async t => {
  const metrics = measured()
  const values = valuesOf(metrics.text())
  for (const [name, value] of values) t.ok(Number.isFinite(value) && value >= 0, `${name} ${value}`)
  const { user, system } = process.cpuUsage()
  const cpu = values.get('process_cpu_seconds_total') ?? Number.NaN
  t.ok(cpu > 0 && cpu <= (user + system) / 1e6, 'seconds of processor time, not microseconds')
  const heap = values.get('nodejs_heap_size_used_bytes') ?? 0
  t.ok(heap > 1e6 && heap < 4e9)
  t.ok((values.get('nodejs_heap_space_size_used_bytes{space="old"}') ?? 0) > 0)
  const [major] = process.versions.node.split('.')
  t.match(metrics.text(), `major="${major}"`)
  const start = values.get('process_start_time_seconds') ?? 0
  t.ok(start > Date.now() / 1000 - 24 * 3600 && start <= Date.now() / 1000)
})

t.test('proc(5) is read', { skip: process.platform !== 'linux' && 'not Linux' }, async t => {
  const metrics = measured()
  const before = valuesOf(metrics.text())
  const { rss } = process.memoryUsage()
  const resident = before.get('process_resident_memory_bytes') ?? 0
  t.ok(resident > rss / 2 && resident < rss * 2, `${resident} beside ${rss}`)
  t.ok((before.get('process_virtual_memory_bytes') ?? 0) > resident)
  t.ok((before.get('process_max_fds') ?? 0) >= 256)
  for (let opened = 0; opened < 5; opened += 1) openSync('/dev/null', 'r')
  const open = (values: ReadonlyMap<string, number>) => values.get('process_open_fds') ?? 0
  t.equal(open(valuesOf(metrics.text())), open(before) + 5)
})

t.test('each look tells of the event loop since the look before', async t => {
  const metrics = measured()
  const largest = () => valuesOf(metrics.text()).get('nodejs_eventloop_lag_max_seconds')
  largest()
  t.equal(largest(), 0, 'nothing was measured between two looks in one turn')
})

t.test('metrics of the process are named as their kind asks', async t => {
  const text = measured().text()
  t.match(text, /^nodejs_eventloop_lag_seconds /m)
  t.notMatch(text, /^# TYPE \S+_total gauge$/m)
  t.match(text, /^# TYPE process_cpu_seconds_total counter$/m)
  if (lacking('promtool') !== false) return
  const { code, stdout, stderr } = await attempt('promtool', ['check', 'metrics'], { input: text })
  t.equal(code, 0, `${stdout}${stderr}`)
})
