/**
 * The program cachesvc. A command is loaded when it runs.
 */
import { cachesvc } from '../lib/cache/cli/arguments.ts'
import { obey } from '../lib/command-line.ts'
import { run } from '../lib/program.ts'

await run('cachesvc', () =>
  obey(cachesvc, process.argv.slice(2), async line => {
    const { command } = await import('../lib/cache/cli/command.ts')
    return command(line)
  }),
)
