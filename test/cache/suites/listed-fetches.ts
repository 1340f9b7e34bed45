/**
 * The fetches of the files of a new generation.
 */
import t from 'tap'
import { SuiteFetches } from '../../../lib/cache/suites/updates/listed-fetches.ts'

const at = 'http://archive.example.org/debian/dists/stable'
const files = Array.from({ length: 14 }, (_, n) => ({
  path: `main/binary-a${n}/Packages.xz`,
  size: 1,
  digest: n.toString(16).padStart(64, '0'),
}))

/** Fetches of files that the origin gives when `give` is called. */
function slowFetches() {
  const waiting: Array<() => void> = []
  const fetch = () => ({
    found: new Promise(resolve => waiting.push(() => resolve({ kind: 'answered', status: 404 }))),
  })
  const parts = {
    rules: () => ({ config: { archives: [] } }),
    fetcher: { fetch, closing: false },
    store: {},
    suites: {},
  }
  const give = async (): Promise<void> => {
    while (waiting.length > 0) {
      for (const ready of waiting.splice(0)) ready()
      await new Promise(resolve => setImmediate(resolve))
    }
  }
  return { fetches: new SuiteFetches(parts as never), give }
}

t.test('a newer update of a suite replaces what has not begun', async t => {
  const { fetches, give } = slowFetches()
  const [first, second] = [1, 2].map(() => fetches.begin(at, files, false))
  await give()
  const reasons = await Promise.all((first ?? []).map(({ come }) => come))
  t.equal(reasons.filter(because => /another update/.test(because)).length, 10)
  t.strictSame(
    new Set(await Promise.all((second ?? []).map(({ come }) => come))),
    new Set(['the origin answers 404']),
  )
})
