/**
 * Two indexes of one suite that name one path with different contents: a client gets what the index it has fetched names.
 */
import t from 'tap'
import { disputed, disputedSuite } from '../../fixtures/archive/disputed-suite.ts'

t.setTimeout(300_000)

const pairs: ReadonlyArray<readonly [what: string, one: string, other: string, name?: 'Sources']> =
  [
    ['architectures', 'main/binary-i386', 'main/binary-amd64'],
    ['components', 'main/binary-amd64', 'contrib/binary-amd64'],
    ['binary-all beside an architecture', 'main/binary-all', 'main/binary-amd64'],
    ['sources', 'main/source', 'contrib/source', 'Sources'],
  ]

for (const [what, one, other, name] of pairs) {
  t.test(`the index of another machine decides nothing: ${what}`, async t => {
    const { has, update, gets, cache, clock, url } = await disputedSuite(
      t,
      [one, other],
      name && { name },
    )
    const right = { status: 200, text: `that of ${one}` }
    has(one)
    await update(2, one)
    await update(3, one)
    t.match(await gets(2), right, 'fetched')
    t.match(await gets(3), right, 'stored')
    await update(4, other)
    const refused = await gets(4)
    t.equal(refused.status, 520, 'the origin does not have what the index of this client names')
    t.match(refused.reason, /indexes of the archive contradict each other/)
    for (const machine of [2, 3]) t.match(await gets(machine), right, `machine ${machine}, still`)
    await update(5, one)
    const stored = await gets(5)
    t.match(stored, right, 'a machine that has updated since')
    t.match(stored.fields.get('X-Cache'), /^HIT/)
    await cache.restart()
    t.match(await gets(3), right, 'after a restart')
    clock.advance(120_000)
    has(other)
    await update(4, other)
    t.match(await gets(4), { status: 200, text: `that of ${other}` }, 'the other one gets its own')
    t.match(await cache.command({ do: 'explain', of: url(disputed) }), {
      out: new RegExp(`Contradiction +.*(${one}|${other}).* and .*(${one}|${other}).* error of`),
    })
  })
}

t.test(
  'a client whose index is not known gets what the origin has, if an index names it',
  async t => {
    const [one, other] = ['main/binary-i386', 'main/binary-amd64']
    const { has, update, gets, clock, origin } = await disputedSuite(t, [one, other])
    await update(2, one, other)
    for (const directory of [one, other, one]) {
      has(directory)
      clock.advance(120_000)
      t.match(await gets(9), { status: 200, text: `that of ${directory}` }, directory)
      t.match(await gets(2), { status: 200, text: `that of ${directory}` }, 'one with both indexes')
    }
    const before = origin.requests.length
    t.match((await gets(9)).fields.get('X-Cache'), /^HIT/)
    t.equal(origin.requests.length, before, 'it is fresh for a while')
    clock.advance(120_000)
    has(one, 'that of nobody at all..')
    t.not((await gets(9)).text, 'that of nobody at all..', 'no index names it')
  },
)

t.test('the suite and its package, one after the other with another Release', async t => {
  const [one, other] = ['main/binary-i386', 'main/binary-amd64']
  const { has, update, gets, cache } = await disputedSuite(t, [one, other])
  has(one)
  await update(2, one)
  await update(3, other)
  const lines = cache.log.lines.filter(({ message }) => /contradict/.test(message))
  t.equal(lines.length, 1, 'said once')
  t.match(lines[0]?.facts, { path: disputed, files: 1 })
  t.match(String(lines[0]?.facts['indexes']), /binary-i386.*binary-amd64/)
  t.match(await gets(2), { status: 200 })
  t.match(await cache.command({ do: 'status' }), {
    out: new RegExp(`Disputed +http.*stable: .*${disputed}`),
  })
  t.match(await cache.command({ do: 'status', json: true }), { out: /"contradictions": \[/ })
})
