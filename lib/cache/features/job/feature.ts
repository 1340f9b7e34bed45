/**
 * The feature `job`: a command with a proxy of its own, for CI.
 */
import { pathOption } from '../../../command-line.ts'
import { type Feature, featureCommand } from '../feature.ts'

export const jobFeature: Feature = {
  name: 'job',
  commands: [
    featureCommand({
      name: 'run',
      operands: 'COMMAND...',
      summary: 'run a command, behind --, with a proxy of its own whose store stays in a directory',
      readsConfiguration: true,
      options: {
        store: {
          value: 'DIR',
          read: pathOption,
          help: 'keep the store in DIR and not in ~/.cache/cachesvc-run',
        },
        lock: {
          value: 'FILE',
          read: pathOption,
          help: 'write what the command received to FILE; if FILE exists, give the same again, and fail if a package differs',
        },
      },
      takes: [],
      run: async ({ operands, options }, context) => {
        const { runJob } = await import('./command.ts')
        const { store = options['cache-dir'] } = options
        return runJob(operands, { ...options, store }, context)
      },
    }),
  ],
}
