/**
 * The command line of authproxy: what is asked for, or in one sentence what is wrong with it. Pure; the help text lives here.
 */
import { basename, extname, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { nearest } from '../../config/reading.ts'
import { defaultConfigDirectory } from '../config/load-config.ts'

/** Which instance is meant, and where its configuration is looked for. */
export interface InstanceChoice {
  readonly instance: string
  readonly configFile: string | undefined
  readonly configDirectory: string
}

export type Invocation =
  | { readonly run: 'help' | 'version' }
  /** Print `message` on standard error and end with exit code 2. */
  | { readonly run: 'usage'; readonly message: string }
  /** A command that reads the rest of the line itself. */
  | { readonly run: 'dev-idp' | 'demo'; readonly rest: readonly string[] }
  | InstanceCommand

/** A command for one instance. `requestId` is that of `explain`, else empty. */
export interface InstanceCommand extends InstanceChoice {
  readonly run: 'serve' | 'check-config' | 'rotate-keys' | 'doctor' | 'explain'
  readonly requestId: string
  /** Groups of a user, for `doctor`; undefined when nobody has said. */
  readonly groups: number | undefined
}

const commands = {
  serve: { operands: '[INSTANCE]', summary: 'run the gateway; what happens without a command' },
  doctor: { operands: '[INSTANCE]', summary: 'look for what is wrong, and say how to mend it' },
  explain: { operands: 'REQUEST-ID [INSTANCE]', summary: 'say why a request or a login failed' },
  'rotate-keys': { operands: '[INSTANCE]', summary: 'make new keys; the old ones retire later' },
  'dev-idp': { operands: '', summary: 'run an identity provider for development' },
  demo: { operands: '', summary: 'try everything out on this machine' },
} as const

/** What stands for a value in messages. */
const VALUES: Readonly<Record<string, string>> = {
  config: 'FILE',
  'config-dir': 'DIR',
  groups: 'NUMBER',
}

type CommandName = keyof typeof commands

const optionKinds = {
  config: { type: 'string', short: 'c' },
  'config-dir': { type: 'string' },
  'check-config': { type: 'boolean' },
  groups: { type: 'string' },
  version: { type: 'boolean', short: 'v' },
  help: { type: 'boolean', short: 'h' },
} as const

/** Reads the arguments after the program's name. Relative paths are taken from `directory`. */
export function readArguments(argv: readonly string[], directory: string): Invocation {
  const [first] = argv
  if (first === 'dev-idp' || first === 'demo') return { run: first, rest: argv.slice(1) }
  const given = new Map<string, string>()
  const words: string[] = []
  const { tokens } = parseArgs({
    args: [...argv],
    options: optionKinds,
    strict: false,
    allowPositionals: true,
    tokens: true,
  })
  for (const token of tokens) {
    if (token.kind === 'positional') words.push(token.value)
    if (token.kind !== 'option') continue
    const { name, rawName, value } = token
    if (!isOption(name)) return usage(unknownOption(rawName))
    const takesValue = optionKinds[name].type === 'string'
    if (!takesValue && value !== undefined) return usage(`${rawName} takes no value`)
    if (
      takesValue &&
      (value === undefined || value === '' || (!token.inlineValue && value.startsWith('-')))
    ) {
      return usage(`${rawName} needs a value: ${rawName} ${VALUES[name] ?? ''}`)
    }
    given.set(name, value ?? '')
  }
  if (given.has('help')) return { run: 'help' }
  if (given.has('version')) return { run: 'version' }

  const [word] = words
  const command: CommandName = word !== undefined && isCommand(word) ? word : 'serve'
  const operands = word !== undefined && isCommand(word) ? words.slice(1) : words
  const requestId = command === 'explain' ? operands.shift() : ''
  if (requestId === undefined)
    return usage('explain needs the ID on the failure page: authproxy explain REQUEST-ID')
  if (operands.length > 1) {
    const near = nearest(operands[0] ?? '', Object.keys(commands))
    return usage(
      `one instance at a time, found ${operands.length}${near === undefined ? '' : `; did you mean the command ${near}?`}`,
    )
  }
  const file = given.get('config')
  const configFile = file === undefined ? undefined : resolve(directory, file)
  const instance =
    operands[0] ??
    (configFile === undefined ? 'default' : basename(configFile, extname(configFile)))
  if (!/^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$/.test(instance)) {
    return usage(`${quoted(instance)} is no name of an instance: letters, digits, ".", "_", "-"`)
  }
  const groups = given.get('groups')
  if (groups !== undefined && command !== 'doctor') {
    return usage('--groups is an option of doctor: authproxy doctor --groups 150')
  }
  if (groups !== undefined && !/^\d{1,5}$/.test(groups)) {
    return usage(`--groups: found ${quoted(groups)}, expected a number such as 150`)
  }
  const configDirectory = resolve(directory, given.get('config-dir') ?? defaultConfigDirectory)
  const choice = {
    ...{ instance, configFile, configDirectory, requestId },
    groups: groups === undefined ? undefined : Number(groups),
  }
  if (given.has('check-config')) return { run: 'check-config', ...choice }
  if (command === 'dev-idp' || command === 'demo') return { run: command, rest: operands }
  return { run: command, ...choice }
}

/** What `--help` prints: at most 80 columns. */
export function helpText(): string {
  const lines = Object.entries(commands).map(
    ([name, { operands, summary }]) => `  ${`${name} ${operands}`.trim().padEnd(30)}${summary}`,
  )
  return `Usage: authproxy INSTANCE [OPTION]...
       authproxy COMMAND [OPTION]...

Puts SAML single sign-on in front of one web application. Each instance has its
configuration in a file of its name, or whole in the environment.

Commands:
${lines.join('\n')}

Options:
  -c, --config FILE    read FILE instead of DIR/INSTANCE.yaml
      --config-dir DIR look for instances in DIR instead of ${defaultConfigDirectory}
      --check-config   check the configuration, print every problem, exit
      --groups NUMBER  groups your users are in, for doctor
  -v, --version        print the version and exit
  -h, --help           print this text and exit

Environment: AUTHPROXY_DOMAIN, AUTHPROXY_PROXY_LISTEN_ADDRESS,
AUTHPROXY_PROXY_TARGET_URL and AUTHPROXY_IDP_METADATA_URL or
AUTHPROXY_IDP_METADATA_FILE together are a complete configuration; it is used
alone. Every other setting has a variable made the same way.

Exit status: 0 fine, 1 failure, 2 wrong usage, 78 wrong configuration.
SIGTERM lets running requests finish, SIGHUP reads the configuration again.

Manuals: authproxy(8), authproxy.yaml(5).
`
}

function unknownOption(rawName: string): string {
  const near = rawName.startsWith('--')
    ? nearest(rawName.slice(2), Object.keys(optionKinds))
    : undefined
  return `there is no option ${quoted(rawName)}${near === undefined ? '; see authproxy --help' : `; did you mean --${near}?`}`
}

function quoted(text: string): string {
  return JSON.stringify(text.slice(0, 60))
}

function usage(message: string): Invocation {
  return { run: 'usage', message: `authproxy: ${message}` }
}

function isOption(name: string): name is keyof typeof optionKinds {
  return Object.hasOwn(optionKinds, name)
}

function isCommand(word: string): word is CommandName {
  return Object.hasOwn(commands, word)
}
