/**
 * Runs many histories by hand and prints what was measured:
 *
 *     node --enable-source-maps dist/test/apt/compare/by-hand.js --histories 2000 --seed 1
 *     node --enable-source-maps dist/test/apt/compare/by-hand.js --real 200 --seed 1
 *     node --enable-source-maps dist/test/apt/compare/by-hand.js --histories 1 --seed 4711 --shrink
 *
 * Histories of archives with slow heads take minutes each, the others about a second. `--heads quick` leaves the former out, and
 * `--heads slow` the latter.
 */
import { parseArgs } from 'node:util'
import { bounds } from '../../fixtures/compare/bounds.ts'
import { Comparison } from '../../fixtures/compare/comparison.ts'
import { generated, shrunk } from '../../fixtures/compare/generate.ts'
import { realClients } from '../../fixtures/compare/real-apt.ts'

const { values } = parseArgs({
  options: {
    histories: { type: 'string', default: '2000' },
    real: { type: 'string' },
    seed: { type: 'string', default: '1' },
    shrink: { type: 'boolean', default: false },
    heads: { type: 'string' },
    most: { type: 'string', default: '5' },
  },
})
const real = values.real !== undefined
const count = Number(values.real ?? values.histories)
const [seed, most] = [Number(values.seed), Number(values.most)]
const endings: (() => unknown)[] = []
const comparison = await Comparison.start({ teardown: action => endings.push(action) })
if (real) comparison.client = realClients(comparison)
const say = (line: string) => process.stdout.write(`${line}\n`)
const longest = new Map<string, number>()
const differed = new Map<string, number>()
const failed: number[] = []
let [acts, ran] = [0, 0]
const begun = performance.now()
for (let one = seed; one < seed + count; one += 1) {
  const history = generated(one, { short: real })
  const heads = history.archive.headTime > 0 ? 'slow' : 'quick'
  if (heads !== (values.heads ?? heads)) continue
  ran += 1
  const result = await comparison.run(history)
  acts += result.acts
  if ((one - seed) % 50 === 49) process.stderr.write(`${one - seed + 1} of ${count}\n`)
  for (const [kind, late] of result.delays)
    longest.set(kind, Math.max(late, longest.get(kind) ?? 0))
  for (const [name, times] of result.differed) differed.set(name, times + (differed.get(name) ?? 0))
  if (result.once !== undefined) say(`\nbroken once, with seed ${one}: ${result.once.text}`)
  const [violation] = result.violations
  if (violation === undefined) continue
  failed.push(one)
  if (failed.length > most) continue
  say(`\nVIOLATION with seed ${one}`)
  say(violation.text)
  if (!values.shrink) continue
  const { aspect } = violation
  const fails = async (smaller: typeof history) => {
    const { violations } = await comparison.run(smaller)
    return violations.some(found => found.aspect === aspect)
  }
  const smallest = await shrunk(history, fails)
  const [again] = (await comparison.run(smallest)).violations
  say(`\nthe smallest of it:\n${again?.text ?? 'it does not fail alone'}`)
}
const time = Math.round((performance.now() - begun) / 1000)
say(`\n${ran} histories from seed ${seed}, ${acts} updates of clients, ${time} s`)
say(`${failed.length} violations${failed.length === 0 ? '' : `: seeds ${failed.join(' ')}`}`)
for (const { kind, at, by } of bounds) {
  const late = longest.get(kind)
  const measured = late === undefined ? 'never late' : `at most ${late / 1000} s late`
  say(`${kind.padEnd(16)} ${measured.padEnd(24)} bound ${at / 1000} s: ${by}`)
}
for (const [name, times] of differed) say(`${name}: ${times} times, on purpose`)
for (const ending of endings.reverse()) await ending()
process.exitCode = failed.length === 0 ? 0 : 1
