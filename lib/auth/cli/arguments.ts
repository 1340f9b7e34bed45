/**
 * The command line of authproxy: its commands and options, and the text of `--help`.
 */
import { basename, extname } from 'node:path'
import {
  type CommandLine,
  type Program,
  pathOption,
  WrongUsage,
  withCommands,
} from '../../command-line.ts'
import { quoteText } from '../../config/reading.ts'
import type { ConfigPlace } from '../config/loading/load-config.ts'
import { features } from '../features.ts'

export type Line = CommandLine<typeof authproxy>

const defaultConfigDirectory = '/etc/authproxy'

/** The options by which each command finds the file of an instance. */
export const placeOptions = {
  config: {
    short: 'c',
    value: 'FILE',
    read: pathOption,
    help: 'read FILE instead of DIR/INSTANCE.yaml',
  },
  'config-dir': {
    value: 'DIR',
    read: pathOption,
    default: defaultConfigDirectory,
    help: `look for instances in DIR instead of ${defaultConfigDirectory}`,
  },
} as const

const core = {
  name: 'authproxy',
  usage: ['INSTANCE [OPTION]...', 'COMMAND [OPTION]...'],
  about:
    'Puts SAML single sign-on in front of one web application. Each instance has its configuration in a file of its name, or whole in the environment.',
  commands: {
    serve: { operands: '[INSTANCE]', summary: 'run the gateway; this is the default' },
    explain: {
      operands: 'REFERENCE [INSTANCE]',
      // A failure page says `SAML-ERROR 1a2b3c4d-5`; people copy what they see.
      ignores: /^(?:(?:SAML|PROXY)-ERROR|ACCESS-REFUSED):?$/,
      summary: 'say why a request or a login failed',
    },
    status: { operands: '[INSTANCE]', summary: 'say whether the running instance is well' },
    reload: { operands: '[INSTANCE]', summary: 'have it read its configuration again' },
    'rotate-keys': { operands: '[INSTANCE]', summary: 'make new keys; the old ones retire later' },
    'socket-unit': {
      operands: '[INSTANCE]',
      summary: 'print its address for a socket unit of systemd',
    },
    access: { readsTheRest: true, summary: 'say whether the rules of access let a request pass' },
    sessions: {
      readsTheRest: true,
      summary: 'end all sessions of a user (sessions end --user NAME)',
    },
    import: { readsTheRest: true, summary: 'translate the variables of saml-auth-proxy' },
    'dev-idp': { readsTheRest: true, summary: 'run an identity provider for development' },
    demo: { readsTheRest: true, summary: 'try everything out on this machine' },
  },
  options: {
    ...placeOptions,
    'check-config': {
      help: 'check the configuration, the metadata and the places it writes to, print every problem, exit',
    },
    'dump-config': {
      help: 'print the configuration in force, with the source of each value and secrets hidden, exit',
    },
    now: {
      of: ['rotate-keys'],
      help: 'the new keys sign at once, and not when the others know them',
    },
    checks: {
      of: ['socket-unit'],
      help: 'that of forwardAuth, for authproxy-checks@INSTANCE.socket',
    },
  },
  notes: `Environment: AUTHPROXY_DOMAIN, AUTHPROXY_PROXY_LISTEN_ADDRESS,
AUTHPROXY_PROXY_TARGET_URL and AUTHPROXY_IDP_METADATA_URL or
AUTHPROXY_IDP_METADATA_FILE together are a complete configuration; it is used
alone. Every other setting has a variable made the same way.

Exit status: 0 fine, 1 failure, 2 wrong usage, 78 wrong configuration.
SIGTERM lets running requests finish, SIGHUP reads the configuration again.

Manuals: authproxy(8), authproxy.yaml(5).
`,
} as const satisfies Program

/** The commands of features. */
export const addedCommands = features.flatMap(({ commands = [] }) => commands)

export const authproxy = withCommands(core, addedCommands)

/**
 * The instance a command line means: the instance it names, the instance of the file it names, or `default`. Throws WrongUsage.
 */
export function instanceOf({
  operands,
  run,
  options,
}: {
  readonly run: string
  readonly operands: readonly string[]
  readonly options: Pick<Line['options'], 'config' | 'config-dir'>
}): Omit<ConfigPlace, 'environment'> {
  const file = options.config
  const named = run === 'explain' ? operands[1] : operands[0]
  const instance = named ?? (file === undefined ? 'default' : basename(file, extname(file)))
  if (/^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$/.test(instance)) {
    return { instance, file, configDirectory: options['config-dir'] }
  }
  throw new WrongUsage(
    `${quoteText(instance)} is not a name of an instance: letters, digits, ".", "_", "-"`,
  )
}
