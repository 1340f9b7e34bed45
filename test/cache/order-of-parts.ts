/** The order in which the parts of both services are made. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { packageRoot } from '../../lib/package.ts'

/** Where parts are made: the file, the function, and how many it makes at least. */
const places: ReadonlyArray<readonly [file: string, name: string, parts: number]> = [
  ['lib/cache/service.ts', 'startWith', 15],
  ['lib/cache/answering.ts', 'makeAnswerParts', 8],
  ['lib/cache/reporting.ts', 'operationsOf', 4],
  ['lib/auth/service.ts', 'start', 7],
  ['lib/auth/service.ts', 'openState', 7],
  ['lib/auth/service.ts', 'makeParts', 14],
  ['lib/auth/service.ts', 'makeListeners', 12],
  ['lib/auth/shared-state/shared-state.ts', 'openSharedState', 8],
]

for (const [file, name, least] of places) {
  t.test(`${name}: no part is handed anything that is made after it`, async t => {
    const source = readFileSync(join(packageRoot(), file), 'utf8')
    const begin = source.indexOf(`async function ${name}(`)
    const body = source.slice(begin, source.indexOf('\n}\n', begin))
    const made = [...body.matchAll(/^ {2}(?:const|let) (\w+|\{[^}]*\}) =/gm)]
    t.ok(made.length >= least, 'the parts are found')
    for (const { 1: names = '', index } of made) {
      // Names of members are none of ours.
      const before = body.slice(0, index).replaceAll(/'[^']*'|\/\/.*|\w+\??:|(?<!\.\.)\.\w+/g, '')
      for (const [part] of names.matchAll(/\w+/g)) {
        t.notMatch(before, new RegExp(`\\b${part}\\b`), part)
      }
    }
  })
}
