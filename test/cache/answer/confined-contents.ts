/**
 * Which contents of the store may be given under a name that they did not come under.
 */
import t from 'tap'
import { ConfinedContents } from '../../../lib/cache/answer/confined-contents.ts'
import { confinementOf, confinementsOf } from '../../../lib/cache/policy/routing.ts'
import { fetchedKey, keepingKey } from '../../../lib/cache/store/key.ts'
import { parseUri } from '../../../lib/http/message/target.ts'
import { config } from '../../fixtures/cache/cache-config.ts'
import { createMemoryLog } from '../../fixtures/log/memory-log.ts'

const paid = 'archive.example.org/paid'
const second = 'archive.example.org/second'

function contents(
  stored: ReadonlyArray<readonly [key: string, digest: string]>,
  origins: readonly string[] = [paid, second],
) {
  const archives = origins.map(origin => ({ origins: [origin], clients: ['192.0.2.0/24'] }))
  const state = { archives: archives as readonly object[], fails: false, unnamed: 'unnamed' }
  const log = createMemoryLog()
  const confined = new ConfinedContents({
    rules: () => ({
      confinements: confinementsOf(config(JSON.stringify({ archives: state.archives }))),
    }),
    store: {
      async *list() {
        await Promise.resolve()
        if (state.fails) throw new Error('the disk fails')
        yield stored.map(([key, digest]) => ({ key, digest, size: 1, lastUsed: 0 }))
      },
      names: digest => digest !== state.unnamed,
    },
    log,
  })
  return { confined, state, log }
}

const soon = () => new Promise(resolve => setImmediate(resolve))
const url = (where: string) => `http://${where}/x`
const open = url('open.example.org')

t.test('nothing is shared until the store is read; then each content in its scope', async t => {
  const { confined } = contents([
    [url(paid), 'a'],
    [open, 'b'],
    [open, 'c'],
    [url(paid), 'c'],
    [url(second), 'd'],
    [url(paid), 'd'],
    [keepingKey('e'), 'e'],
    [open, 'f'],
    [keepingKey('f'), 'f'],
    [url(paid), 'g'],
    [keepingKey('g'), 'g'],
  ])
  t.equal(confined.shares('b', open), false, 'not yet')
  await soon()
  const table = [
    ['a', undefined, false],
    ['a', paid, true],
    ['a', second, false],
    ['b', undefined, true],
    ['b', paid, true],
    ['c', undefined, true],
    ['c', second, false],
    ['d', second, true],
    ['d', paid, true],
    ['d', undefined, false],
    ['e', undefined, false],
    ['e', paid, false],
    ['f', undefined, true],
    ['g', undefined, false],
    ['g', paid, true],
    ['unnamed', undefined, false],
    ['unnamed', paid, false],
  ] as const
  for (const [digest, scope, is] of table) {
    t.equal(
      confined.shares(digest, scope === undefined ? open : url(scope)),
      is,
      `${digest} for ${scope}`,
    )
  }
})

t.test('what comes later, what goes, other archives, a failing disk', async t => {
  const { confined, state, log } = contents([[url(paid), 'a']])
  confined.shares('a', open)
  confined.note({ key: url(paid), digest: 'e' })
  await soon()
  t.equal(confined.shares('e', open), false)
  confined.note({ key: keepingKey('e'), digest: 'e' })
  t.equal(confined.shares('e', open), false, 'that a build has it opens nothing')
  confined.note({ key: fetchedKey('f'), digest: 'f' })
  t.equal(confined.shares('f', open), false, 'nor that it was fetched for one')
  confined.note({ key: open, digest: 'e' })
  t.equal(confined.shares('e', open), true, 'it came from an open archive as well')
  confined.forget('a')
  t.equal(confined.shares('a', open), false, 'another entry that names it is arriving')
  state.unnamed = 'a'
  confined.forget('a')
  state.unnamed = ''
  t.equal(confined.shares('a', open), true, 'the store has it under an open name alone')
  state.archives = [{ origins: [second], clients: ['192.0.2.0/24'] }]
  t.equal(confined.shares('z', open), false, 'read anew')
  await soon()
  t.equal(confined.shares('a', open), true)
  state.archives = []
  t.equal(confined.shares('anything', open), true)
  state.archives = [{ origins: [paid], clients: ['192.0.2.0/24'] }]
  state.fails = true
  t.equal(confined.shares('z', open), false)
  await soon()
  t.equal(confined.shares('z', open), false)
  t.match(log.lines, [{ level: 'warn' }])
  state.fails = false
  await soon()
  confined.shares('z', open)
  await soon()
  t.equal(confined.shares('z', open), true, 'and is read again')
})

t.test(
  'what comes while the archive is not confined, or another one is, is confined later',
  async t => {
    for (const meanwhile of [[], [second]]) {
      const { confined, state } = contents([])
      const before = state.archives
      confined.shares('a', open)
      await soon()
      state.archives = meanwhile.map(origin => ({ origins: [origin], clients: ['192.0.2.0/24'] }))
      confined.note({ key: url(paid), digest: 'a' })
      state.archives = before
      t.equal(confined.shares('a', open), false, 'not until the store is read anew')
    }
  },
)

t.test('a reading that began before a change does not end the next one', async t => {
  const { confined, state } = contents([[url(paid), 'a']])
  const before = state.archives
  confined.shares('a', open)
  await Promise.resolve()
  state.archives = []
  confined.note({ key: url(paid), digest: 'b' })
  state.archives = before
  t.equal(confined.shares('b', open), false)
  await soon()
  t.equal(confined.shares('a', open), false)
})

t.test(
  'an archive is confined by http and by https, where both have their usual ports',
  async t => {
    for (const [origin, ...found] of [
      ['https://archive.example.org/paid', true, true, false, false],
      ['http://archive.example.org:80/paid', true, true, false, false],
      ['archive.example.org/paid', true, true, false, false],
      ['https://archive.example.org:8443/paid', false, false, true, false],
    ] as const) {
      const confinements = confinementsOf(
        config(JSON.stringify({ archives: [{ origins: [origin], clients: ['192.0.2.0/24'] }] })),
      )
      const places = ['http://', 'https://', 'https://:8443', 'http://:8443'].map(place => {
        const [scheme, port] = place.split('//')
        const uri = parseUri(`${scheme}//archive.example.org${port}/paid/x`)
        return 'problem' in uri || confinementOf(uri, confinements) !== undefined
      })
      t.strictSame(places, found, origin)
    }
  },
)
