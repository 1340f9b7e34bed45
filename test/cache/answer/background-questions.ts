/**
 * The turns of questions to a slow origin: how many at a time, in which order, and which are left out.
 */
import t from 'tap'
import { BackgroundQuestions } from '../../../lib/cache/answer/background-questions.ts'
import type { Entry } from '../../../lib/cache/store/entry.ts'
import type { TargetUri } from '../../../lib/http/message/target.ts'

const uri: TargetUri = { scheme: 'http', host: 'archive.example.org', port: 80, path: '/' }
const other: TargetUri = { ...uri, host: 'other.example.org' }

function entry(key: string, validated = 1): Entry {
  const times = { stored: 1, validated, initialAge: 0 }
  return { key, fields: [], digest: 'ab', size: 1, lastModified: '', ...times }
}

/** Questions to origins with so many connections. An origin answers when the test says so. */
function asking(connections: number) {
  const stored = new Map<string, Entry>()
  const asked: string[] = []
  const answers = new Map<string, () => void>()
  const fetcher = { closing: false }
  const questions = new BackgroundQuestions({
    store: { get: key => stored.get(key) },
    connectionsTo: () => connections,
    fetcher,
  })
  const add = (key: string, { validated = 1, at = uri } = {}) => {
    const about = entry(key, validated)
    stored.set(key, about)
    const ask = () => {
      asked.push(key)
      return new Promise<void>(resolve => answers.set(key, resolve))
    }
    questions.add(at, { entry: about, ask })
  }
  const now = async () => {
    await new Promise(setImmediate)
    return asked.join(' ')
  }
  const answer = (key: string) => answers.get(key)?.()
  return { stored, fetcher, add, now, answer }
}

t.test('a quarter of the connections, in the order of the clients, and each file once', async t => {
  const { add, now, answer } = asking(8)
  for (const key of ['a', 'b', 'c', 'd', 'a', 'c']) add(key)
  add('x', { at: other })
  t.equal(await now(), 'a b x', 'each origin has its own places')
  answer('b')
  t.equal(await now(), 'a b x c')
  answer('c')
  answer('a')
  t.equal(await now(), 'a b x c d')
  answer('d')
  await now()
  add('a')
  t.equal(await now(), 'a b x c d a', 'again, once it was answered')
})

t.test('a file that was confirmed, replaced or removed meanwhile is not asked about', async t => {
  const { stored, add, now, answer } = asking(1)
  for (const key of ['a', 'confirmed', 'replaced', 'removed', 'b']) add(key)
  await now()
  stored.set('confirmed', entry('confirmed', 2))
  stored.set('replaced', { ...entry('replaced'), digest: 'cd' })
  stored.delete('removed')
  answer('a')
  t.equal(await now(), 'a b')
})

t.test('a service that stops asks about no file that waits for its turn', async t => {
  const { fetcher, add, now, answer } = asking(1)
  for (const key of ['a', 'b']) add(key)
  await now()
  fetcher.closing = true
  answer('a')
  t.equal(await now(), 'a')
})

t.test('of more than a hundred files the ones wait that were confirmed longest ago', async t => {
  const { add, now, answer } = asking(1)
  add('first')
  for (let n = 0; n < 100; n += 1) add(`lately-${n}`, { validated: 1000 + n })
  add('long-ago', { validated: 1 })
  add('just-now', { validated: 2000 })
  for (let n = -1; n < 100; n += 1) {
    const last = (await now()).split(' ').at(-1) ?? ''
    answer(last)
  }
  const all = (await now()).split(' ')
  t.equal(all.length, 101)
  t.equal(all.at(-1), 'long-ago')
  t.notOk(all.includes('lately-99'))
  t.notOk(all.includes('just-now'))
})
