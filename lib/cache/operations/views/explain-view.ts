/**
 * The values of the Explain page: the form, and what is known of a URL. What becomes of a request has a word, a mark and a colour, so
 * that a refusal does not look like a hit.
 */
import { redactUrl } from '../../../log/redact.ts'
import type { View } from '../../../template.ts'
import type { OperationsSources, RequestFate } from '../sources.ts'

/** The longest URL `explain` takes. */
const longestUrl = 2048

/** URLs of the kinds that the page understands: an index, a package, an archive behind TLS. */
const explained = [
  'http://archive.example.org/debian/dists/stable/InRelease',
  'http://archive.example.org/debian/pool/main/h/hello/hello_2.10-3_amd64.deb',
  'https://packages.example.com/debian/dists/stable/InRelease',
].map(text => ({ text, href: `/_cachesvc/explain?${new URLSearchParams({ url: text })}` }))

/** The form, and what is known of the URL in the query's `url`, if it has one. */
export async function explainView(sources: OperationsSources, query = ''): Promise<View> {
  const url = new URLSearchParams(query).get('url')?.trim() ?? ''
  const tooLong = url.length > longestUrl
  const asked = url !== '' && !tooLong
  const [first, ...reasons] = asked ? await sources.explain(url) : []
  const examples = asked ? [] : explained
  const shown = tooLong ? '' : redactUrl(url)
  const fate = first?.fate !== undefined && { is: first.fate, ...fateWords[first.fate] }
  const verdict = first !== undefined && { ...first, fate }
  return { url: shown, tooLong, longestUrl, asked, verdict, reasons, examples }
}

const fateWords: Readonly<Record<RequestFate, { readonly word: string; readonly mark: string }>> = {
  hit: { word: 'From the cache', mark: '✓' },
  asks: { word: 'From the cache, when the origin agrees', mark: '✓' },
  miss: { word: 'From the origin', mark: '↓' },
  tunnel: { word: 'Tunnelled', mark: '⇄' },
  refused: { word: 'Refused', mark: '✕' },
  failed: { word: 'No file', mark: '!' },
}
