/** The order in which the parts of a store are made. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { StoreEvents } from '../../../lib/cache/store/events.ts'
import { packageRoot } from '../../../lib/package.ts'

t.test('no part is handed anything that is made after it, not even in a function', async t => {
  const source = readFileSync(join(packageRoot(), 'lib/cache/store/wiring.ts'), 'utf8')
  const wire = source.slice(source.indexOf('export function wire'))
  const made = [...wire.matchAll(/^ {2}const (\w+) =/gm)]
  t.ok(made.length > 15, 'the parts are found')
  for (const { 1: name = '', index } of made) {
    const before = wire.slice(0, index).replaceAll(/'[^']*'|\/\/.*|\.\w+/g, '')
    t.notMatch(before, new RegExp(`\\b${name}\\b`), name)
  }
})

t.test('every listener hears an event, in the order in which they began to listen', async t => {
  const events = new StoreEvents()
  const heard: string[] = []
  events.tell('changed', 'before')
  events.listen({ changed: digest => heard.push(`first ${digest}`) })
  events.listen({ proven: digest => heard.push(`other ${digest}`) })
  events.listen({ changed: digest => heard.push(`second ${digest}`) })
  events.tell('changed', 'a')
  t.strictSame(heard, ['first a', 'second a'])
})
