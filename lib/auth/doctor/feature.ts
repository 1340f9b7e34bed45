/**
 * `authproxy doctor`, and what `--check-config` and the start ask of its checks. Their code is loaded when it is asked for.
 */
import { randomBytes } from 'node:crypto'
import { systemClock } from '../../async/clock.ts'
import { quoteText, type ReadResult, readFailure, readResult } from '../../config/reading.ts'
import { type ExitCode, print } from '../../program.ts'
import { type Feature, featureCommand, type UsableConfig } from '../features/feature.ts'
import type { Diagnosis } from './check.ts'

const command = featureCommand({
  name: 'doctor',
  operands: '[INSTANCE]',
  summary: 'find what is wrong and say how to fix it',
  options: { groups: { value: 'NUMBER', read: readGroups, help: 'how many groups a user is in' } },
  takes: [],
  run: ({ options: { groups } }, { loaded }) => examineInstance(loaded, groups),
})

export const doctor: Feature = {
  commands: [command],
  async findings({ value: config, from }) {
    const [keys, idp, neighbours, backend] = await Promise.all([
      import('./checks/keys.ts'),
      import('./checks/idp.ts'),
      import('./checks/neighbours.ts'),
      import('./checks/backend.ts'),
    ])
    const machine = { clock: systemClock, random: randomBytes }
    const of = { config, from, warnings: [], groups: undefined, ...machine }
    const found = await Promise.all([
      neighbours.hostName(of),
      keys.file(of),
      keys.owners(of),
      idp.availability(of),
      backend.authorities(of),
      backend.clientCertificate(of),
      backend.credentialFile(of),
      backend.groupNames(of),
    ])
    return found.flatMap(one => one ?? [])
  },
  async warnings(config, from) {
    const { hostName } = await import('./checks/neighbours.ts')
    return [(await hostName({ config, from })) ?? []].flat().map(({ found }) => found)
  },
}

async function examineInstance(
  { value: config, from, warnings }: UsableConfig,
  groups: number | undefined,
): Promise<ExitCode> {
  const [{ examine }, { linesOf, sumUp }] = await Promise.all([
    import('./checks/examine.ts'),
    import('./check.ts'),
  ])
  const found: Diagnosis[] = []
  const examination = { config, from, warnings, groups, clock: systemClock, random: randomBytes }
  for await (const diagnosis of examine(examination)) {
    found.push(diagnosis)
    await print(`${linesOf(diagnosis).join('\n')}\n`)
  }
  const { line, exitCode } = sumUp(found)
  await print(`\n${line}\n`)
  return exitCode
}

function readGroups(text: string): ReadResult<number> {
  return /^\d{1,5}$/.test(text)
    ? readResult(Number(text))
    : readFailure(`found ${quoteText(text)}, expected a number such as 150`)
}
