/**
 * What adopting a large index costs, and what comparing a file with it costs while the file streams.
 */
import { get } from 'node:http'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { pathOf } from '../bare/content.ts'
import { suitePaths, verified, verifiedPath } from '../bare/suite.ts'
import type { Program } from '../subject.ts'
import { metricsOf } from './hits.ts'
import { type Row, type Stage, series, urlOf } from './row.ts'

/** Between two looks at the daemon's figures, milliseconds. */
const interval = 250
/** Looks until an adoption has failed. */
const mostLooks = 240

export const adoption: Row = {
  title: 'Adopting an index of 60,000 packages',
  note: 'in a fresh process; then downloads of 100 MB that the index names, and of others',
  figures: {
    time: { title: 'until files are compared with it, s', better: 'less' },
    delay: { title: 'delay of the event loop meanwhile, 99%, ms', better: 'less' },
    memory: { title: 'resident memory, most meanwhile, MB more', better: 'less' },
    kept: { title: 'resident memory afterwards, MB more', better: 'less' },
    compared: { title: 'compared downloads, MB/s', better: 'more' },
    plain: { title: 'other downloads, MB/s', better: 'more' },
    share: { title: 'rate of compared downloads, of that of others', better: 'more' },
  },
  subjects: ['cachesvc'],
  async run(stage) {
    const program = await stage.start(join(stage.directory, 'adoption'))
    try {
      await pause(stage.effort.rest)
      const adopted = await adopting(stage, program)
      await pause(stage.effort.rest)
      const kept = program.rss() - adopted.before
      const { time, delay, memory } = adopted
      return { time, delay, memory, kept, ...(await downloads(stage, program)) }
    } finally {
      await program.stop()
    }
  },
}

/** Has a fresh process read the index; megabytes, milliseconds of delay and seconds. */
export async function adopting(stage: Pick<Stage, 'origin'>, program: Program) {
  // The origin makes them when they are first asked for.
  for (const path of suitePaths) await fetched(stage.origin.port, path)
  await metricsOf(program.port)
  const before = program.rss()
  let [delay, most] = [0, before]
  for (const path of suitePaths) await fetched(program.port, urlOf(stage, path))
  const begun = performance.now()
  // The index is put away a moment after its last byte: until then only the Release file is adopted.
  await pause(4 * interval)
  for (let look = 0; look < mostLooks; look += 1) {
    const metrics = await metricsOf(program.port)
    delay = Math.max(delay, metrics.loopDelay)
    most = Math.max(most, program.rss())
    if (metrics.adopting === 0 && metrics.adopted === 1) {
      return { before, delay, memory: most - before, time: (performance.now() - begun) / 1000 }
    }
    await pause(interval)
  }
  throw new Error('the index was not adopted')
}

/** Reads a file to its end. */
export function fetched(port: number, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = get({ host: '127.0.0.1', port, path, agent: false }, response => {
      response.resume().on('end', resolve).on('error', reject)
    })
    request.on('error', reject)
  })
}

/** One of each kind in turn, so that a disturbance of the machine affects both. */
async function downloads(stage: Stage, program: Program) {
  const seconds = { compared: 0, plain: 0 }
  const others = series(`other-${stage.label}`, verified.count)
  for (const [n, name] of others.entries()) {
    const paths = { compared: verifiedPath(n), plain: pathOf(verified.bytes, name) }
    for (const kind of ['compared', 'plain'] as const) {
      const { load } = stage
      const result = await load.run(program.port, { targets: [urlOf(stage, paths[kind])] })
      seconds[kind] += result.seconds
      await pause(stage.effort.rest)
    }
  }
  const bytes = verified.count * verified.bytes
  const [compared, plain] = [bytes / 1e6 / seconds.compared, bytes / 1e6 / seconds.plain]
  return { compared, plain, share: compared / plain }
}
