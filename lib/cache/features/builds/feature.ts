/**
 * The feature `builds`: what a build was given is recorded, and given again byte for byte.
 */
import { oneOfWords } from '../../../command-line.ts'
import { type Feature, featureCommand } from '../feature.ts'

const buildFormats = ['bundle', 'list', 'spdx'] as const

const readFormat = oneOfWords(buildFormats, 'bundle, list or spdx')

export const buildsFeature: Feature = {
  name: 'builds',
  commands: [
    featureCommand({
      name: 'build',
      operands: '[ACTION] [NAME] [FILE]',
      summary:
        'list, show, record, lock, unlock, remove, fetch, import or export a build that can be repeated',
      options: {
        format: {
          value: 'FORMAT',
          default: 'bundle',
          read: readFormat,
          help: 'export a build as a `bundle`, a `list` or `spdx`; the last two are printed when no FILE is named',
        },
      },
      takes: ['json'],
      run: async ({ operands, options: { json, format } }, context) => {
        const { runBuild } = await import('./command.ts')
        return runBuild(operands, { json, format }, context)
      },
    }),
  ],
  records: async () => (await import('./carried.ts')).carriedBuilds,
}
