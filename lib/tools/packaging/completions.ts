/**
 * Completions for bash and zsh, made from the table of a command line.
 */
import type { Option, Program } from '../../command-line.ts'

/** What a shell offers in place of an operand: `INSTANCE` to the directory whose `*.yaml` files have the names. */
type Named = Readonly<Record<string, string>>

/** A program whose completion is written, and those of its commands that read their arguments themselves. */
export interface Completed {
  readonly table: Program
  readonly within?: readonly Program[]
  readonly named?: Named
}

type Entry = readonly [word: string, option: Option]

const own: readonly Entry[] = [
  ['help', { short: 'h', help: 'print the help and exit' }],
  ['version', { short: 'v', help: 'print the version and exit' }],
]

function optionsOf(table: Program): readonly Entry[] {
  return [...Object.entries(table.options), ...own]
}

function wordsOf([word, { short }]: Entry): string[] {
  return short === undefined ? [`--${word}`] : [`-${short}`, `--${word}`]
}

/** A completion for bash, to be installed under the program's name. */
export function bashCompletion({ table, within = [], named = {} }: Completed): string {
  const { name, commands } = table
  const tables = [table, ...within]
  const all = tables.flatMap(optionsOf)
  const valued = (is: (value: string) => boolean) => [
    ...new Set(all.filter(([, { value }]) => value !== undefined && is(value)).flatMap(wordsOf)),
  ]
  const files = valued(value => value === 'FILE')
  const directories = valued(value => value === 'DIR')
  const others = valued(value => value !== 'FILE' && value !== 'DIR')
  const offer = (kind: string) =>
    `compopt -o filenames; mapfile -t COMPREPLY < <(compgen ${kind} -- "$current")`
  const branch = (words: readonly string[], action: string) =>
    words.length === 0 ? [] : [`    ${words.join(' | ')})`, `      ${action}`, '      return ;;']
  const offered = (of: Program, command: string) =>
    optionsOf(of)
      .filter(([, option]) => option.of?.includes(command) ?? true)
      .map(([word]) => `--${word}`)
  const options = Object.keys(commands).map(command => {
    const inner = within.find(one => Object.hasOwn(one.commands, command))
    return `    ${command}) words='${offered(inner ?? table, command).join(' ')}' ;;`
  })
  const [first = ''] = Object.keys(commands)
  const operands = Object.entries(named).flatMap(([operand, directory]) => {
    const takers = Object.entries(commands).filter(([, one]) => one.operands?.includes(operand))
    return [
      `    ${['""', ...takers.map(([command]) => command)].join(' | ')})`,
      `      mapfile -t -O "\${#found[@]}" found < <(cd ${directory} 2>/dev/null && compgen -G '*.yaml' | sed 's/[.]yaml$//') ;;`,
    ]
  })
  const paths = Object.entries(commands).filter(([, one]) => /FILE|DIR/.test(one.operands ?? ''))
  return [
    `# bash completion for ${name}. Written from its command line.`,
    `_${name}() {`,
    `  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]}`,
    '  local command="" word words found=()',
    '  COMPREPLY=()',
    `  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do`,
    `    case $word in ${Object.keys(commands).join(' | ')}) command=$word; break ;; esac`,
    '  done',
    '  case $previous in',
    ...branch(files, offer('-f')),
    ...branch(directories, offer('-d')),
    ...branch(others, ':'),
    '  esac',
    '  case $command in',
    ...options,
    `    *) words='${[...Object.keys(commands), ...offered(table, first)].join(' ')}' ;;`,
    '  esac',
    ...(operands.length > 0 ? ['  case $command in', ...operands, '  esac'] : []),
    `  mapfile -t COMPREPLY < <(compgen -W "$words \${found[*]}" -- "$current")`,
    '  case $command in',
    ...branch(
      paths.map(([command]) => command),
      `compopt -o filenames; mapfile -t -O "\${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$current")`,
    ),
    '  esac',
    '}',
    `complete -F _${name} ${name}`,
    '',
  ].join('\n')
}

/** A completion for zsh, to be installed as `_NAME` in a directory of `$fpath`. */
export function zshCompletion({ table, within = [], named = {} }: Completed): string {
  const { name, commands } = table
  const inner = within.flatMap(one => [
    `  if (( CURRENT > 2 )) && [[ $words[2] == (${Object.keys(one.commands).join('|')}) ]]; then`,
    '    shift words; (( CURRENT-- ))',
    ...argumentLines(one, '    ', []),
    '    return',
    '  fi',
  ])
  const takesPaths = Object.values(commands).some(one => /FILE|DIR/.test(one.operands ?? ''))
  const paths = takesPaths ? ["'*:file:_files'"] : []
  const operands = Object.entries(named).map(
    ([operand, directory]) => `'*:${operand}:_files -W ${directory} -g "*.yaml(:r)"'`,
  )
  return [
    `#compdef ${name}`,
    '# Written from the command line.',
    `_${name}() {`,
    '  local -a commands',
    '  commands=(',
    ...Object.entries(commands).map(
      ([command, { summary }]) => `    ${quoted(`${command}:${summary}`)}`,
    ),
    '  )',
    ...inner,
    ...argumentLines(table, '  ', [
      "'1:command:{ _describe command commands }'",
      ...operands,
      ...paths,
    ]),
    '}',
    `_${name} "$@"`,
    '',
  ].join('\n')
}

function argumentLines(table: Program, indent: string, more: readonly string[]): string[] {
  const lines = optionsOf(table).map(entry => {
    const [, { help, value, many, of }] = entry
    const said = `[${(of === undefined ? help : `${of.join(', ')}: ${help}`).replace(/[[\]:\\]/g, '\\$&')}]`
    const action = value === 'FILE' ? '_files' : value === 'DIR' ? '_files -/' : ' '
    const rest = value === undefined ? said : `${said}:${value.replaceAll(':', '\\:')}:${action}`
    const words = wordsOf(entry)
    const [word = ''] = words
    if (many === true) return quoted(`*${word}${rest}`)
    return words.length === 1
      ? quoted(`${word}${rest}`)
      : `'(${words.join(' ')})'{${words.join(',')}}${quoted(rest)}`
  })
  return [
    `${indent}_arguments -s \\`,
    [...lines, ...more].map(line => `${indent}  ${line}`).join(' \\\n'),
  ]
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}
