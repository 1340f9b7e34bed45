/**
 * An archive that is updated in the middle of many clients' updates, over and over, in any order: no client ever fails.
 *
 * A client does as apt does: one connection, InRelease with `max-age=0`, then the index it names, by digest when the archive
 * offers that, and both again after a 503 or a broken connection, three times at most. The seed of the order is printed; it is
 * the first argument of a run that repeats it.
 */
import t from 'tap'
import {
  asked,
  type ChangingArchive,
  changingArchives,
} from '../../fixtures/archive/changing-archive.ts'
import { type Files, hexOf } from '../../fixtures/archive/tiny-archive.ts'
import { type Chance, seeded } from '../../fixtures/chance/seeded-random.ts'
import type { RawClient, RawResponse } from '../../fixtures/http/raw-client.ts'

const seed = Number(process.argv[2] ?? Date.now() % 2 ** 32)
const rounds = 200
const clientsAtOnce = 4
const mostRetries = 3

/** Up to so many turns of the event loop, each a millisecond or none. */
async function pause(chance: Chance, most: number): Promise<void> {
  for (let turns = chance.below(most); turns > 0; turns -= 1) {
    if (chance.below(4) === 0) await new Promise(resolve => setTimeout(resolve, 1))
    else await new Promise(resolve => setImmediate(resolve))
  }
}

/** What apt would say at the end of an update; undefined when all is well. */
async function update(archive: ChangingArchive, chance: Chance): Promise<string | undefined> {
  let client: RawClient | undefined
  const get = async (path: string): Promise<RawResponse | string> => {
    let problem = ''
    for (let tries = 0; tries <= mostRetries; tries += 1) {
      try {
        client ??= await archive.cache.client()
        const answer = await client.get(archive.origin.url(`/${path}`), asked)
        if (answer.status === 200) return answer
        problem = `${path}: ${answer.status} ${answer.text}`
        if (answer.status !== 503) return problem
      } catch (error) {
        problem = `${path}: ${error}`
        client = undefined
      }
      const due = archive.clock.elapsed() + 1000 * 2 ** tries
      while (archive.clock.elapsed() < due) await new Promise(resolve => setTimeout(resolve, 1))
    }
    return problem
  }
  const release = await get(archive.release)
  if (typeof release === 'string') return release
  await pause(chance, 20)
  const named = / ([0-9a-f]{64}) \d+ main\/binary-all\/Packages\.gz/.exec(release.text)?.[1] ?? ''
  const byHash = release.text.includes('Acquire-By-Hash: yes')
  const directory = archive.index.slice(0, archive.index.lastIndexOf('/'))
  const index = await get(byHash ? `${directory}/by-hash/SHA256/${named}` : archive.index)
  client?.socket.destroy()
  if (typeof index === 'string') return index
  return hexOf('sha256', index.content) === named ? undefined : 'Hash Sum mismatch'
}

/** Puts a day's archive in place of the one before, file by file in any order. */
async function publish(
  archive: ChangingArchive,
  { before, next }: { readonly before: Files; readonly next: Files },
  chance: Chance,
): Promise<void> {
  const steps = [...next.keys()].map(path => () => archive.serve(next, one => one === path))
  const gone = [...before.keys()].filter(path => !next.has(path))
  steps.push(() => archive.remove(gone))
  while (steps.length > 0) {
    await pause(chance, 60)
    steps.splice(chance.below(steps.length), 1)[0]?.()
  }
}

t.test('no client ever fails', { timeout: 280_000 }, async t => {
  t.comment(`seed ${seed}`)
  const chance = seeded(seed)
  const archiveAt = await changingArchives(t)
  const archives = await Promise.all(
    [true, false].map(async byHash => {
      const archive = archiveAt(byHash ? 'hashed' : 'plain')
      const files = await archive.ofDay(0, { byHash })
      archive.serve(files)
      t.strictSame(await archive.update(), { day: '0', fits: true })
      return { archive, byHash, files }
    }),
  )
  let over = false
  const passing = (async () => {
    for (; !over; await new Promise(resolve => setTimeout(resolve, 2))) {
      archives[0]?.archive.clock.advance(20)
    }
  })()
  const days = new Set<string>()
  for (let round = 1; round <= rounds; round += 1) {
    const one = archives[round % 2]
    if (one === undefined) break
    const { archive, byHash, files: before } = one
    const next = await archive.ofDay(round, { byHash })
    const clients = Array.from({ length: clientsAtOnce }, async () => {
      await pause(chance, 120)
      return update(archive, chance)
    })
    const [...problems] = await Promise.all([
      ...clients,
      publish(archive, { before, next }, chance),
    ])
    one.files = next
    const found = problems.filter(problem => problem !== undefined)
    if (found.length > 0) t.fail(`round ${round}: ${found.join('; ')}`)
    const { text } = await archive.get(archive.release)
    days.add(/Version: \d+/.exec(text)?.[0] ?? '')
  }
  over = true
  await passing
  t.ok(days.size > rounds / 10, `clients got ${days.size} of ${rounds} days`)
})
