/**
 * Reads command lines by a table of commands and options, and makes the help text from it.
 */
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { mismatch, nearestName, quoteText, type ReadResult, readResult } from './config/reading.ts'
import { packageVersion } from './package.ts'
import { type ExitCode, exitCodes, print } from './program.ts'

interface Option {
  /** One letter. */
  readonly short?: string
  /** The name of the value in messages: `FILE`. An option without it is a switch. */
  readonly value?: string
  /** Reads the value. A relative path is taken from `directory`. */
  readonly read?: (text: string, directory: string) => ReadResult<unknown>
  /** The text that is read when the option is not given. */
  readonly default?: string
  /** Whether it may be repeated. */
  readonly many?: true
  /** The only commands that take it. */
  readonly of?: readonly string[]
  readonly help: string
}

interface Command {
  /** `URL`, `[PATTERN]` for an optional one, or `COMMAND...` for one or more at the end. Spaces separate several. */
  readonly operands?: string
  /** Operands without a meaning. */
  readonly ignores?: RegExp
  /** Whether the command itself reads the arguments after its name. */
  readonly readsTheRest?: true
  readonly summary: string
}

/** A program, which is written `as const`. Its first command runs when the user names none. */
export interface Program {
  readonly name: string
  /** Ways to call it, without its name. */
  readonly usage: readonly string[]
  readonly about: string
  readonly commands: Readonly<Record<string, Command>>
  readonly options: Readonly<Record<string, Option>>
  /** The text after the options in the help text. */
  readonly notes?: string
}

export interface CommandLine<P extends Program> {
  readonly run: keyof P['commands'] & string
  readonly operands: readonly string[]
  readonly options: OptionValues<P['options']>
}

type OptionValues<O extends Program['options']> = { readonly [N in keyof O]: ValueOf<O[N]> }

/** A command that is added to a program: its line in the help text, its options, and what it does in a context of the program. */
export interface AddedCommand<Context> extends Command {
  readonly name: string
  /** The options that only commands like this one take. */
  readonly options: Program['options']
  /** The names of the options of the program that it takes too. */
  readonly takes: readonly string[]
  /** Whether it reads its configuration itself. Then its context has that of a program without a file. */
  readonly readsConfiguration?: true
  readonly run: (
    line: Pick<CommandLine<Program>, 'operands' | 'options'>,
    context: Context,
  ) => Promise<number>
}

/** Makes a command to be added. `Shared` has the values of the options that it takes of the program. */
export function addedCommand<Context, Shared extends object>() {
  return <const O extends Program['options']>(
    command: Omit<AddedCommand<Context>, 'options' | 'run' | 'takes'> & {
      readonly options: O
      readonly takes: ReadonlyArray<keyof Shared & string>
      readonly run: (
        line: { readonly operands: readonly string[]; readonly options: OptionValues<O> & Shared },
        context: Context,
      ) => Promise<number>
    },
    // The entries in `options` and in the table of the program read every value, and its type comes from there.
  ) => command as unknown as AddedCommand<Context>
}

/** A program with further commands, which stand after its own. */
export function withCommands<P extends Program>(
  program: P,
  added: ReadonlyArray<AddedCommand<never>>,
): P {
  const commands = added.map(
    ({ name, options: _, takes: _takes, run: _run, readsConfiguration: _reads, ...rest }) => [
      name,
      rest,
    ],
  )
  const options: Record<string, Option> = { ...program.options }
  for (const { name, options: own, takes } of added) {
    for (const [option, one] of Object.entries(own)) options[option] ??= { ...one, of: [] }
    for (const option of [...Object.keys(own), ...takes]) {
      const known = options[option]
      if (known !== undefined) options[option] = { ...known, of: [...(known.of ?? []), name] }
    }
  }
  const taken = Object.entries(options).filter(([, { of }]) => of?.length !== 0)
  return {
    ...program,
    commands: { ...program.commands, ...Object.fromEntries(commands) },
    options: Object.fromEntries(taken),
  }
}

type ValueOf<O extends Option> = O extends { readonly value: string }
  ? O extends { readonly many: true }
    ? readonly ReadBy<O>[]
    : ReadBy<O> | (O extends { readonly default: string } ? never : undefined)
  : boolean

type ReadBy<O> = O extends { readonly read: (...of: never[]) => ReadResult<infer T> } ? T : string

/** The command that the arguments name, or the help or version that they ask for. */
type Invocation<P extends Program> =
  | { readonly run: 'help' | 'version' }
  | { readonly run: 'command'; readonly line: CommandLine<P> }

/** The fault of a command line, and the advice to correct it. */
export class WrongUsage extends Error {}

