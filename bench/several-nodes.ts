/**
 * Three nodes that share a bucket beside one node without: `node dist/bench/several-nodes.js [CLIENTS [PACKAGES [BYTES_A_SECOND]]]`.
 *
 * So many real apts (60) download the same packages (200 of 100 kB), which no node has, at once, through HAProxy, which gives each
 * request to the next node. The origin sends each file at BYTES_A_SECOND (1,000,000; 0 is as fast as it can). Prints for each turn
 * the wall time, the processor time of all nodes, how many packages the origin was asked for how often, and which apts failed.
 */
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Apt } from '../test/fixtures/archive/apt.ts'
import { Archive } from '../test/fixtures/archive/archive.ts'
import { ArchiveOrigin } from '../test/fixtures/archive/archive-origin.ts'
import { balancedNodes, Undone } from '../test/fixtures/features/shared/balanced-nodes.ts'

const [clients = 60, count = 200, rate = 1_000_000] = process.argv.slice(2).map(Number)
const size = 100_000
const turns = 2

interface Turn {
  readonly wall: number
  readonly cpu: number
  /** How often a package was asked of the origin, and how many packages were. */
  readonly fetches: ReadonlyMap<number, number>
  readonly failed: readonly string[]
}

/** Seconds of processor time of a process so far. */
function cpuOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) / 100
}

async function turnOf(archive: Archive, nodes: number): Promise<Turn> {
  const directory = await mkdtemp(join(tmpdir(), 'several-'))
  const undone = new Undone()
  undone.teardown(() => rm(directory, { recursive: true, force: true }))
  try {
    const origin = await ArchiveOrigin.start({ root: archive.root })
    undone.teardown(() => origin.close())
    const place = { directory, archives: [origin.authority] }
    const { nodes: proxies, proxy } = await balancedNodes(undone, { ...place, count: nodes })
    const apts = await Promise.all(
      Array.from({ length: clients }, (_, i) =>
        Apt.create({
          directory: join(directory, `apt${i}`),
          keyring: archive.keyring,
          sources: [{ uri: `${origin.url}/debian`, suite: 'test', components: ['main'] }],
          proxy,
        }),
      ),
    )
    for (const apt of apts) await apt.update()
    if (rate > 0) origin.rate = rate
    origin.forget()
    const cpu = () => proxies.reduce((sum, { pid }) => sum + cpuOf(pid), 0)
    const [before, start] = [cpu(), performance.now()]
    const results = await Promise.all(apts.map(apt => apt.download(...names)))
    const wall = (performance.now() - start) / 1000
    const asked = names.map(name => origin.seen(new RegExp(`/${name}_`)).length)
    const fetches = new Map<number, number>()
    for (const times of asked) fetches.set(times, (fetches.get(times) ?? 0) + 1)
    const failed = results.filter(({ code }) => code !== 0).map(({ errors }) => errors.join(' '))
    return { wall, cpu: cpu() - before, fetches, failed }
  } finally {
    await undone.undo()
  }
}

const names = Array.from({ length: count }, (_, i) => `package${String(i).padStart(3, '0')}`)
const archive = await Archive.create(names.map(name => ({ name, version: '1.0', size })))
try {
  for (let i = 0; i < turns; i += 1) {
    const [one, three] = [await turnOf(archive, 1), await turnOf(archive, 3)]
    for (const [nodes, turn] of [
      [1, one],
      [3, three],
    ] as const) {
      const fetches = [...turn.fetches]
        .map(([times, of]) => `${of} asked ${times} times`)
        .join(', ')
      process.stdout.write(
        `${nodes} node(s): ${turn.wall.toFixed(1)} s, CPU ${turn.cpu.toFixed(1)} s; packages: ${fetches}; failed: ${turn.failed.length}\n`,
      )
      for (const text of turn.failed) process.stdout.write(`  ${text}\n`)
    }
    process.stdout.write(`wall time ${(three.wall / one.wall).toFixed(2)} of one node's\n`)
  }
} finally {
  await archive.close()
}
