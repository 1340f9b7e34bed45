/**
 * `authproxy explain REFERENCE`: what the daemon has kept of a failure, field by field, for the operator.
 */
import { askOwner } from '../../admin-socket.ts'
import { type Milliseconds, systemClock } from '../../async/clock.ts'
import { systemCode } from '../../errors.ts'
import { isRecord } from '../../json.ts'
import { printable } from '../../log/redact.ts'
import { lockOf } from '../keys/dynamic-file.ts'
import {
  DELAY,
  type FailureRecord,
  isFailureRecord,
  readFailures,
} from '../pages/failure-records.ts'
import { adviceOn } from './advice.ts'

interface Explanation {
  readonly found: boolean
  readonly lines: readonly string[]
}

/**
 * The lines that explain a failure, or why there is nothing to explain. The daemon writes failures some moments later, so one that is
 * not there is looked for once more. Nothing else keeps the program alive meanwhile: `wait` has to.
 */
export async function explain(
  requestId: string,
  file: string,
  wait: (time: Milliseconds) => Promise<unknown>,
  elsewhere: (id: string) => Promise<FailureRecord | undefined> = async () => undefined,
): Promise<Explanation> {
  const first = await lookUp(requestId, file)
  if (first.found) return first
  const other = await elsewhere(idIn(requestId))
  if (other !== undefined) return explained(other)
  await wait(2 * DELAY)
  return lookUp(requestId, file)
}

/** The record of a failure at another instance, which the running one of this machine finds in the shared store. */
export async function recordElsewhere(
  configPath: string,
  id: string,
): Promise<FailureRecord | undefined> {
  const asked = { do: 'find-failure', reference: id }
  const reply = await askOwner(lockOf(configPath), asked, systemClock).catch(() => undefined)
  const text = isRecord(reply?.answer) ? reply.answer['out'] : undefined
  const found: unknown = typeof text === 'string' ? JSON.parse(text) : undefined
  return isFailureRecord(found) ? found : undefined
}

/** People write the category and the ID in quotes, and then they are one operand. */
function idIn(requestId: string): string {
  return requestId.replace(/^(?:(?:SAML|PROXY)-ERROR|ACCESS-REFUSED)[\s:]*/, '').trim()
}

function explained(failure: FailureRecord): Explanation {
  return { found: true, lines: linesOf(failure).map(printable) }
}

async function lookUp(requestId: string, file: string): Promise<Explanation> {
  let failures: readonly FailureRecord[]
  try {
    failures = await readFailures(file)
  } catch (error) {
    const why =
      systemCode(error) === 'ENOENT' ? 'no failure has been kept yet' : 'it cannot be read'
    return { found: false, lines: [`${file}: ${why}`] }
  }
  const id = idIn(requestId)
  const failure = failures.findLast(candidate => candidate.id === id)
  if (failure === undefined) {
    const [oldest] = failures
    const since = oldest === undefined ? '' : `; failures are known since ${timeOf(oldest)}`
    return { found: false, lines: [`no failure has the request ID ${printable(id)}${since}`] }
  }
  return explained(failure)
}

function linesOf(failure: FailureRecord): readonly string[] {
  const { category, code, title, status, method, path, client, facts, findings } = failure
  const lines = [
    `${category} ${code}`,
    `${title} (status ${status})`,
    '',
    pair('when', timeOf(failure)),
    pair('client', client),
    pair('request', `${method} ${path}`),
    ...Object.entries(facts ?? {}).map(([name, value]) => pair(name, textOf(value))),
  ]
  if (findings.length > 0) lines.push('')
  for (const { what, ok, expected, received } of findings) {
    lines.push(`${ok ? 'ok   ' : 'WRONG'} ${what}`)
    if (ok && expected === received) continue
    lines.push(`      expected ${expected}`, `      received ${received}`)
  }
  const advice = adviceOn(failure)
  if (advice.length > 0) lines.push('', 'what to do')
  return [...lines, ...advice.map(sentence => `  - ${sentence}`)]
}

function pair(name: string, value: string): string {
  return `${name.padEnd(12)} ${value}`
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '')
}

function timeOf({ at }: FailureRecord): string {
  return new Date(at).toISOString()
}
