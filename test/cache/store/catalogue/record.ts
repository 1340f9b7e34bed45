import { crc32 } from 'node:zlib'
import t from 'tap'
import {
  decodeRecord,
  encodeRecord,
  keyInLine,
  type LogRecord,
} from '../../../../lib/cache/store/catalogue/entry-log.ts'
import { entryOf, sha256 } from '../../../fixtures/store/opened.ts'

const entry = entryOf('http://archive.example.org/pool/a_1_all.deb', Buffer.from('content'), {
  fields: [
    ['Content-Type', 'text/plain'],
    ['X-Latin', 'caf\u00e9\tau lait'],
  ],
})
const digest = sha256(Buffer.from('x'))

const records: readonly LogRecord[] = [
  { is: 'header', generation: '0123456789abcdef' },
  { is: 'entry', entry, used: 1_735_689_600 },
  { is: 'uses', uses: [['0123456789abcdef', 5]] },
  { is: 'gone', gone: ['0123456789abcdef', 'fedcba9876543210'] },
  { is: 'durable', durable: 2 ** 40, unproven: [digest], clean: false },
  { is: 'durable', durable: 0, unproven: [], clean: true },
]

const line = (value: unknown): Buffer => {
  const json = JSON.stringify(value)
  return Buffer.from(`${crc32(json).toString(16).padStart(8, '0')} ${json}\n`)
}

t.test('records come back as they were written, a line each', async t => {
  for (const record of records) {
    const written = encodeRecord(record)
    t.strictSame(decodeRecord(written), record)
    t.equal(written.indexOf('\n'), written.length - 1)
  }
})

t.test('a line in which any byte has changed is none', async t => {
  for (const record of records) {
    const written = encodeRecord(record)
    for (let at = 0; at < written.length; at += 1) {
      const torn = Buffer.from(written)
      torn.writeUInt8(torn.readUInt8(at) ^ 4, at)
      if (decodeRecord(torn) !== undefined) t.fail(`byte ${at}`)
      if (decodeRecord(written.subarray(0, at)) !== undefined) t.fail(`cut at ${at}`)
    }
  }
  t.equal(decodeRecord(Buffer.alloc(300)), undefined, 'zeros after a power cut')
})

t.test('what has a right sum and is no record is none', async t => {
  const table: readonly unknown[] = [
    null,
    [],
    'text',
    {},
    { log: 3, generation: '0123456789abcdef' },
    { log: 2, generation: '../' },
    { entry: { ...entry, digest: '../../etc/passwd' }, used: 1 },
    { entry, used: -1 },
    { entry },
    { uses: [['0123456789abcdef', 'x']] },
    { uses: [['0123456789ABCDEF', 1]] },
    { gone: ['short'] },
    { gone: [1] },
    { durable: 1.5, unproven: [] },
    { durable: 1 },
    { durable: 1, unproven: ['x'] },
  ]
  for (const value of table) t.equal(decodeRecord(line(value)), undefined, JSON.stringify(value))
  t.match(decodeRecord(line({ entry: { ...entry, more: 1 }, used: 1, odd: 2 })), { entry })
})

t.test('the key of an entry is read without the rest, whatever is in it', async t => {
  const keys = [entry.key, 'http://a/%22', 'http://a/"quoted\\"', `http://a/${'long'.repeat(900)}`]
  for (const key of keys) {
    const written = encodeRecord({ is: 'entry', entry: { ...entry, key }, used: 1 })
    t.equal(keyInLine(written), key)
    written.writeUInt8(written.readUInt8(written.length - 9) ^ 4, written.length - 9)
    t.equal(keyInLine(written), undefined, 'a damaged line has none')
  }
  for (const record of records)
    if (record.is !== 'entry') t.equal(keyInLine(encodeRecord(record)), undefined)
})
