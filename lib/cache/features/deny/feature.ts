/**
 * The feature `deny`: packages that no client gets, and the clients that were given them before.
 */
import { type Feature, featureCommand } from '../feature.ts'
import { denyMetrics } from './metrics.ts'

export const denyFeature: Feature = {
  name: 'deny',
  listMetrics: metrics => void denyMetrics(metrics, () => 0),
  commands: [
    featureCommand({
      name: 'recall',
      operands: 'PACKAGE [VERSIONS]',
      summary: 'list the clients that were given a package in the last 90 days',
      options: {},
      takes: ['json'],
      run: async ({ operands: [name = '', versions], options: { json } }, { config }) =>
        (await import('./recall.ts')).recall(config, { name, versions, json }),
    }),
  ],
  problem: async ({ deny }) => {
    const found = await (await import('./rows.ts')).readDenyFiles(deny)
    return 'problem' in found ? `deny: ${found.problem}` : undefined
  },
  open: async () => ({ join: (await import('./joints.ts')).joints }),
}
