import t from 'tap'
import { failures } from '../../../lib/auth/pages/failures.ts'
import { danish } from '../../../lib/auth/pages/languages/danish.ts'
import { french } from '../../../lib/auth/pages/languages/french.ts'
import { german } from '../../../lib/auth/pages/languages/german.ts'
import { filled, languageOf } from '../../../lib/auth/pages/languages/language.ts'
import { Fields } from '../../../lib/http/message/field.ts'

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
  for (const table of [german, danish, french]) {
    for (const [english, text] of Object.entries(table)) {
      t.strictSame(places(text), places(english), english)
      if (!Object.is(text, english)) continue
      t.match(english, /^Continue$/, 'said in its own language')
    }
  }
  t.end()
})

t.test('words that are sentences are said in the same language, all others as they are', t => {
  const { say } = languageOf(Fields.of(['Accept-Language', 'de']))
  const words = { because: 'it is too large', said: 'constructor' }
  t.equal(filled('{because} {said}{absent}', words, say), 'sie ist zu groß constructor')
  t.end()
})

t.test('every failure says what happened in a sentence', t => {
  for (const [code, { text }] of Object.entries(failures)) t.match(text, /[.]$/, code)
  t.end()
})
