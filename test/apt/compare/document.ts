/**
 * The tables of bench/compared-apt.md are those that the comparison goes by.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { packageRoot } from '../../../lib/package.ts'
import { bounds, differences, documented } from '../../fixtures/compare/bounds.ts'

t.test('the document has each bound and each deliberate difference', t => {
  const text = readFileSync(join(packageRoot(), 'bench/compared-apt.md'), 'utf8')
  for (const row of documented()) t.ok(text.includes(`${row}\n`), row)
  t.equal(documented().length, bounds.length + differences.length)
  t.end()
})
