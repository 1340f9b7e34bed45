import t from 'tap'
import { createLog } from '../../lib/log/log.ts'
import { requestLine } from '../../lib/log/request-line.ts'

const time = '09:00:48'
const target = 'http://archive.example.org/debian/pool/main/e/elfutils/libelf1_0.192-4_amd64.deb'
const miss = { method: 'GET', target, status: 200, sent: 193_000, duration: 35, outcome: 'miss' }

const columns = 104
const plain = { columns, colours: false }

t.test('columns stand below each other, and the target is shortened in its middle', async t => {
  const table: ReadonlyArray<readonly [facts: Readonly<Record<string, unknown>>, line: string]> = [
    [miss, 'MISS      200    188 KiB   35 ms archive.example.org …/libelf1_0.192-4_amd64.deb'],
    [
      { ...miss, outcome: 'hit', sent: 1_500_000_000, duration: 3210, complete: false },
      'HIT       200   1.40 GiB   3.2 s archive.example.org …/libelf1_0.192-4_amd64.deb (broken off)',
    ],
    [
      { ...miss, status: 403, sent: 121, duration: 1, outcome: 'refused', because: 'ports' },
      'REFUSED   403  121 bytes    1 ms archive.example.org …/libelf1_0.192-4_amd64.deb (ports)',
    ],
    [
      { ...miss, method: 'POST', target: 'app.example.org/x', outcome: 'forwarded', user: 'alice' },
      'FORWARDED 200    188 KiB   35 ms POST app.example.org/x (user alice)',
    ],
    [
      {
        ...{ method: 'GET', target: '/_cachesvc/live', status: 200, sent: 2488 },
        ...{ duration: 18_900, outcome: 'operations', complete: false },
      },
      'OPERATIONS 200   2.43 KiB  18.9 s /_cachesvc/live',
    ],
    [
      { ...miss, target: 'app.example.org/', outcome: undefined, duration: 7_200_000 },
      '-         200    188 KiB 120 min app.example.org/',
    ],
    [
      { ...miss, target: 'https://a.example.org/x/y?z=/1' },
      'MISS      200    188 KiB   35 ms https://a.example.org/x/y?z=/1',
    ],
  ]
  for (const [facts, line] of table) {
    const found = requestLine(time, facts, plain) ?? ''
    t.equal(found, `${time} ${line}`)
    t.ok(found.length <= columns)
  }
})

t.test('a terminal that is narrow', async t => {
  for (const columns of [0, 10, 40, 60, 80]) {
    const line = requestLine(time, miss, { columns, colours: false }) ?? ''
    t.match(line, /_amd64\.deb$/, 'the end of the name stays')
    t.ok(line.length <= Math.max(columns, 66), `${line.length} of ${columns}`)
  }
})

t.test('colours tell hits, refusals and failures', async t => {
  const coloured = (facts: object): string =>
    requestLine(time, { ...miss, ...facts }, { columns, colours: true }) ?? ''
  t.match(coloured({ outcome: 'hit' }), '\u001b[32mHIT       200\u001b[0m ')
  t.match(coloured({ status: 404 }), '\u001b[33mMISS      404\u001b[0m ')
  t.match(coloured({ status: 503, outcome: 'failed' }), '\u001b[31mFAILED    503\u001b[0m ')
  t.notMatch(coloured({}), '\u001b')
})

t.test('what a client wrote cannot forge a line', async t => {
  const hostile = 'a\r\nb\u001b[2J\u202e'
  const facts = {
    ...miss,
    target: hostile,
    method: hostile,
    user: hostile,
    status: 400,
    because: hostile,
  }
  t.notMatch(requestLine(time, facts, plain), /[^ -~…]/)
})

t.test('other facts under that name are written as those of other events', async t => {
  const lines: string[] = []
  const log = createLog({ to: { write: line => lines.push(line) }, form: 'plain' })
  log.info('request', { status: 'none' })
  log.info('request', miss)
  t.match(lines[0], /INFO {2}request status=none\n$/)
  t.match(lines[1], /MISS {6}200 {4}188 KiB {3}35 ms archive\.example\.org.*\n$/)
})
