/**
 * Generations on disk, and where the paths of an index begin.
 */
import t from 'tap'
import { rootOf } from '../../../lib/cache/archive/suite-layout.ts'
import {
  baseOf,
  byHashPath,
  decodeSuite,
  encodeSuite,
  type Generation,
  generationAt,
  type KnownSuite,
  keyIn,
  withNextGeneration,
} from '../../../lib/cache/suites/generation.ts'

const at = 'http://archive.example.org/debian/dists/b%2Bc'

function generation(letter: string): Generation {
  return {
    release: { name: 'InRelease', digest: letter.repeat(64), size: 10 },
    date: 1000,
    validUntil: 2000,
    byHash: true,
    signature: { is: 'good', by: 'abcd' },
    adopted: 1500,
    indexes: [{ table: letter.repeat(64), root: 'http://archive.example.org/debian' }],
    contents: [{ path: 'main/Packages', size: 5, digest: letter.repeat(64) }],
  }
}

t.test('a suite is read as it was written, and anything else is none', async t => {
  const suite: KnownSuite = { at, generations: [generation('a'), generation('b')] }
  t.strictSame(decodeSuite(encodeSuite(suite)), suite)
  const { date: _, validUntil: __, ...undated } = generation('c')
  const without: KnownSuite = { at, generations: [undated] }
  t.strictSame(decodeSuite(encodeSuite(without)), without)
  const one = generation('a')
  const wrong: readonly unknown[] = [
    undefined,
    [],
    { version: 2, at, generations: [one] },
    { version: 1, at, generations: [] },
    { version: 1, at: 1, generations: [one] },
    { version: 1, at, generations: [{ ...one, release: undefined }] },
    { version: 1, at, generations: [{ ...one, release: { ...one.release, name: 'Packages' } }] },
    { version: 1, at, generations: [{ ...one, signature: { is: 'splendid' } }] },
    { version: 1, at, generations: [{ ...one, indexes: [{ table: '../x', root: '' }] }] },
    { version: 1, at, generations: [{ ...one, contents: [1] }] },
    { version: 1, at, generations: [{ ...one, adopted: 'today' }] },
  ]
  for (const value of wrong) {
    const text = JSON.stringify(value) ?? ''
    t.equal(decodeSuite(text), undefined, text.slice(0, 60))
  }
})

t.test('so many past generations are kept, each once', async t => {
  let suite: KnownSuite | undefined
  for (const letter of 'abcdefa')
    suite = withNextGeneration(suite, { at, next: generation(letter), days: 0 })
  const kept = suite?.generations.map(({ release }) => release.digest[0]).join('')
  t.equal(kept, 'afed')
  t.equal(suite?.generations.length, 4)
  t.equal(suite && baseOf(suite), 'http://archive.example.org/debian/dists/b+c')
})

t.test('of each day the last generation is kept, as long as it was in use in the last days', t => {
  const hour = 3600 * 1000
  const adoptions = [1, 2, 30, 31, 32, 60, 61, 200, 201, 202, 203]
  const after = (days: number): readonly number[] => {
    let suite: KnownSuite | undefined
    for (const [i, at] of adoptions.entries()) {
      const next = { ...generation('abcdef0123456789'[i] ?? ''), adopted: at * hour }
      suite = withNextGeneration(suite, { at: 'http://archive.example.org/dists/x', next, days })
    }
    return suite?.generations.map(({ adopted }) => adopted / hour) ?? []
  }
  t.strictSame(after(0), [203, 202, 201, 200])
  t.strictSame(after(1), [203, 202, 201, 200, 61], 'the day before began with it')
  t.strictSame(after(7), [203, 202, 201, 200, 61, 32])
  t.strictSame(after(9), [203, 202, 201, 200, 61, 32, 2])
  t.end()
})

t.test(
  'a generation that is adopted once more keeps its moment, and many files have a limit',
  t => {
    const first = { ...generation('a'), adopted: 1000 }
    const again = { ...generation('a'), adopted: 2000 }
    const about = { at, days: 30 }
    const suite = withNextGeneration(withNextGeneration(undefined, { ...about, next: first }), {
      ...about,
      next: again,
    })
    t.strictSame(
      suite.generations.map(({ adopted }) => adopted),
      [1000],
    )
    t.equal(generationAt(suite, 999), undefined)
    t.equal(generationAt(suite, 1000)?.adopted, 1000)
    const [listed] = first.contents
    const contents = Array.from(
      { length: 15_000 },
      () => listed ?? { path: '', size: 0, digest: '' },
    )
    let large: KnownSuite | undefined
    for (const [i, letter] of [...'abcdef'].entries()) {
      const next = { ...generation(letter), contents, adopted: i * 24 * 3600 * 1000 }
      large = withNextGeneration(large, { ...about, next })
    }
    t.equal(large?.generations.length, 5)
    t.end()
  },
)

t.test('where the paths of an index begin', async t => {
  const host = 'http://archive.example.org'
  const cases: ReadonlyArray<readonly [base: string, common: string, root: string]> = [
    [`${host}/debian/dists/stable`, 'pool/main', `${host}/debian`],
    [`${host}/debian/dists/stable/updates`, 'pool', `${host}/debian`],
    [`${host}/flat`, '', `${host}/flat`],
    [`${host}/flat/sub`, '', `${host}/flat/sub`],
    [`${host}/flat/sub`, 'sub', `${host}/flat`],
    [`${host}/flat/sub`, 'sub/more', `${host}/flat`],
    [`${host}/flat/sub`, 'subway', `${host}/flat/sub`],
    [`${host}/flat/sub`, 'flat/sub', host],
    [host, 'pool', host],
  ]
  for (const [base, common, root] of cases) t.equal(rootOf(base, common), root, `${base} ${common}`)
})

t.test('names of the files of a suite', async t => {
  const digest = 'a'.repeat(64)
  t.equal(byHashPath({ path: 'main/x/Packages', digest }), `main/x/by-hash/SHA256/${digest}`)
  t.equal(byHashPath({ path: 'Packages', digest }), `by-hash/SHA256/${digest}`)
  t.equal(keyIn(at, 'main/a+b c'), `${at}/main/a%2Bb%20c`)
  t.equal(keyIn(at, 'main/a?b#c'), `${at}/main/a%3Fb%23c`)
})
