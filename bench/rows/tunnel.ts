/**
 * Bytes through CONNECT.
 */
import { pathOf } from '../bare/content.ts'
import type { LoadPlan } from '../load.ts'
import { costOf, type Row, throughputFigures, throughputOf, urlOf } from './row.ts'

export const tunnel: Row = {
  title: 'Tunnels',
  note: 'CONNECT, 4 connections, 100 MB for each request',
  figures: throughputFigures,
  subjects: ['cachesvc', 'squid', 'apt-cacher-ng', 'bare proxy'],
  async run(stage) {
    const plan: LoadPlan = {
      targets: [urlOf(stage, pathOf(100_000_000, 'tunnel'))],
      connections: 4,
      requests: 1e6,
      seconds: stage.effort.seconds,
      as: 'tunnel',
    }
    return throughputOf(await costOf(stage, () => stage.load.run(stage.program.port, plan)))
  },
}
