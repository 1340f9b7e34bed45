/**
 * The feature `bundle`: stored files in a file or directory, for machines that cannot fetch them.
 */
import { resolve } from 'node:path'
import { pathOption } from '../../../command-line.ts'
import { type Feature, featureCommand } from '../feature.ts'

export const bundleFeature: Feature = {
  name: 'bundle',
  commands: [
    featureCommand({
      name: 'import',
      operands: 'FILE|DIR',
      summary: 'take over a bundle, or packages from another cache',
      options: {},
      takes: ['dry-run'],
      run: async ({ operands: [path = ''], options: { 'dry-run': dryRun } }, context) => {
        const { printImport } = await import('./command.ts')
        const records = await Promise.all(context.features.flatMap(one => one.records?.() ?? []))
        return printImport(resolve(path), context.config, { dryRun, records })
      },
    }),
    featureCommand({
      name: 'export',
      operands: 'FILE|DIR',
      summary: 'write stored files as a bundle',
      options: {
        archive: {
          value: 'PLACE',
          many: true,
          help: 'only files of this host, or of this host and path; may be repeated',
        },
        after: {
          value: 'FILE',
          read: pathOption,
          help: 'only what the bundle FILE and those before it do not have',
        },
      },
      takes: ['suite'],
      run: async ({ operands: [path = ''], options }, { config }) => {
        const { printExport } = await import('./command.ts')
        const { archive: archives, suite: suites, after } = options
        return printExport(resolve(path), config, { archives, suites, after })
      },
    }),
  ],
  exportFiles: async (path, config, choose) =>
    (await import('./command.ts')).exportChosen(path, config, choose),
}
