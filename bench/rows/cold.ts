/**
 * What is not stored yet: one large download, small ones in a row, 200 packages by apt, and 50 clients for one file.
 */
import { createHash } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { command } from '../../test/fixtures/process/command.ts'
import { pathOf, slowPathOf } from '../bare/content.ts'
import type { Program } from '../subject.ts'
import {
  costOf,
  proxies,
  type Row,
  type Stage,
  series,
  throughputFigures,
  throughputOf,
  urlOf,
} from './row.ts'

const large = 100_000_000

/** Programs that have had their first gigabyte: a Node.js program is compiled then. */
const compiled = new WeakSet<Program>()

export const coldLarge: Row = {
  title: 'Downloads of 100 MB',
  note: 'not stored before, three in a row over one connection',
  figures: throughputFigures,
  subjects: [...proxies, 'bare proxy', 'direct'],
  memoryInUse: true,
  async run(stage) {
    if (!compiled.has(stage.program)) {
      compiled.add(stage.program)
      await warmUp(stage, stage.effort.downloads / 100, large)
    }
    const { rate, cpu } = throughputOf(await costOf(stage, () => fresh(stage, 3, large), true))
    return comparable(stage) ? { rate, cpu } : { rate }
  },
}

export const coldSmall: Row = {
  title: 'Downloads of 10 KB',
  note: 'not stored before, many in a row over one connection',
  figures: {
    time: { title: 'ms each, median', better: 'less' },
    cpu: { title: 'CPU ms each', better: 'less' },
  },
  subjects: [...proxies, 'bare proxy', 'direct'],
  memoryInUse: true,
  async run(stage) {
    const count = stage.effort.downloads
    // A Node.js program needs some thousand of them until it is compiled; a daemon has had them on its first day.
    await warmUp(stage, 3 * count, 10_000)
    const { result, cpu } = await costOf(stage, () => fresh(stage, count, 10_000), true)
    const time = result.whole.median
    return comparable(stage) ? { time, cpu: (cpu * 1000) / count } : { time }
  },
}

export const apt: Row = {
  title: '200 packages by apt',
  note: 'files of 4 to 30 KB, not stored before, by one run of apt-helper download-file',
  figures: { time: { title: 's', better: 'less' } },
  subjects: ['cachesvc', 'nginx', 'direct'],
  async run(stage) {
    const files = series(`apt-${stage.label}`, 200).map((name, i) => pathOf(4000 + i * 130, name))
    const args = files.flatMap((path, i) => [
      urlOf(stage, path),
      join(stage.directory, `${i}.deb`),
      `SHA256:${digest(stage, path)}`,
    ])
    const configuration = join(stage.directory, 'apt.conf')
    await writeFile(configuration, settings(stage))
    const start = performance.now()
    await command('apt-helper', ['download-file', ...args], { env: { APT_CONFIG: configuration } })
    return { time: (performance.now() - start) / 1000 }
  },
}

export const stampede: Row = {
  title: '50 clients for one download',
  note: 'at once, for 100 MB that are not stored, from an origin that sends 50 MB/s; directly it is one client',
  figures: {
    wall: { title: 'all done, s', better: 'less' },
    first: { title: 'last first byte, ms', better: 'less' },
  },
  subjects: [...proxies, 'direct'],
  async run(stage) {
    const clients = stage.subject === 'direct' ? 1 : 50
    const target = urlOf(stage, slowPathOf(large, `stampede-${stage.label}`))
    const result = await stage.load.run(stage.program.port, {
      targets: [target],
      connections: clients,
      requests: clients,
      ...(stage.subject === 'direct' && { as: 'origin' }),
    })
    return { wall: result.seconds, first: result.first.max }
  },
}

/** Downloads that are not measured, with the work behind them. */
async function warmUp(stage: Stage, count: number, bytes: number): Promise<void> {
  await fresh(stage, count, bytes, 'before')
  await stage.program.cpuAtRest(stage.effort.settle)
}

/** Downloads files of new names over one connection. */
function fresh(stage: Stage, count: number, bytes: number, name = 'cold') {
  const paths = series(`${name}-${stage.label}`, count).map(name => pathOf(bytes, name))
  const targets = paths.map(path => urlOf(stage, path))
  const as = stage.subject === 'direct' ? { as: 'origin' as const } : {}
  return stage.load.run(stage.program.port, { targets, ...as })
}

/** The origin's own processor time is not that of a proxy. */
function comparable(stage: Stage): boolean {
  return stage.subject !== 'direct'
}

function digest(stage: Stage, path: string): string {
  const hash = createHash('sha256')
  for (const piece of stage.contents.of(path) ?? []) hash.update(piece)
  return hash.digest('hex')
}

/** Nothing of the machine's own settings: no proxy, no sources. */
function settings(stage: Stage): string {
  const { directory, subject, program } = stage
  const lines = [`Dir "${directory}"`, 'Dir::Etc "none"', 'APT::Sandbox::User ""', 'quiet "2"']
  if (subject !== 'direct') lines.push(`Acquire::http::Proxy "http://127.0.0.1:${program.port}"`)
  return lines.map(line => `${line};\n`).join('')
}
