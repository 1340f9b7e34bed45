/**
 * Chooses the language of a page: proactive negotiation by Accept-Language, RFC 9110 section 12.5.4.
 * The sentences are in templates/auth/languages, a file for each language but English, whose sentences are the keys.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type german from '../../../templates/auth/languages/de.json'
import type { Fields } from '../../http/message/field.ts'

/** A sentence that every language has, in English. */
export type Sentence = keyof typeof german

/**
 * Translates a sentence into the language of a page and fills its `{name}` places. A word that is itself a sentence is
 * translated too.
 */
export type Say = (sentence: Sentence, words?: Words) => string

type Words = Readonly<Record<string, string>>

export interface Language {
  /** RFC 5646, for the attribute `lang` and for Content-Language. */
  readonly tag: string
  readonly say: Say
}

export const english: Language = { tag: 'en', say: fillText }

/** The most language ranges of a request that are read. */
const MOST_RANGES = 50

/**
 * Reads the languages, once, and answers which one a request asks for. The first of the ranges with the highest weight counts
 * (RFC 4647 section 3.4, lookup: `de-AT` finds `de`); English when none is found, as in a request that names none.
 */
export function readLanguages(directory: string): (fields: Fields) => Language {
  const languages = new Map([['en', english]])
  for (const tag of ['da', 'de', 'fr']) languages.set(tag, readLanguage(directory, tag))
  return fields => {
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
}

/** A language range and its weight (12.4.2); undefined for what is malformed. */
function readRange(text: string): { readonly tag: string; readonly weight: number } | undefined {
  const [, tag, weight = '1'] =
    /^\s*([a-z]{1,8}(?:-[a-z0-9]{1,8})*|\*)\s*(?:;\s*q=([01](?:\.\d{0,3})?)\s*)?$/i.exec(text) ?? []
  return tag === undefined ? undefined : { tag: tag.toLowerCase(), weight: Number(weight) }
}

function readLanguage(directory: string, tag: string): Language {
  const file = join(directory, `${tag}.json`)
  const table = new Map<string, string>(Object.entries(JSON.parse(readFileSync(file, 'utf8'))))
  const said = (text: string) => table.get(text) ?? text
  return { tag, say: (sentence, words) => fillText(said(sentence), words, said) }
}

/** A text with its `{name}` places filled; a text without words stays as it is. */
export function fillText(text: string, words?: Words, said = (word: string) => word): string {
  if (words === undefined) return text
  return text.replace(/\{(\w+)\}/g, (_, name: string) => said(words[name] ?? ''))
}
