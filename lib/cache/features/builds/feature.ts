/**
 * The feature `builds`: what a build was given is recorded, and given again byte for byte.
 */
import { oneOfWords } from '../../../command-line.ts'
import { type Feature, featureCommand } from '../feature.ts'
import { buildMetrics } from './metrics.ts'

const buildFormats = ['bundle', 'list', 'spdx', 'cyclonedx', 'in-toto'] as const

const readFormat = oneOfWords(buildFormats, 'bundle, list, spdx, cyclonedx or in-toto')

export const buildsFeature: Feature = {
  name: 'builds',
  listMetrics: metrics => buildMetrics(metrics, { all: [], bytes: 0 }),
  commands: [
    featureCommand({
      name: 'build',
      operands: '[ACTION] [NAME] [FILE]',
      summary:
        'list, show, record, lock, unlock, remove, fetch, import, export or verify a build that can be repeated',
      options: {
        format: {
          value: 'FORMAT',
          default: 'bundle',
          read: readFormat,
          help: 'export a build as a `bundle`, a `list`, `spdx`, `cyclonedx` or `in-toto`; all but the first are printed when no FILE is named',
        },
      },
      takes: ['json'],
      run: async ({ operands, options: { json, format } }, context) => {
        const { runBuild } = await import('./command.ts')
        return runBuild(operands, { json, format }, context)
      },
    }),
  ],
  open: async () => ({ join: (await import('./joints.ts')).joints }),
  records: async () => (await import('./carried.ts')).carriedBuilds,
}
