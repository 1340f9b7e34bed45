import t from 'tap'
import { cachesvc } from '../../../../lib/cache/cli/arguments.ts'
import { readArguments } from '../../../../lib/command-line.ts'

t.test('a build is exported in one of five formats', async t => {
  const read = (format: string) =>
    readArguments(cachesvc, ['build', 'export', 'base', '--format', format], '/srv')
  t.match(read('list'), { line: { operands: ['export', 'base'], options: { format: 'list' } } })
  t.throws(() => read('xml'), /bundle, list, spdx, cyclonedx or in-toto/)
})
