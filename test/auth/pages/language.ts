import { readFileSync } from 'node:fs'
import t from 'tap'
import { failureTable } from '../../../lib/auth/pages/failures.ts'
import { readLanguages } from '../../../lib/auth/pages/language.ts'
import { Fields } from '../../../lib/http/message/field.ts'

const directory = 'templates/auth/languages'
const languageOf = readLanguages(directory)

const tagOf = (...lines: string[]) =>
  languageOf(Fields.of(...lines.map(line => ['Accept-Language', line] as const))).tag

t.test('the language with the highest weight is taken, RFC 9110 section 12.5.4', t => {
  for (const [line, tag] of [
    ['de', 'de'],
    ['de-AT, en;q=0.8', 'de'],
    ['DE-de', 'de'],
    ['fr-CH, fr;q=0.9, en;q=0.8, de;q=0.7, *;q=0.5', 'fr'],
    ['en-US,en;q=0.9,de;q=0.8', 'en'],
    ['nl, da;q=0.4, de;q=0.5', 'de'],
    ['nl;q=1.0, da ; q=0.400', 'da'],
    ['nl', 'en'],
    ['*', 'en'],
    ['*;q=0.1, da;q=0.05', 'en'],
    ['de;q=0, fr;q=0.1', 'fr'],
    ['de;q=0', 'en'],
    ['den', 'en'],
    ['', 'en'],
    ['de;q=2, fr', 'fr'],
    ['"de", ;q=1, __proto__, constructor', 'en'],
    [`${'x,'.repeat(60)}de`, 'en'],
  ] as const) {
    t.equal(tagOf(line), tag, line)
  }
  t.equal(tagOf('nl', 'da'), 'da', 'two lines are one list')
  t.equal(tagOf(), 'en')
  t.end()
})

t.test('a sentence has the same places in every language', t => {
  const places = (text: string) => [...text.matchAll(/\{\w+\}/g)].map(([place]) => place).sort()
  const [german, danish, french] = ['de', 'da', 'fr'].map((tag): Record<string, string> => {
    return JSON.parse(readFileSync(`${directory}/${tag}.json`, 'utf8'))
  })
  for (const table of [german, danish, french]) {
    t.strictSame(Object.keys(table ?? {}), Object.keys(german ?? {}), 'the same sentences in each')
    for (const [english, text] of Object.entries(table ?? {})) {
      t.strictSame(places(text), places(english), english)
      if (!Object.is(text, english)) continue
      t.match(english, /^(?:Continue|minutes)$/, 'said in its own language')
    }
  }
  t.end()
})

t.test('words that are sentences are said in the same language, all others as they are', t => {
  const { say } = languageOf(Fields.of(['Accept-Language', 'de']))
  const words = { because: 'it is too large', said: 'constructor' }
  const sentence = '{said} The browser sent a session cookie, but not one that is valid here.'
  t.match(say(sentence, words), /^constructor Der Browser/)
  t.match(say(sentence, { said: words.because }), /^sie ist zu groß Der Browser/)
  t.match(say(sentence, {}), /^ Der Browser/)
  t.end()
})

t.test('every failure says what happened in a sentence', t => {
  for (const [code, { text }] of Object.entries(failureTable().codes)) t.match(text, /[.]$/, code)
  t.end()
})
