import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { readDenyFiles } from '../../../../lib/cache/features/deny/rows.ts'
import { packageRoot } from '../../../../lib/package.ts'
import { blocksIn } from '../../../fixtures/documents/blocks.ts'

const directory = t.testdir()

async function read(text: string) {
  const path = join(directory, 'deny.yaml')
  writeFileSync(path, text)
  const found = await readDenyFiles([path])
  return 'rows' in found ? found.rows : found.problem.replace(`${directory}/`, '')
}

t.test('rows in YAML', async t => {
  const rows = await read(`
- package: xz-utils
  versions: ">= 5.6.0, << 5.6.1+really5.4.5"
  architecture: amd64
  reason: CVE-2024-3094
  until: 2026-11-30
- package: hello
  source: true
  versions: ["1.0", ">= 2"]
  reason: it greets
- { package: bye, reason: all of it }
`)
  t.match(rows, [
    {
      package: 'xz-utils',
      source: false,
      ranges: [[{ relation: '>=', version: '5.6.0' }, { relation: '<<' }]],
      architecture: 'amd64',
      until: Date.parse('2026-12-01'),
    },
    { source: true, ranges: [[{ relation: '=', version: '1.0' }], [{ version: '2' }]] },
    { package: 'bye', ranges: [[]], until: undefined },
  ])
  t.strictSame(await read('# nothing yet\n'), [])
  t.strictSame(await read('[]'), [])
})

t.test('the rows of the document', async t => {
  const rows = blocksIn(packageRoot()).find(
    ({ path, language }) => path === 'docs/deny.md' && language === 'yaml',
  )
  t.match(await read(rows?.text ?? ''), [
    { package: 'xz-utils' },
    { source: true, ranges: { length: 2 } },
  ])
})

t.test('what is wrong, and where', async t => {
  for (const [text, words] of [
    [
      '- package: hello\n  versions: 1.0\n  reason: x',
      /^deny.yaml:2:13: \[0\].versions\[0\]: .*quotes/,
    ],
    ['- package: hello', /^deny.yaml:1:3: .*reason not set/],
    ['- reason: x', /package not set/],
    ['- {package: Hello, reason: x}', /the name of a package/],
    ['- {package: hello, reason: x, unless: y}', /unless: no such setting/],
    ['- {package: hello, reason: x, until: soon}', /a day/],
    ['hello: 1', /expected a list/],
    ['- [', /not closed/],
    ['x'.repeat(5_000_000), /larger than 4 MiB/],
  ] as const)
    t.match(await read(text), words)
  const absent = join(directory, 'absent')
  t.match(await readDenyFiles([absent]), { problem: `${absent}: there is no such file` })
  t.match(await readDenyFiles([directory]), { problem: /it is a directory|not a regular file/ })
  const row = { package: 'hello', reason: 'x' }
  const osv = {
    id: 'X',
    affected: [{ package: { ecosystem: 'Debian:12', name: 'a' }, versions: ['1'] }],
  }
  t.match(await read(JSON.stringify([row])), [row], 'JSON is YAML')
  t.match(await read(JSON.stringify(Array(300_000).fill(osv))), /more than 100000 rows/)
  const [affected] = osv.affected
  const versions = Array.from({ length: 10_001 }, (_, n) => `${n}`)
  const long = { id: 'X', affected: [{ ...affected, versions }] }
  t.match(await read(JSON.stringify(long)), /more than 10000 ranges of a$/)
})
