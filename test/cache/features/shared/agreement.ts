/**
 * `explain` and the answer agree about files that another node has put into the bucket, and about others.
 */
import t from 'tap'
import { agree, contentOf, kinds, packed, seen } from '../../../fixtures/cache/agreement.ts'
import { startNodes } from '../../../fixtures/features/shared/nodes.ts'
import { file } from '../../../fixtures/http/scripted-origin.ts'

t.setTimeout(600_000)

const hour = 3_600_000

t.test('a node with a bucket', async t => {
  const { origin, bucket, nodes, clock } = await startNodes(t, {
    ...{ count: 2, settings: { freshness: { floor: '0s' } } },
  })
  const [one, two] = nodes
  if (one === undefined || two === undefined) throw new Error('no node')
  let n = 0
  for (const pathOf of Object.values(kinds)) {
    for (const isThere of [true, false]) {
      for (const method of ['GET', 'HEAD'] as const) {
        for (const query of ['', '?a']) {
          n += 1
          const path = pathOf(n) + query
          const content = path.endsWith('.gz') ? packed : contentOf(n)
          origin.at(path, file({ content, etag: `"${n}"` }))
          if (isThere) await one.cache.warm(origin.url(path))
          if (isThere && query === '' && !/Release/.test(path)) {
            await one.cache.until(() => bucket.entries.has(origin.url(path)))
          }
          await agree(t, { cache: two.cache, origin }, { url: origin.url(path), method })
        }
      }
    }
  }
  clock.advance(hour)
})

t.test('every decision was compared', t => {
  for (const word of ['miss absent', 'miss head']) t.ok(seen.has(word), word)
  t.end()
})
