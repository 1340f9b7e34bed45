/**
 * The values of the Explain page: the form, and the findings about a URL. Each expected outcome has a mark and a colour, so
 * that a refusal does not look like a hit.
 */
import { redactUrl } from '../../../log/redact.ts'
import type { View } from '../../../template.ts'
import type { OperationsSources, RequestFate } from '../sources.ts'

/** The longest URL that the page accepts, in characters. */
const longestUrl = 2048

/** Examples of URLs that the page understands: an index, a package, and a file of an archive with TLS. */
const explained = [
  'http://archive.example.org/debian/dists/stable/InRelease',
  'http://archive.example.org/debian/pool/main/h/hello/hello_2.10-3_amd64.deb',
  'https://packages.example.com/debian/dists/stable/InRelease',
].map(text => ({ text, href: `/_cachesvc/explain?${new URLSearchParams({ url: text })}` }))

/** The values of the form, and of the findings about `url` in the query, if it has one. */
export async function explainView(sources: OperationsSources, query = ''): Promise<View> {
  const url = new URLSearchParams(query).get('url')?.trim() ?? ''
  const tooLong = url.length > longestUrl
  const asked = url !== '' && !tooLong
  const [first, ...reasons] = asked ? await sources.explain({ url }) : []
  const examples = asked ? [] : explained
  const shown = tooLong ? '' : redactUrl(url)
  const fate = first?.fate !== undefined && { is: first.fate, mark: fateMarks[first.fate] }
  const verdict = first !== undefined && { ...first, fate }
  return { url: shown, tooLong, longestUrl, asked, verdict, reasons, examples }
}

const fateMarks: Readonly<Record<RequestFate, string>> = {
  hit: '✓',
  asks: '✓',
  miss: '↓',
  tunnel: '⇄',
  refused: '✕',
  failed: '!',
}
