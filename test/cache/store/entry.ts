import t from 'tap'
import { decodeEntry, encodeEntry } from '../../../lib/cache/store/entry.ts'
import { entryOf } from '../../fixtures/store/opened.ts'

const entry = entryOf('http://archive.example.org/pool/a_1_all.deb', Buffer.from('content'), {
  fields: [
    ['Content-Type', 'text/plain'],
    ['X-Latin', 'caf\u00e9\tau lait'],
  ],
})

t.test('an entry comes back as it was written', t => {
  t.strictSame(decodeEntry(encodeEntry(entry)), { entry })
  t.end()
})

t.test('a file that is no entry is refused with the reason', t => {
  const valid: Record<string, unknown> = JSON.parse(encodeEntry(entry))
  const changed = (changes: object) => JSON.stringify({ ...valid, ...changes })
  const table: ReadonlyArray<readonly [what: string, text: string, because: string]> = [
    ['empty', '', 'it is not JSON'],
    ['torn', encodeEntry(entry).slice(0, 90), 'it is not JSON'],
    ['zeros after a power cut', '\0'.repeat(300), 'it is not JSON'],
    ['null', 'null', 'it is not a JSON object'],
    ['a list', '[]', 'it is not a JSON object'],
    ['newer', changed({ version: 2 }), 'it is of another version'],
    ['no version', changed({ version: undefined }), 'it is of another version'],
    ['no key', changed({ key: undefined }), 'key is no text'],
    ['empty key', changed({ key: '' }), 'key is no text'],
    ['fields as object', changed({ fields: {} }), 'fields are not pairs of name and value'],
    ['a triple', changed({ fields: [['a', 'b', 'c']] }), 'fields are not pairs of name and value'],
    ['a number', changed({ fields: [['a', 1]] }), 'fields are not pairs of name and value'],
    ['name', changed({ fields: [['a b', 'c']] }), 'fields are not pairs of name and value'],
    [
      'a split response',
      changed({ fields: [['a', 'b\r\nSet-Cookie: c']] }),
      'fields are not pairs of name and value',
    ],
    ['NUL', changed({ fields: [['a', 'b\0']] }), 'fields are not pairs of name and value'],
    [
      'not latin-1',
      changed({ fields: [['a', '\u20ac']] }),
      'fields are not pairs of name and value',
    ],
    ['upper case', changed({ digest: entry.digest.toUpperCase() }), 'digest is no SHA-256'],
    ['a path', changed({ digest: `../${entry.digest.slice(3)}` }), 'digest is no SHA-256'],
    ['negative size', changed({ size: -1 }), 'size is no count of bytes'],
    ['half a byte', changed({ size: 0.5 }), 'size is no count of bytes'],
    ['size as text', changed({ size: '7' }), 'size is no count of bytes'],
    ['date', changed({ lastModified: '2025-01-01' }), 'lastModified is no IMF-fixdate'],
    ['stored', changed({ stored: null }), 'stored is no moment'],
    ['validated', changed({ validated: -5 }), 'validated is no moment'],
    ['age', changed({ initialAge: 'old' }), 'initialAge is no number of seconds'],
  ]
  for (const [what, text, because] of table) t.strictSame(decodeEntry(text), { because }, what)
  t.end()
})
