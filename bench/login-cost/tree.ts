/**
 * The process of one tree, which loads nothing of another: `node tree.js DIRECTORY`, started by main.ts alone. Does one task after the
 * other.
 */
import { on } from 'node:events'
import { Session } from 'node:inspector/promises'
import { join } from 'node:path'
import type { ResponseRules, verifyResponse } from '../../lib/saml/response/verify-response.ts'

export type Task =
  | { readonly kind: 'load' }
  | Readonly<Messages & { kind: 'verify'; times: number }>
  | Readonly<Messages & { kind: 'count' }>

interface Messages {
  /** In base64. */
  readonly messages: readonly string[]
  readonly rules: ResponseRules
}

/** Milliseconds of processor time, or calls by the name of what was called. */
export type Answered = number | Readonly<Record<string, number>>

/** The functions whose calls are counted, by their file and their name. */
const counted: ReadonlyArray<readonly [what: string, file: RegExp, name: RegExp]> = [
  ['our scan', /lib\/saml\/core\/scan\.js$/, /^parseXml$/],
  ['of these, SignedInfo', /lib\/saml\/signature\/signature\.js$/, /^signedInfo$/],
  ['xmldom', /xmldom\/lib\/dom-parser\.js$/, /parseFromString$/],
  ['our canonicalisation', /lib\/saml\/signature\/canonical\.js$/, /^canonicalBytes$/],
  ['that of xml-crypto', /exclusive-canonicalization\.js$/, /^process$/],
]

let verify: typeof verifyResponse | undefined

async function done(task: Task): Promise<Answered> {
  switch (task.kind) {
    case 'load':
      return cpuOf(async () => {
        const file = join(process.argv[2] ?? '', 'dist/lib/saml/response/verify-response.js')
        verify = (await import(file)).verifyResponse
      })
    case 'verify':
      return cpuOf(async () => {
        for (let i = 0; i < task.times; i += 1) await verified(task, i)
      })
    case 'count':
      return callsOf(() => verified(task, 0))
  }
}

async function verified({ messages, rules }: Messages, i: number): Promise<void> {
  const bytes = Buffer.from(messages[i % messages.length] ?? '', 'base64')
  const result = await verify?.(bytes, rules, () => true)
  if (!result?.ok) throw new Error(result?.problem ?? 'nothing is loaded')
}

async function cpuOf(work: () => Promise<void>): Promise<number> {
  const before = process.cpuUsage()
  await work()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000
}

async function callsOf(work: () => Promise<void>): Promise<Record<string, number>> {
  const session = new Session()
  session.connect()
  await session.post('Profiler.enable')
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  await work()
  const { result } = await session.post('Profiler.takePreciseCoverage')
  session.disconnect()
  const calls: Record<string, number> = {}
  for (const [what, file, name] of counted) {
    const functions = result.filter(({ url }) => file.test(url)).flatMap(one => one.functions)
    const found = functions.filter(({ functionName }) => name.test(functionName))
    calls[what] = found.reduce((sum, { ranges }) => sum + (ranges[0]?.count ?? 0), 0)
  }
  return calls
}

for await (const [task] of on(process, 'message')) process.send?.(await done(task))
