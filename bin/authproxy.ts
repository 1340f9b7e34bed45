/**
 * The program authproxy: reads its arguments, then serves or answers.
 */
import { helpText, readArguments } from '../lib/auth/arguments.ts'
import { command } from '../lib/auth/command.ts'
import { packageVersion } from '../lib/package.ts'
import { exitCodes, print, run } from '../lib/program.ts'

await run('authproxy', async () => {
  const invocation = readArguments(process.argv.slice(2), process.cwd())
  switch (invocation.run) {
    case 'help':
      await print(helpText())
      return exitCodes.success
    case 'version':
      await print(`authproxy ${packageVersion()}\n`)
      return exitCodes.success
    case 'usage':
      await print(`${invocation.message}\n`, process.stderr)
      return exitCodes.usage
    case 'dev-idp':
    case 'demo':
      await print(`authproxy: ${invocation.run} is not available in this version\n`, process.stderr)
      return exitCodes.usage
    default:
      return command(invocation)
  }
})
