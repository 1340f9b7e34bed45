import t from 'tap'
import { checkEntry } from '../../../lib/cache/store/entry.ts'
import { entryOf } from '../../fixtures/store/opened.ts'

const entry = entryOf('http://archive.example.org/pool/a_1_all.deb', Buffer.from('content'), {
  fields: [
    ['Content-Type', 'text/plain'],
    ['X-Latin', 'caf\u00e9\tau lait'],
  ],
})

t.test('an entry that was read is an entry', t => {
  t.strictSame(checkEntry(JSON.parse(JSON.stringify(entry))), { entry })
  const more = { ...entry, more: 1 }
  t.strictSame(checkEntry(more), { entry }, 'without what is unknown')
  const verified = { by: 'index', suite: 'http://archive.example.org/dists/a', signer: 'ab' }
  t.strictSame(checkEntry({ ...entry, verified }).entry, { ...entry, verified })
  t.strictSame(checkEntry({ ...entry, verified: { by: 'oath' } }), { entry })
  t.end()
})

t.test('what is no entry is refused with the reason', t => {
  const changed = (changes: object) => ({ ...entry, ...changes })
  const table: ReadonlyArray<readonly [what: string, value: object, because: string]> = [
    ['no key', changed({ key: undefined }), 'key is not text'],
    ['empty key', changed({ key: '' }), 'key is not text'],
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
    ['negative size', changed({ size: -1 }), 'size is not a number of bytes'],
    ['half a byte', changed({ size: 0.5 }), 'size is not a number of bytes'],
    ['size as text', changed({ size: '7' }), 'size is not a number of bytes'],
    ['date', changed({ lastModified: '2025-01-01' }), 'lastModified is no IMF-fixdate'],
    ['stored', changed({ stored: null }), 'stored is not a time'],
    ['validated', changed({ validated: -5 }), 'validated is not a time'],
    ['age', changed({ initialAge: 'old' }), 'initialAge is not a number of seconds'],
  ]
  for (const [what, value, because] of table) {
    t.strictSame(checkEntry({ ...value }), { because }, what)
  }
  t.end()
})
