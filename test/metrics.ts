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
  const text = metrics.text()
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

t.test('a histogram counts in every bucket that is large enough', async t => {
  const metrics = new Metrics()
  const buckets = [0.1, 1, 10]
  const settings = { name: 'wait_seconds', help: 'Wait.', labels: ['result'] as const, buckets }
  const wait = metrics.histogram(settings)
  for (const value of [0.1, 0.5, 0.5, 20]) wait.observe({ result: 'hit' }, value)
  wait.observe({ result: 'miss' }, 2)
  metrics.histogram({ name: 'idle_seconds', help: 'Nothing seen.', buckets: [1] })
  const text = metrics.text()
  const own = text.split('\n').filter(line => line.includes('wait_seconds'))
  t.strictSame(own, [
    '# HELP wait_seconds Wait.',
    '# TYPE wait_seconds histogram',
    'wait_seconds_bucket{le="0.1",result="hit"} 1',
    'wait_seconds_bucket{le="1",result="hit"} 3',
    'wait_seconds_bucket{le="10",result="hit"} 3',
    'wait_seconds_bucket{le="+Inf",result="hit"} 4',
    'wait_seconds_sum{result="hit"} 21.1',
    'wait_seconds_count{result="hit"} 4',
    'wait_seconds_bucket{le="0.1",result="miss"} 0',
    'wait_seconds_bucket{le="1",result="miss"} 0',
    'wait_seconds_bucket{le="10",result="miss"} 1',
    'wait_seconds_bucket{le="+Inf",result="miss"} 1',
    'wait_seconds_sum{result="miss"} 2',
    'wait_seconds_count{result="miss"} 1',
  ])
  t.match(
    text,
    'idle_seconds_bucket{le="1"} 0\nidle_seconds_bucket{le="+Inf"} 0\nidle_seconds_sum 0\n',
  )
  if (lacking('promtool') !== false) return
  const { code, stdout, stderr } = await attempt('promtool', ['check', 'metrics'], { input: text })
  t.equal(code, 0, `${stdout}${stderr}`)
})

t.test('two registries do not meet', async t => {
  const [one, other] = [new Metrics(), new Metrics()]
  one.counter({ name: 'x_total', help: 'x' }).add({})
  other.counter({ name: 'x_total', help: 'x' })
  t.match(one.text(), 'x_total 1')
  t.match(other.text(), 'x_total 0')
})
