/**
 * The feature `verify`: all stored files are checked, by schedule and by a command, and wrong ones are removed.
 */
import { type Feature, featureCommand } from '../feature.ts'
import { verificationMetrics } from './metrics.ts'

export const verifyFeature: Feature = {
  name: 'verify',
  listMetrics: metrics => void verificationMetrics(metrics, () => undefined),
  commands: [
    featureCommand({
      name: 'verify-repos',
      summary: 'check all stored files, remove wrong ones',
      options: {},
      takes: ['json', 'dry-run'],
      run: async ({ options: { json, 'dry-run': dryRun } }, { config }) => {
        const { verifyRepos } = await import('./command.ts')
        return verifyRepos(config, { json, dryRun })
      },
    }),
  ],
  open: async () => ({ join: (await import('./joints.ts')).joints }),
}
