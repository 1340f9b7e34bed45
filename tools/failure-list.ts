/**
 * The list of failures of authproxy in docs/troubleshooting.md, made from its table (lib/auth/pages/failures.ts). `npm run manual` writes it;
 * a test fails while it is out of date.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type FailureText, failureTable } from '../lib/auth/pages/failures.ts'

const path = 'docs/troubleshooting.md'
const fence = /(<!-- list of failures -->\n)[\s\S]*?(<!-- end of the list -->)/

/** docs/troubleshooting.md as it should be: its path in the repository and its text. Throws when it has no place for the list. */
export function troubleshootingWithFailures(
  root: string,
): readonly [path: string, content: string] {
  const text = readFileSync(join(root, path), 'utf8')
  if (!fence.test(text)) throw new Error(`${path} has no place for the list of failures`)
  const rows = ['| Code in the log | The page | What to do |', '|---|---|---|', ...rowsOf()]
  const list = `\n${rows.join('\n')}\n\n`
  return [path, text.replace(fence, (_, start: string, end: string) => `${start}${list}${end}`)]
}

/** A row for each remedy, with all codes that have it. Codes that have none are not listed. */
function rowsOf(): readonly string[] {
  const byRemedy = new Map<string, { readonly codes: string[]; readonly row: FailureText }>()
  for (const [code, row] of Object.entries(failureTable().codes)) {
    const remedy = remedyOf(row)
    if (remedy === '') continue
    const known = byRemedy.get(remedy) ?? { codes: [], row }
    known.codes.push(`\`${code}\``)
    byRemedy.set(remedy, known)
  }
  return [...byRemedy].map(
    ([
      remedy,
      {
        codes,
        row: { title, status },
      },
    ]) => {
      return `| ${codes.join(', ')} | “${title}” (${status}) | ${remedy} |`
    },
  )
}

function remedyOf({ administrator, advice = [], setting, doctor }: FailureText): string {
  const sentences = [
    ...new Set([...(administrator === undefined ? [] : [administrator]), ...advice]),
  ]
  if (sentences.length === 0 && doctor === undefined) return ''
  const found = doctor === undefined ? '' : `Doctor: ${doctor}.`
  const decided = setting === undefined ? '' : `Setting: \`${setting.replaceAll(', ', '`, `')}\`.`
  return [...sentences, decided, found]
    .filter(part => part !== '')
    .join(' ')
    .replaceAll('|', '\\|')
}
