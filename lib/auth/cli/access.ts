/**
 * The command `authproxy access` shows the verdict of the rules on a request, and the verdict of other rules on the requests of
 * a log.
 */
import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import { systemClock } from '../../async/clock.ts'
import { type CommandLine, obey, type Program, WrongUsage } from '../../command-line.ts'
import { quoteText, type ReadResult, readFailure, readResult } from '../../config/reading.ts'
import { parseDuration } from '../../config/units.ts'
import { unreadableReason } from '../../errors.ts'
import { printable } from '../../log/redact.ts'
import { type ExitCode, exitCodes, print } from '../../program.ts'
import type { Person } from '../access/rules.ts'
import { attributeMeant, attributeNames } from '../config/loading/check-access.ts'
import { loadConfig } from '../config/loading/load-config.ts'
import { readMethod } from '../config/setting-access.ts'
import type { LogJudge } from '../features/feature.ts'
import { features } from '../features.ts'
import { trialLines, tryRequest, withoutWatching } from '../gate/trial.ts'
import { instanceOf, placeOptions } from './arguments.ts'

export const access = {
  name: 'authproxy access',
  usage: ['[INSTANCE] [OPTION]... PATH', '[INSTANCE] [OPTION]... --log FILE [--suggest]'],
  about:
    'Says what the rules under `access` make of a request, with rule, line and reason; or judges the requests of a log by the rules of a file that is not in force yet.',
  commands: { access: { operands: '[INSTANCE] [PATH]', summary: '' } },
  options: {
    ...placeOptions,
    user: { value: 'NAME', help: 'who is signed in; without it the person is not' },
    groups: { value: 'LIST', help: 'the groups of the person, separated by commas' },
    attribute: {
      value: 'NAME=VALUE',
      many: true,
      read: readAttribute,
      help: 'another attribute of the person; may be repeated',
    },
    age: {
      value: 'DURATION',
      read: readAge,
      default: '0s',
      help: 'how long ago the person has signed in (0s)',
    },
    context: { value: 'URI', help: 'the authentication context of the login' },
    method: {
      value: 'METHOD',
      read: readMethod,
      default: 'GET',
      help: 'the method of the request (GET)',
    },
    log: {
      value: 'FILE',
      help: 'judge the requests of a log, `-` for standard input: who would newly be refused, who newly let in',
    },
    suggest: { help: 'with --log: write rules that allow the use in the log' },
  },
  notes: `Exit status: 0 the request passes, or the log was read; 1 it does not pass;
2 wrong usage; 78 wrong configuration.
`,
} as const satisfies Program

type Line = CommandLine<typeof access>

function readAttribute(text: string): ReadResult<readonly [name: string, value: string]> {
  const at = text.indexOf('=')
  return at > 0 && at < text.length - 1
    ? readResult([text.slice(0, at), text.slice(at + 1)] as const)
    : readFailure(`found ${quoteText(text)}, expected NAME=VALUE such as department=IT`)
}

function readAge(text: string): ReadResult<number> {
  const read = parseDuration(text)
  return read.ok ? read : readFailure(`found ${quoteText(text)}, expected a duration such as 20m`)
}

/** Runs the command with the arguments behind its name. */
export function accessCommand(argv: readonly string[]): Promise<ExitCode> {
  return obey(access, ['access', ...argv], runAccess)
}

async function runAccess({ operands, options }: Line): Promise<ExitCode> {
  const path = operands.find(operand => operand.startsWith('/'))
  const others = operands.filter(operand => operand !== path)
  if ((path === undefined) === (options.log === undefined)) {
    throw new WrongUsage('name a PATH such as /admin/x, or a log by --log')
  }
  if (options.suggest && options.log === undefined) {
    throw new WrongUsage('--suggest needs a log: name it by --log')
  }
  const who = options.groups ?? options.attribute[0] ?? options.context
  if (options.user === undefined && who !== undefined) {
    throw new WrongUsage(
      '--groups, --attribute and --context describe a person: name them by --user',
    )
  }
  const place = instanceOf({ run: 'access', operands: others, options })
  const loaded = await loadConfig({ ...place, environment: process.env })
  if (!loaded.ok) {
    await print(`${loaded.problems.join('\n')}\n`, process.stderr)
    return exitCodes.configuration
  }
  const known = attributeNames(loaded.value.identity.claims)
  for (const [name] of options.attribute) {
    if (known.includes(name)) continue
    const mend = attributeMeant(name, loaded.value.identity.claims)
    throw new WrongUsage(`--attribute: no attribute has the name ${quoteText(name)}; ${mend}`)
  }
  if (options.log !== undefined) {
    const [read] = features.flatMap(({ judgeLog, suggestRules }) => {
      return (options.suggest ? suggestRules : judgeLog) ?? []
    })
    if (read === undefined) throw new WrongUsage('--log: this program was made without it')
    return judge(await read(loaded.value), options.log)
  }
  const now = systemClock.now()
  const [asked = '', query] = (path ?? '').split(/\?(.*)/s, 2)
  const trial = { method: options.method, path: asked, query, person: personOf(options, now), now }
  const verdict = tryRequest(loaded.value, trial)
  const lines = [...trialLines(trial, verdict)]
  if (loaded.value.access?.enforced !== undefined) {
    const enforced = tryRequest(withoutWatching(loaded.value), trial)
    lines.push('', 'if no rule were only watched:', ...trialLines(trial, enforced))
  }
  await print(`${lines.map(printable).join('\n')}\n`)
  return verdict.is === 'passes' || verdict.is === 'own' ? exitCodes.success : exitCodes.failure
}

function personOf(options: Line['options'], now: number): Person | undefined {
  const { user, groups = '', attribute, age, context } = options
  if (user === undefined) return undefined
  const attributes = new Map<string, readonly string[]>()
  const listed = groups.split(',').map(group => group.trim())
  attributes.set(
    'groups',
    listed.filter(group => group !== ''),
  )
  for (const [name, value] of attribute) {
    attributes.set(name, [...(attributes.get(name) ?? []), value])
  }
  return { subject: user, attributes, authnInstant: now - age, authnContext: context }
}

async function judge(log: LogJudge, file: string): Promise<ExitCode> {
  const input = file === '-' ? process.stdin : createReadStream(file)
  try {
    for await (const line of createInterface({ input, crlfDelay: Infinity })) log.take(line)
  } catch (error) {
    await print(`authproxy: ${file}: ${unreadableReason(error)}\n`, process.stderr)
    return exitCodes.failure
  }
  await print(`${log.report().map(printable).join('\n')}\n`)
  return exitCodes.success
}
