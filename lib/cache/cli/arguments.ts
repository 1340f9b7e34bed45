/**
 * The command line of cachesvc: what is asked for, or in one sentence what is wrong with it. Pure; the help text lives here.
 */
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { readListenAddress } from '../../config/address-kinds.ts'
import { nearest } from '../../config/reading.ts'
import type { ListenAddress } from '../../http/server/listen.ts'
import type { Overrides } from '../config/config.ts'

/** Options every command understands. */
export interface CommonOptions {
  /** The file named on the command line. */
  readonly configFile: string | undefined
  readonly overrides: Overrides
}

export type Invocation =
  | { readonly run: 'help' | 'version' }
  /** Print `message` on standard error and end with exit code 2. */
  | { readonly run: 'usage'; readonly message: string }
  | ({ readonly run: 'check-config' } & CommonOptions)
  | ({ readonly run: PlainCommand; readonly operand: string | undefined } & CommonOptions)
  | ({ readonly run: 'verify-repos' } & VerifyOptions & CommonOptions)

/** Options of `verify-repos` alone. */
export interface VerifyOptions {
  /** Report as JSON. */
  readonly json: boolean
  /** Remove nothing. */
  readonly dryRun: boolean
}

interface Command {
  readonly operand?: { readonly name: string; readonly required: boolean }
  readonly summary: string
  /** Whether this version has it; others are neither advertised nor taken. */
  readonly available: boolean
}

/** The commands; a new one turns `available` on. */
const commands = {
  serve: {
    summary: 'run the proxy; this is what happens without a command',
    available: true,
  },
  'verify-repos': {
    summary: 'check all that is stored, remove what is wrong',
    available: true,
  },
  explain: {
    operand: { name: 'URL', required: true },
    summary: 'say what would become of a request for URL, and why',
    available: true,
  },
  list: {
    operand: { name: 'PATTERN', required: false },
    summary: 'list what is stored',
    available: true,
  },
  import: {
    operand: { name: 'DIR', required: true },
    summary: 'take over the packages found below DIR',
    available: false,
  },
} as const satisfies Record<string, Command>

export type CommandName = keyof typeof commands

type PlainCommand = Exclude<CommandName, 'verify-repos'>

const optionKinds = {
  config: { type: 'string', short: 'c' },
  'cache-dir': { type: 'string' },
  listen: { type: 'string' },
  'check-config': { type: 'boolean' },
  json: { type: 'boolean' },
  'dry-run': { type: 'boolean' },
  version: { type: 'boolean', short: 'v' },
  help: { type: 'boolean', short: 'h' },
} as const

/** Reads the arguments after the program's name. Relative paths are taken from `directory`. */
export function readArguments(argv: readonly string[], directory: string): Invocation {
  const { tokens } = parseArgs({
    args: [...argv],
    options: optionKinds,
    strict: false,
    allowPositionals: true,
    tokens: true,
  })
  const given = new Map<string, string>()
  const listen: ListenAddress[] = []
  const words: string[] = []

  for (const token of tokens) {
    if (token.kind === 'positional') words.push(token.value)
    if (token.kind !== 'option') continue
    const { name, rawName, value } = token
    if (!isOption(name)) return usage(unknownOption(rawName, Object.keys(optionKinds)))
    const takesValue = optionKinds[name].type === 'string'
    if (!takesValue && value !== undefined) return usage(`${rawName} takes no value`)
    if (takesValue && (value === undefined || value === '')) {
      return usage(`${rawName} needs a value: ${rawName} ${valueNames[name]}`)
    }
    // "--config --listen" is a forgotten value more often than a file of that name.
    if (takesValue && !token.inlineValue && value?.startsWith('-') && value !== '-') {
      return usage(
        `${rawName} needs a value, found ${value}; write ${rawName}=${value} if you mean it`,
      )
    }
    if (name === 'listen') {
      const read = readListenAddress(value)
      if (!read.ok) return usage(`--listen: ${read.problem}`)
      listen.push(read.value)
    } else given.set(name, value ?? '')
  }

  if (given.has('help')) return { run: 'help' }
  if (given.has('version')) return { run: 'version' }

  const [word = 'serve', ...operands] = words
  if (!isCommand(word)) return usage(unknownCommand(word))
  const command: Command = commands[word]
  if (!command.available) return usage(`${word} is not available in this version`)
  if (operands.length > 0 && command.operand === undefined) {
    return usage(`${word} takes no argument, found ${quoted(operands[0])}`)
  }
  if (operands.length > 1) return usage(`${word} takes one argument, found ${operands.length}`)
  if (command.operand?.required && operands.length === 0) {
    return usage(`${word} needs an argument: cachesvc ${word} ${command.operand.name}`)
  }

  const config = given.get('config')
  const cacheDirectory = given.get('cache-dir')
  const common: CommonOptions = {
    configFile: config === undefined ? undefined : resolve(directory, config),
    overrides: {
      cacheDirectory: cacheDirectory === undefined ? undefined : resolve(directory, cacheDirectory),
      listen: listen.length === 0 ? undefined : listen,
    },
  }
  if (given.has('check-config')) return { run: 'check-config', ...common }
  const options = { json: given.has('json'), dryRun: given.has('dry-run') }
  if (word === 'verify-repos') return { run: word, ...options, ...common }
  if (options.json || options.dryRun) {
    return usage(`--${options.json ? 'json' : 'dry-run'} is an option of verify-repos alone`)
  }
  return { run: word, operand: operands[0], ...common }
}

