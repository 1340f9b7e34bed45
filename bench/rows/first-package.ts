/**
 * How long the first package after an update lets its client wait: the first byte of it is asked for while the index is being read.
 */
import { get } from 'node:http'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { pathOf } from '../bare/content.ts'
import { suitePaths, verifiedPath, verifiedSmallPath } from '../bare/suite.ts'
import { fetched } from './adoption.ts'
import { metricsOf } from './hits.ts'
import { type Row, urlOf } from './row.ts'

export const firstPackage: Row = {
  title: 'The first package after an update',
  note: 'in a fresh process, the moment an index of 60,000 packages has come; directly from the origin just before',
  figures: {
    small: { title: 'first byte of 40 kB, ms', better: 'less' },
    smallDirect: { title: 'the same, directly, ms', better: 'less' },
    large: { title: 'first byte of 100 MB, ms', better: 'less' },
    largeDirect: { title: 'the same, directly, ms', better: 'less' },
  },
  subjects: ['cachesvc'],
  async run(stage) {
    const { origin, directory, effort } = stage
    const program = await stage.start(join(directory, 'first-package'))
    try {
      await pause(effort.rest)
      const [small, large] = [verifiedSmallPath, verifiedPath(0)]
      // The origin makes them when they are first asked for.
      for (const path of [...suitePaths, small]) await fetched(origin.port, path)
      const smallDirect = await firstByte(origin.port, small)
      const largeDirect = await firstByte(origin.port, large)
      // A Node.js program needs some requests until it is compiled.
      for (let n = 0; n < 20; n += 1) {
        await firstByte(program.port, urlOf(stage, pathOf(40_000, `first-${stage.label}-${n}`)))
      }
      for (const path of suitePaths) await fetched(program.port, urlOf(stage, path))
      const figures = {
        ...{ smallDirect, largeDirect },
        small: await firstByte(program.port, urlOf(stage, small)),
        large: await firstByte(program.port, urlOf(stage, large)),
      }
      const { adopting } = await metricsOf(program.port)
      if (adopting !== 1)
        throw new Error('the index had been read before the packages were asked for')
      return figures
    } finally {
      await program.stop()
    }
  },
}

/** Milliseconds from the request to the first byte of content. The connection is closed then. */
function firstByte(port: number, path: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const begun = performance.now()
    const request = get({ host: '127.0.0.1', port, path, agent: false }, response => {
      if (response.statusCode !== 200) reject(new Error(`${response.statusCode} for ${path}`))
      response.once('data', () => {
        resolve(performance.now() - begun)
        request.destroy()
      })
      response.on('error', () => undefined)
    })
    request.on('error', reject)
  })
}
