/**
 * Chooses the language of a page: proactive negotiation by Accept-Language, RFC 9110 section 12.5.4. Pure.
 */
import type { Fields } from '../../../http/message/field.ts'
import { danish } from './danish.ts'
import { french } from './french.ts'
import { german, type Sentence } from './german.ts'

/** Says a sentence in the language of a page; `filled` fills its `{name}` places. */
export type Say = (sentence: Sentence) => string

export interface Language {
  /** RFC 5646, for the attribute `lang` and for Content-Language. */
  readonly tag: string
  readonly say: Say
}

const tables: Readonly<Record<string, Readonly<Record<Sentence, string>>>> = {
  da: danish,
  de: german,
  fr: french,
}

const english: Language = { tag: 'en', say: sentence => sentence }

const languages: ReadonlyMap<string, Language> = new Map(
  Object.entries(tables).map(([tag, table]): [string, Language] => [
    tag,
    { tag, say: sentence => table[sentence] },
  ]),
).set(english.tag, english)

/** More ranges than people have languages are not read. */
const MOST_RANGES = 50

/**
 * The language a request asks for. The first of the ranges with the highest weight counts (RFC 4647 section 3.4, lookup: `de-AT`
 * finds `de`); English when none is found, as in a request that names none.
 */
export function languageOf(fields: Fields): Language {
  const ranges = fields
    .all('Accept-Language')
    .join(',')
    .split(',', MOST_RANGES)
    .map(readRange)
    .filter(range => range !== undefined)
    .sort((a, b) => b.weight - a.weight)
  const refused = new Set(ranges.filter(({ weight }) => weight === 0).map(({ tag }) => tag))
  for (const { tag, weight } of ranges) {
    const found = tag === '*' ? english : languages.get(tag.split('-', 1)[0] ?? '')
    if (weight > 0 && found !== undefined && !refused.has(found.tag)) return found
  }
  return english
}

/** A language range and its weight (12.4.2); undefined for what is malformed. */
function readRange(text: string): { readonly tag: string; readonly weight: number } | undefined {
  const [, tag, weight = '1'] =
    /^\s*([a-z]{1,8}(?:-[a-z0-9]{1,8})*|\*)\s*(?:;\s*q=([01](?:\.\d{0,3})?)\s*)?$/i.exec(text) ?? []
  return tag === undefined ? undefined : { tag: tag.toLowerCase(), weight: Number(weight) }
}

/** A text with its `{name}` places filled. A word that is a sentence itself is said in the same language. */
export function filled(text: string, words: Readonly<Record<string, string>>, say: Say): string {
  return text.replace(/\{(\w+)\}/g, (_, name: string) => {
    const word = words[name] ?? ''
    return isSentence(word) ? say(word) : word
  })
}

function isSentence(text: string): text is Sentence {
  return Object.hasOwn(german, text)
}
