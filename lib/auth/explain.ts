/**
 * The command `authproxy explain REFERENCE` prints the record of a failure, field by field, and the advice of the table of failures. A
 * running instance answers from memory; while none runs, the command reads the file of the instance.
 */
import { systemCode } from '../errors.ts'
import { printable } from '../log/redact.ts'
import { type FailureRecord, readFailures } from './pages/failure-records.ts'
import { failureTable, failureText } from './pages/failures.ts'

/** The explanation of a failure from the file of an instance that does not run. */
export async function explainFromFile(reference: string, file: string) {
  try {
    return explain(reference, await readFailures(file))
  } catch (error) {
    const why =
      systemCode(error) === 'ENOENT' ? 'no failure has been kept yet' : 'it cannot be read'
    return { found: false, lines: [`${file}: ${why}`] }
  }
}

/** The lines that explain a failure, or say that it is not known; the oldest failure is first. */
export function explain(reference: string, failures: readonly FailureRecord[]) {
  // People write the category and the ID in quotes, and then they are one operand.
  const id = reference.replace(/^(?:(?:SAML|PROXY)-ERROR|ACCESS-REFUSED)[\s:]*/, '').trim()
  const failure = failures.findLast(candidate => candidate.id === id)
  if (failure === undefined) {
    const [oldest] = failures
    const since = oldest === undefined ? '' : `; failures are known since ${timeOf(oldest)}`
    return { found: false, lines: [`no failure has the request ID ${printable(id)}${since}`] }
  }
  return { found: true, lines: linesOf(failure).map(printable) }
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

/**
 * The advice for a failure, the most likely remedy first: that of the text that was shown, or that of the code. The list is empty when
 * nothing but the record itself helps.
 */
export function adviceOn({ code, shown = code, facts = {} }: FailureRecord): readonly string[] {
  const rows = [shown, code, code.replace(/^logout_/, '')].map(failureText)
  const {
    administrator,
    advice = [],
    doctor,
  } = rows.find(row => row?.administrator ?? row?.advice) ?? {}
  const { [`${facts['because']}`]: notKept } = code === 'request_not_kept' ? reasonsNotKept() : {}
  const examines = doctor && `authproxy doctor examines this: ${doctor}.`
  const lines = [administrator, ...advice, notKept?.advice, examines]
  return [...new Set(lines.filter(line => line !== undefined))]
}

function reasonsNotKept(): Readonly<Record<string, { readonly advice?: string }>> {
  return failureTable().notKept
}
