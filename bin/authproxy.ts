/**
 * The program authproxy: reads its arguments, then serves or answers.
 */
import { helpText, readArguments } from '../lib/auth/cli/arguments.ts'
import { command } from '../lib/auth/cli/command.ts'
import { packageVersion } from '../lib/package.ts'
import { exitCodes, print, run } from '../lib/program.ts'
import { demoCommand } from '../lib/tools/demo/command.ts'
import { devIdpCommand } from '../lib/tools/dev-idp/command.ts'

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
      return devIdpCommand(invocation.rest)
    case 'demo':
      return demoCommand(invocation.rest)
    default:
      return command(invocation)
  }
})
