import t from 'tap'
import { cachesvc } from '../../../../lib/cache/cli/arguments.ts'
import { readArguments } from '../../../../lib/command-line.ts'

t.test('release takes a day, which means its end, or a moment', async t => {
  const until = (text: string) =>
    readArguments(cachesvc, ['release', 'a.example.org', `--until=${text}`], '/srv')
  t.match(until('2026-11-01'), { line: { options: { until: Date.parse('2026-11-02') } } })
  t.match(until('2026-11-01T08:00Z'), {
    line: { options: { until: Date.parse('2026-11-01T08:00Z') } },
  })
  for (const text of ['1 November', '2026-13-01', '2026-11-01T08:00']) {
    t.throws(() => until(text), /a day such as 2026-11-01/)
  }
})
