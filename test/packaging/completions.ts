/**
 * The completions of both programs in packaging/completions, compared with the tables of their command lines.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { demo, devIdp } from '../../demo/idp/arguments.ts'
import { access } from '../../lib/auth/cli/access.ts'
import { authproxy } from '../../lib/auth/cli/arguments.ts'
import { importing } from '../../lib/auth/cli/import.ts'
import { sessions } from '../../lib/auth/cli/sessions.ts'
import { cachesvc } from '../../lib/cache/cli/arguments.ts'
import type { Program } from '../../lib/command-line.ts'
import { packageRoot } from '../../lib/package.ts'
import { command, lacking } from '../fixtures/process/command.ts'

/** Each program with those of its commands that have a table of their own, in their order. */
const programs: ReadonlyArray<readonly [Program, within: Readonly<Record<string, Program>>]> = [
  [cachesvc, {}],
  [authproxy, { access, import: importing, sessions, 'dev-idp': devIdp, demo }],
]

const pathOf = (name: string) => join(packageRoot(), 'packaging/completions', name)

/** What bash offers for each of these lines, in the place of its last word. */
async function offers(program: string, lines: readonly string[]): Promise<string[]> {
  const script = `. "$0"; compopt() { :; }; cd() { false; }
    while read -ra COMP_WORDS; do
      if [[ \${COMP_WORDS[-1]} == NONE ]]; then COMP_WORDS[-1]=""; fi
      COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); _${program}; echo "\${COMPREPLY[*]}"
    done`
  const input = lines.map(line => `${program} ${line}\n`).join('')
  const text = await command('bash', ['-c', script, pathOf(`${program}.bash`)], { input })
  return text.toString().split('\n').slice(0, lines.length).map(sorted)
}

const sorted = (words: string): string => words.split(' ').sort().join(' ')

for (const [table, within] of programs) {
  const { name, commands } = table
  t.test(`bash: ${name}`, { skip: lacking('bash') }, async t => {
    const words = Object.keys(commands)
    const [all, ...ofEach] = await offers(name, ['NONE', ...words.map(word => `${word} --`)])
    t.equal(all, sorted(`${words.join(' ')} ${optionWords(table, '')}`))
    words.forEach((word, index) => {
      const inner = within[word]
      const expected = inner === undefined ? optionWords(table, word) : optionWords(inner)
      t.equal(ofEach[index], sorted(expected), word)
    })
    const inner = Object.entries(within)
    const verbs = await offers(
      name,
      inner.map(([word]) => `${word} NONE`),
    )
    inner.forEach(([word, { commands }], index) => {
      const own = Object.keys(commands).filter(verb => verb !== word && verb !== 'help')
      const offered = verbs[index]?.split(' ') ?? []
      t.strictSame(
        offered.filter(one => !one.startsWith('-')),
        own,
        word,
      )
    })
    const options = [table, ...Object.values(within)].flatMap(one => Object.entries(one.options))
    const behind = await offers(
      name,
      options.map(([word]) => `--${word} --he`),
    )
    options.forEach(([word, { value }], index) => {
      t.equal(behind[index], value === undefined ? '--help' : '', `--${word} takes ${value}`)
    })
  })

  t.test(`zsh: ${name}`, async t => {
    const text = readFileSync(pathOf(`${name}.zsh`), 'utf8')
    const named = [...text.matchAll(/^ {4}'([a-z-]+):/gm)].map(([, word]) => word)
    t.strictSame(named.sort(), Object.keys(commands).sort())
    const [main = '', ...inner] = sectionsOf(text)
    t.equal(sorted(main), sorted(optionWords(table)))
    t.strictSame(
      inner,
      Object.values(within).map(one => optionWords(one)),
    )
  })
}

/** The options of a program; of one command, when that is named: `''` for none. */
function optionWords({ options }: Program, command?: string): string {
  const own = Object.entries(options).filter(
    ([, { of }]) => command === undefined || (of?.includes(command) ?? true),
  )
  return [...own.map(([word]) => word), 'help', 'version'].map(word => `--${word}`).join(' ')
}

/** The options of each call of _arguments, that of the program first. */
function sectionsOf(text: string): string[] {
  const calls = text.split('_arguments -s').slice(1)
  const sections = calls.map(call =>
    [...call.matchAll(/^ +'(?:\(-\w (--[a-z-]+)\)'|\*?(--[a-z-]+)\[)/gm)]
      .map(([, long, alone]) => long ?? alone)
      .join(' '),
  )
  return [...sections.slice(-1), ...sections.slice(0, -1)]
}