const valueNames: Readonly<Record<string, string>> = {
  config: 'FILE',
  'cache-dir': 'DIR',
  listen: 'ADDRESS:PORT',
}

/** What `--help` prints: at most 80 columns. */
export function helpText(): string {
  const available = Object.entries<Command>(commands).filter(([, { available }]) => available)
  const lines = available.map(([name, { operand, summary }]) => {
    const left = [name, operandText(operand)].filter(text => text !== '').join(' ')
    return `  ${left.padEnd(25)}${summary}`
  })
  const others = available.some(([name]) => name !== 'serve')
    ? '\n       cachesvc COMMAND [OPTION]...'
    : ''
  return `Usage: cachesvc [serve] [OPTION]...${others}

A caching proxy for APT archives. What one machine fetched, the others get from
here, even while the archive cannot be reached; and every answer says why it was
given.

Commands:
${lines.join('\n')}

Options:
  -c, --config FILE        read FILE instead of /etc/cachesvc/cachesvc.yaml
      --cache-dir DIR      keep stored objects in DIR
      --listen ADDRESS:PORT
                           listen there; may be repeated; [IPV6]:PORT and :PORT
                           are understood as well
      --check-config       check the configuration, print every problem, exit
      --dry-run            verify-repos: remove nothing
      --json               verify-repos: report as JSON
  -v, --version            print the version and exit
  -h, --help               print this text and exit

Environment:
  CACHESVC_CONFIG          configuration file when --config is not given
  CACHESVC_CACHE_DIR       cache directory when --cache-dir is not given

Exit status: 0 fine, 1 failure, 2 wrong usage, 78 wrong configuration.
SIGTERM lets running transfers finish, SIGHUP reads the configuration again.

It runs without any configuration: on port 3142, for the machines of private
networks. To make a machine use it, with PROXY the name of this host:

  echo 'Acquire::http::Proxy "http://PROXY:3142";' |
    sudo tee /etc/apt/apt.conf.d/30cachesvc

Manuals: cachesvc(8), cachesvc.yaml(5). Pages: http://PROXY:3142/_cachesvc/
`
}

function operandText(operand: Command['operand']): string {
  if (operand === undefined) return ''
  return operand.required ? operand.name : `[${operand.name}]`
}

function unknownOption(rawName: string, names: readonly string[]): string {
  const near = rawName.startsWith('--') ? nearest(rawName.slice(2), names) : undefined
  return `there is no option ${quoted(rawName)}${meant(near === undefined ? undefined : `--${near}`)}`
}

function unknownCommand(word: string): string {
  const known = Object.entries<Command>(commands).filter(([, { available }]) => available)
  const near = nearest(word, [...known.map(([name]) => name), 'help', 'version'])
  const option = near === 'help' || near === 'version' ? `--${near}` : near
  return `there is no command ${quoted(word)}${meant(option)}`
}

function meant(near: string | undefined): string {
  return near === undefined ? '; see cachesvc --help' : `; did you mean ${near}?`
}

function quoted(text: string | undefined): string {
  return JSON.stringify((text ?? '').slice(0, 60))
}

function usage(message: string): Invocation {
  return { run: 'usage', message: `cachesvc: ${message}` }
}

function isOption(name: string): name is keyof typeof optionKinds {
  return Object.hasOwn(optionKinds, name)
}

function isCommand(word: string): word is CommandName {
  return Object.hasOwn(commands, word)
}