/** Runs the command of the arguments, or prints the help, the version or the fault of the arguments. */
export async function obey<P extends Program, Code extends number>(
  table: P,
  argv: readonly string[],
  act: (line: CommandLine<P>) => Promise<Code>,
): Promise<Code | ExitCode> {
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
  const [first = '', ...rest] = argv
  if (Object.hasOwn(table.commands, first) && table.commands[first]?.readsTheRest === true) {
    return invocationOf<P>(first, rest, {})
  }
  const given = new Map<string, unknown[]>()
  const words: string[] = []
  for (const token of tokensOf(argv, options)) {
    if (token.kind === 'positional') words.push(token.value)
    if (token.kind !== 'option') continue
    const option = Object.hasOwn(options, token.name) ? options[token.name] : undefined
    if (option === undefined) {
      const near = token.rawName.startsWith('--')
        ? nearestName(token.name, Object.keys(options))
        : undefined
      throw unknown(table.name, `option ${quoteText(token.rawName)}`, near && `--${near}`)
    }
    given.set(token.name, [...(given.get(token.name) ?? []), readValue(option, token, directory)])
  }
  if (given.has('help')) return { run: 'help' }
  if (given.has('version')) return { run: 'version' }

  const { run, operands } = commandOf(table, words)
  const values: Record<string, unknown> = {}
  for (const [name, option] of Object.entries(table.options)) {
    const found = given.get(name)
    if (found !== undefined && option.of !== undefined && !option.of.includes(run)) {
      // The format gives `a`, `a and b`, `a, b and c`.
      const commands = new Intl.ListFormat('en-GB').format(option.of)
      throw new WrongUsage(`--${name} is an option of ${commands} only`)
    }
    if (option.value === undefined) values[name] = found !== undefined
    else if (option.many === true) values[name] = found ?? []
    else if (found !== undefined || option.default === undefined) values[name] = found?.at(-1)
    else {
      const token = { rawName: `--${name}`, value: option.default, inlineValue: true }
      values[name] = readValue(option, token, directory)
    }
  }
  return invocationOf<P>(run, operands, values)
}

/** The entry in the table read every value, and its type comes from there. */
function invocationOf<P extends Program>(
  run: string,
  operands: readonly string[],
  options: object,
): Invocation<P> {
  return { run: 'command', line: { run, operands, options } as unknown as CommandLine<P> }
}

type OptionToken = Extract<ReturnType<typeof tokensOf>[number], { kind: 'option' }>

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
  { value: wanted, read = readResult }: Option,
  { rawName, value, inlineValue }: Pick<OptionToken, 'rawName' | 'value' | 'inlineValue'>,
  directory: string,
): unknown {
  if (wanted === undefined) {
    if (value === undefined) return true
    throw new WrongUsage(`${rawName} takes no value`)
  }
  if (value === undefined || value === '') {
    throw new WrongUsage(`${rawName} needs a value: ${rawName} ${wanted}`)
  }
  // "--config --listen" is a forgotten value more often than a file of that name.
  if (inlineValue !== true && value.startsWith('-') && value !== '-') {
    const mend = `write ${rawName}=${value} if you mean it`
    throw new WrongUsage(`${rawName} needs a value, found ${value}; ${mend}`)
  }
  const outcome = read(value, directory)
  if (outcome.ok) return outcome.value
  throw new WrongUsage(`${rawName}: ${outcome.problem}`)
}

/** Reads one of a few words. `what` names them in the message. */
export function oneOfWords<Word extends string>(words: readonly Word[], what: string) {
  return (text: string): ReadResult<Word> => {
    const word = words.find(one => one === text)
    return word === undefined ? mismatch(text, what) : readResult(word)
  }
}

/** The value of an option as a path. A relative one is taken from the caller's directory. */
export function pathOption(text: string, directory: string): ReadResult<string> {
  return readResult(resolve(directory, text))
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
  const { operands: form, ignores } = commands[run] ?? {}
  const operands = (named ? others : words).filter(word => ignores?.test(word) !== true)
  const expected = form?.split(' ') ?? []
  if (!named && words.length > expected.length) {
    const near = nearestName(typed, [...names, ...Object.keys(ownOptions)])
    const option = near !== undefined && Object.hasOwn(ownOptions, near)
    throw unknown(name, `command ${quoteText(typed)}`, option ? `--${near}` : near)
  }
  if (operands.length > expected.length && expected.at(-1)?.endsWith('...') !== true) {
    const most = expected.length === 0 ? 'no argument' : expected.join(' ')
    throw new WrongUsage(`${run} takes ${most}, found ${quoteText(operands.join(' '))}`)
  }
  if (expected.slice(operands.length).some(word => !word.startsWith('['))) {
    throw new WrongUsage(`${run} needs an argument: ${name} ${run} ${expected.join(' ')}`)
  }
  return { run, operands }
}

function unknown(program: string, what: string, near: string | undefined): WrongUsage {
  const mend = near === undefined ? `see ${program} --help` : `did you mean ${near}?`
  return new WrongUsage(`there is no ${what}; ${mend}`)
}

/** Columns of a terminal. */
const width = 80

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
  const lines = text.match(new RegExp(`.{1,${width - indent}}(?: |$)|\\S+ ?`, 'g')) ?? []
  return lines.map(line => `${' '.repeat(indent)}${line.trimEnd()}\n`).join('')
}
