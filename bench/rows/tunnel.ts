/**
 * Bytes through CONNECT.
 */
import { pathOf } from '../bare/content.ts'
import { type Row, urlOf } from './row.ts'

export const tunnel: Row = {
  title: 'Tunnels',
  note: 'CONNECT, 4 connections, 100 MB for each request',
  figures: { rate: { title: 'MB/s', better: 'more' } },
  subjects: ['cachesvc', 'squid', 'apt-cacher-ng', 'bare proxy'],
  async run(stage) {
    const { bytes, seconds } = await stage.load.run(stage.program.port, {
      targets: [urlOf(stage, pathOf(100_000_000, 'tunnel'))],
      connections: 4,
      requests: 1e6,
      seconds: stage.effort.seconds,
      as: 'tunnel',
    })
    return { rate: bytes / 1e6 / seconds }
  },
}
