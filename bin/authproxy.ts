/**
 * The program authproxy. A command is loaded when it runs.
 */
import { authproxy } from '../lib/auth/cli/arguments.ts'
import { obey } from '../lib/command-line.ts'
import { run } from '../lib/program.ts'

await run('authproxy', () =>
  obey(authproxy, process.argv.slice(2), async line => {
    switch (line.run) {
      case 'dev-idp': {
        const { devIdpCommand } = await import('../demo/idp/command.ts')
        return devIdpCommand(line.operands)
      }
      case 'access': {
        const { accessCommand } = await import('../lib/auth/cli/access.ts')
        return accessCommand(line.operands)
      }
      case 'sessions': {
        const { sessionsCommand } = await import('../lib/auth/cli/sessions.ts')
        return sessionsCommand(line.operands)
      }
      case 'import': {
        const { importCommand } = await import('../lib/auth/cli/import.ts')
        return importCommand(line.operands)
      }
      case 'demo': {
        const { demoCommand } = await import('../demo/command.ts')
        return demoCommand(line.operands)
      }
      default: {
        const { command } = await import('../lib/auth/cli/command.ts')
        return command(line)
      }
    }
  }),
)
