/**
 * The list of failures of authproxy, docs/authproxy-failures.md, made from its table (lib/auth/pages/failures.ts). `npm run manual` writes it; a test
 * fails while it is out of date.
 */
import { type FailureText, failureTable } from '../lib/auth/pages/failures.ts'

const introduction = `# Failures of authproxy

<!-- Written by \`npm run manual\` from templates/auth/failures.json: change that, not this file. -->

Each refused request leaves a line in the log with its code, and \`authproxy explain REFERENCE\` prints the advice for it. This is the list of all codes
with advice, by what helps.
`

/** The document: its path in the repository and its text. */
export function failureList(): readonly [path: string, content: string] {
  const rows = ['| Code in the log | The page | What to do |', '|---|---|---|', ...rowsOf()]
  return ['docs/authproxy-failures.md', `${introduction}\n${rows.join('\n')}\n`]
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
