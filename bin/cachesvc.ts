/**
 * The program cachesvc: reads its arguments, then serves or answers.
 */

import { helpText, readArguments } from '../lib/cache/cli/arguments.ts'
import { command } from '../lib/cache/cli/command.ts'
import { packageVersion } from '../lib/package.ts'
import { exitCodes, print, run } from '../lib/program.ts'

await run('cachesvc', async () => {
  const invocation = readArguments(process.argv.slice(2), process.cwd())
  switch (invocation.run) {
    case 'help':
      await print(helpText())
      return exitCodes.success
    case 'version':
      await print(`cachesvc ${packageVersion()}\n`)
      return exitCodes.success
    case 'usage':
      await print(`${invocation.message}\n`, process.stderr)
      return exitCodes.usage
    default:
      return command(invocation)
  }
})
