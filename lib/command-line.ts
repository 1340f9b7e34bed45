/**
 * Reads command lines by a table of commands and options, and makes the help text of it.
 */
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { nearest, quoted, type Read, right } from './config/reading.ts'
import { packageVersion } from './package.ts'
import { type ExitCode, exitCodes, print } from './program.ts'

export interface Option {
  /** One letter. */
  readonly short?: string
  /** How messages call the value: `FILE`. An option without it is a switch. */
  readonly value?: string
  /** Reads the value; a relative path is taken from `directory`. */
  readonly read?: (text: string, directory: string) => Read<unknown>
  /** Read in place of a value that is not given. */
  readonly default?: string
  /** Whether it may be repeated. */
  readonly many?: true
  /** The only commands that take it. */
  readonly of?: readonly string[]
  readonly help: string
}

interface Command {
  /** `URL`, or `[PATTERN]` for one that may be left out; several are separated by spaces. */
  readonly operands?: string
  /** Whether it reads what follows its name itself. */
  readonly readsTheRest?: true
  readonly summary: string
}

/** A program. Its first command is the one that runs when none is named. */
export interface Program<
  C extends Readonly<Record<string, Command>> = Readonly<Record<string, Command>>,
  O extends Readonly<Record<string, Option>> = Readonly<Record<string, Option>>,
> {
  readonly name: string
  /** Ways to call it, without its name. */
  readonly usage: readonly string[]
  readonly about: string
  readonly commands: C
  readonly options: O
  /** What follows the options in the help text. */
  readonly notes?: string
}

/** A command line that was understood. */
export interface CommandLine<P extends Program> {
  readonly run: keyof P['commands'] & string
  readonly operands: readonly string[]
  readonly options: { readonly [N in keyof P['options']]: ValueOf<P['options'][N]> }
}

type ValueOf<O extends Option> = O extends { readonly value: string }
  ? O extends { readonly many: true }
    ? readonly ReadBy<O>[]
    : ReadBy<O> | (O extends { readonly default: string } ? never : undefined)
  : boolean

type ReadBy<O> = O extends { readonly read: (...of: never[]) => Read<infer T> } ? T : string

/** What the arguments ask for. */
type Invocation<P extends Program> =
  | { readonly run: 'help' | 'version' }
  | { readonly run: 'command'; readonly line: CommandLine<P> }

/** What is wrong with a command line, and how to mend it. */
export class WrongUsage extends Error {}

/** The same table, with its own type. */
export function program<
  const C extends Readonly<Record<string, Command>>,
  const O extends Readonly<Record<string, Option>>,
>(table: Program<C, O>): Program<C, O> {
  return table
}

/** Does what the arguments ask for: prints the help, the version or what is wrong with them, or runs a command. */
export async function obey<P extends Program>(
  table: P,
  argv: readonly string[],
  act: (line: CommandLine<P>) => Promise<ExitCode>,
): Promise<ExitCode> {
  try {
    const invocation = readArguments(table, argv, process.cwd())
    if (invocation.run === 'command') return await act(invocation.line)
    const version = () => `${table.name} ${packageVersion()}\n`
    await print(invocation.run === 'help' ? helpText(table) : version())
    return exitCodes.success
  } catch (error) {
    if (!(error instanceof WrongUsage)) throw error
    await print(`${table.name}: ${error.message}\n`, process.stderr)
    return exitCodes.usage
  }
}

const ownOptions = {
  version: { short: 'v', help: 'print the version and exit' },
  help: { short: 'h', help: 'print this text and exit' },
} as const

/** Reads the arguments after the program's name. Throws WrongUsage. */
export function readArguments<P extends Program>(
  table: P,
  argv: readonly string[],
  directory: string,
): Invocation<P> {
  const options: Program['options'] = { ...table.options, ...ownOptions }
  const [first = ''] = argv
  if (Object.hasOwn(table.commands, first) && table.commands[first]?.readsTheRest === true) {
    return invocationOf<P>(first, argv.slice(1), {})
  }
  const given = new Map<string, unknown[]>()
  const words: string[] = []
  for (const token of tokensOf(argv, options)) {
    if (token.kind === 'positional') words.push(token.value)
    if (token.kind !== 'option') continue
    const option = Object.hasOwn(options, token.name) ? options[token.name] : undefined
    if (option === undefined) throw unknownOption(table, token, Object.keys(options))
    given.set(token.name, [...(given.get(token.name) ?? []), readValue(option, token, directory)])
  }
  if (given.has('help')) return { run: 'help' }
  if (given.has('version')) return { run: 'version' }

  const { run, operands } = commandOf(table, words)
  const values: Record<string, unknown> = {}
  for (const [name, option] of Object.entries(table.options)) {
    const found = given.get(name)
    if (found !== undefined && option.of !== undefined && !option.of.includes(run)) {
      throw new WrongUsage(`--${name} is an option of ${spoken(option.of)} alone`)
    }
    if (option.value === undefined) values[name] = found !== undefined
    else if (option.many === true) values[name] = found ?? []
    else if (found !== undefined || option.default === undefined) values[name] = found?.at(-1)
    else values[name] = readText(option, option.default, { rawName: `--${name}`, directory })
  }
  return invocationOf<P>(run, operands, values)
}

/** `a`, `a and b`, `a, b and c`. */
function spoken(names: readonly string[]): string {
  const others = names.slice(0, -1)
  return others.length === 0 ? names.join() : `${others.join(', ')} and ${names.at(-1)}`
}

/** Every value was read by its entry in the table, which is where its type comes from. */
function invocationOf<P extends Program>(
  run: string,
  operands: readonly string[],
  options: object,
): Invocation<P> {
  return { run: 'command', line: { run, operands, options } as unknown as CommandLine<P> }
}

