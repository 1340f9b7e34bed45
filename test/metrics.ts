import t from 'tap'
import { Metrics } from '../lib/metrics.ts'
import { attempt, lacking } from './fixtures/process/command.ts'

t.test('what is measured is told in the text format', async t => {
  const metrics = new Metrics()
  const requests = metrics.counter({
    name: 'requests_total',
    help: 'Requests.',
    labels: ['result'],
  })
  requests.add({ result: 'hit' })
  requests.add({ result: 'hit' }, 2)
  metrics.counter({ name: 'plain_total', help: 'Plain.' }).add({})
  metrics.histogram({ name: 'duration_seconds', help: 'Time.', buckets: [0.1, 1] }).observe({}, 0.5)
  let objects = 1
  metrics.reading({ name: 'objects', help: 'Stored.' }, () => objects)
  objects = 7
  const text = await metrics.text()
  for (const line of [
    '# TYPE requests_total counter',
    'requests_total{result="hit"} 3',
    'plain_total 1',
    'duration_seconds_bucket{le="1"} 1',
    'duration_seconds_sum 0.5',
    'objects 7',
  ]) {
    t.ok(text.includes(`${line}\n`), line)
  }
  t.match(metrics.contentType, /^text\/plain; version=0\.0\.4/)
})

t.test('two registries do not meet', async t => {
  const [one, other] = [new Metrics(), new Metrics()]
  one.counter({ name: 'x_total', help: 'x' }).add({})
  other.counter({ name: 'x_total', help: 'x' })
  t.match(await one.text(), 'x_total 1')
  t.match(await other.text(), 'x_total 0')
})

t.test('the process is measured when asked', async t => {
  t.match(await new Metrics({ process: true }).text(), /process_resident_memory_bytes \d+/)
})

t.test('metrics of the process are named as their kind asks', async t => {
  const text = await new Metrics({ process: true }).text()
  t.match(text, /^nodejs_eventloop_lag_seconds /m)
  t.notMatch(text, /^# TYPE \S+_total gauge$/m)
  if (lacking('promtool') !== false) return
  const { code, stdout, stderr } = await attempt('promtool', ['check', 'metrics'], { input: text })
  t.equal(code, 0, `${stdout}${stderr}`)
})