type Token = ReturnType<typeof tokensOf>[number]
type OptionToken = Extract<Token, { kind: 'option' }>

function tokensOf(argv: readonly string[], options: Program['options']) {
  const known = Object.entries(options).map(([name, { short, value }]) => {
    const type = value === undefined ? ('boolean' as const) : ('string' as const)
    return [name, short === undefined ? { type } : { type, short }] as const
  })
  return parseArgs({
    args: [...argv],
    options: Object.fromEntries(known),
    strict: false,
    allowPositionals: true,
    tokens: true,
  }).tokens
}

function readValue(
  option: Option,
  { rawName, value, inlineValue }: OptionToken,
  directory: string,
): unknown {
  if (option.value === undefined) {
    if (value === undefined) return true
    throw new WrongUsage(`${rawName} takes no value`)
  }
  if (value === undefined || value === '') {
    throw new WrongUsage(`${rawName} needs a value: ${rawName} ${option.value}`)
  }
  // "--config --listen" is a forgotten value more often than a file of that name.
  if (inlineValue !== true && value.startsWith('-') && value !== '-') {
    const mend = `write ${rawName}=${value} if you mean it`
    throw new WrongUsage(`${rawName} needs a value, found ${value}; ${mend}`)
  }
  return readText(option, value, { rawName, directory })
}

function readText(
  { read = text => right(text) }: Option,
  text: string,
  { rawName, directory }: { readonly rawName: string; readonly directory: string },
): unknown {
  const outcome = read(text, directory)
  if (outcome.ok) return outcome.value
  throw new WrongUsage(`${rawName}: ${outcome.problem}`)
}

/** An option's value as a path, relative ones taken from the directory of the caller. */
export function pathOption(text: string, directory: string): Read<string> {
  return right(resolve(directory, text))
}

/** The command that the words name, or the first of the table, with its operands. */
function commandOf(
  { name, commands }: Program,
  words: readonly string[],
): { readonly run: string; readonly operands: readonly string[] } {
  const names = Object.keys(commands)
  const [typed = '', ...others] = words
  const named = Object.hasOwn(commands, typed)
  const run = named ? typed : (names[0] ?? '')
  const operands = named ? others : words
  const expected = commands[run]?.operands?.split(' ') ?? []
  if (!named && words.length > expected.length) throw unknownCommand(name, typed, names)
  if (operands.length > expected.length) {
    const most = expected.length === 0 ? 'no argument' : expected.join(' ')
    throw new WrongUsage(`${run} takes ${most}, found ${quoted(operands.join(' '))}`)
  }
  if (expected.slice(operands.length).some(word => !word.startsWith('['))) {
    throw new WrongUsage(`${run} needs an argument: ${name} ${run} ${expected.join(' ')}`)
  }
  return { run, operands }
}

function unknownCommand(program: string, typed: string, names: readonly string[]): WrongUsage {
  const near = nearest(typed, [...names, 'help', 'version'])
  const option = near === 'help' || near === 'version' ? `--${near}` : near
  return new WrongUsage(`there is no command ${quoted(typed)}${meant(program, option)}`)
}

function unknownOption(
  { name: program }: Program,
  { name, rawName }: OptionToken,
  names: readonly string[],
): WrongUsage {
  const near = rawName.startsWith('--') ? nearest(name, names) : undefined
  const option = near === undefined ? undefined : `--${near}`
  return new WrongUsage(`there is no option ${quoted(rawName)}${meant(program, option)}`)
}

function meant(program: string, near: string | undefined): string {
  return near === undefined ? `; see ${program} --help` : `; did you mean ${near}?`
}

/** Columns of a terminal. */
const width = 80

/** What `--help` prints. */
export function helpText({ name, usage, about, commands, options, notes }: Program): string {
  const named = Object.entries(commands).map(
    ([word, { operands = '', summary }]) => [`${word} ${operands}`.trim(), summary] as const,
  )
  const chosen = Object.entries({ ...options, ...ownOptions }).map(
    ([word, option]: readonly [string, Option]) => {
      const { short, value = '', of, help } = option
      const label = `${short === undefined ? '   ' : `-${short},`} --${word} ${value}`.trimEnd()
      return [label, of === undefined ? help : `${of.join(', ')}: ${help}`] as const
    },
  )
  const lengths = [...named, ...chosen].map(([label]) => label.length)
  const column = Math.max(...lengths.filter(length => length < 30)) + 4
  const list = (entries: readonly (readonly [string, string])[]) =>
    entries.map(([label, text]) => entryText(label, text, column)).join('')
  const calls = usage
    .map((call, i) => `${i === 0 ? 'Usage:' : '      '} ${name} ${call}\n`)
    .join('')
  return [
    calls,
    wrapped(about, 0),
    ...(named.length > 1 ? [`Commands:\n${list(named)}`] : []),
    `Options:\n${list(chosen)}`,
    ...(notes === undefined ? [] : [notes]),
  ].join('\n')
}

function entryText(label: string, text: string, column: number): string {
  const left = `  ${label}`.padEnd(column)
  const right = wrapped(text, column)
  return left.length > column ? `${left}\n${right}` : left + right.slice(column)
}

/** Text in lines of at most `width` columns, each indented. */
function wrapped(text: string, indent: number): string {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && indent + line.length + 1 + word.length > width) {
      lines.push(line)
      line = ''
    }
    line = line === '' ? word : `${line} ${word}`
  }
  return [...lines, line].map(one => `${' '.repeat(indent)}${one}\n`).join('')
}
