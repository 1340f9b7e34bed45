/**
 * Heads that differ in one line: what is remembered of them says the same as reading each of them, over a table, and over thousands of
 * damaged heads from a seed. HEAD_SEED repeats a run.
 */
import t from 'tap'
import { TargetReader } from '../../../lib/http/message/target.ts'
import {
  defaultHeadLimits,
  type PlainHead,
  PlainHeadReader,
} from '../../../lib/http/wire/request-head.ts'
import { VaryingLine } from '../../../lib/http/wire/varying-line.ts'
import { Noise } from '../../fixtures/chance/noise.ts'

const { HEAD_SEED: seed = '1' } = process.env
const limits = { head: 16 * 1024, heads: defaultHeadLimits }
const NAME = 'X-Original-URI'
const targets = new TargetReader()
t.setTimeout(600_000)

const readerWith = (varying?: VaryingLine) => new PlainHeadReader(targets, limits, varying)

/** What a head says; the order of lines counts among those of one name alone. */
function said(head: ReturnType<PlainHeadReader['read']>) {
  if (typeof head === 'string') return head
  const { method, target, keepAlive, end, length } = head
  const lines = new Map<string, string[]>()
  for (const [name, value] of head.fields) {
    const values = lines.get(name.toLowerCase()) ?? []
    lines.set(name.toLowerCase(), [...values, value])
  }
  const fields = [...lines].sort(([a], [b]) => (a < b ? -1 : 1))
  return { method, target, keepAlive, end, length, fields }
}

const head = (...lines: readonly string[]) =>
  Buffer.from(`GET /check HTTP/1.1\r\n${lines.map(line => `${line}\r\n`).join('')}\r\n`, 'latin1')
const beginOf = (read: ReturnType<PlainHeadReader['read']>) =>
  typeof read === 'string' ? undefined : read.fields.begin

t.test('heads that are alike but for the line begin with the same fields', async t => {
  const varying = new VaryingLine(NAME)
  // Each connection has a reader of its own.
  const read = (...lines: readonly string[]) => readerWith(varying).read(head(...lines), 0)
  const first = read('Host: a', `${NAME}: /1`, 'Cookie: b=c')
  const begin = beginOf(first)
  t.strictSame(begin?.flat, ['Host', 'a', 'Cookie', 'b=c'])
  t.strictSame((first as PlainHead).fields.own, [NAME, '/1'])
  for (const value of ['/2', '/2?x=1', '/', '"<>|{}\\', '/%00']) {
    const next = read('Host: a', `${NAME}: ${value}`, 'Cookie: b=c')
    t.equal(beginOf(next), begin, value)
    t.equal((next as PlainHead).fields.get(NAME), value)
  }
  t.equal(beginOf(read(`${NAME}: /3`, 'Host: a', 'Cookie: b=c')), begin, 'wherever it stands')
  t.equal(beginOf(read('Host: a', 'Cookie: b=c', `${NAME}: /3`)), begin)
  for (const lines of [
    ['Host: a', `${NAME}: /1`, 'Cookie: b=d'],
    ['Host: a', `${NAME}: /1`],
    ['Host: a', `${NAME}: /1`, 'Cookie: b=c', 'X: 1'],
    ['host: a', `${NAME}: /1`, 'Cookie: b=c'],
    ['Host: a', `${NAME}: /1`, 'Cookie: b=c', 'Connection: close'],
  ]) {
    t.not(beginOf(read(...lines)), begin, lines.join())
  }
})

t.test('what is doubled, spelled otherwise, empty or spaced is not taken for the line', async t => {
  const varying = new VaryingLine(NAME)
  const known = ['Host: a', `${NAME}: /1`, 'Cookie: b=c']
  readerWith(varying).read(head(...known), 0)
  for (const lines of [
    [...known, `${NAME}: /2`],
    [`${NAME}: /2`, ...known],
    [...known, 'x-original-uri: /2'],
    ['x-original-uri: /2', ...known],
    ['Host: a', 'x-original-uri: /1', 'Cookie: b=c'],
    ['Host: a', `${NAME}:/1`, 'Cookie: b=c'],
    ['Host: a', `${NAME}:  /1`, 'Cookie: b=c'],
    ['Host: a', `${NAME}: /1 `, 'Cookie: b=c'],
    ['Host: a', `${NAME}: /1 /2`, 'Cookie: b=c'],
    ['Host: a', `${NAME}: `, 'Cookie: b=c'],
    ['Host: a', `${NAME}: /ä`, 'Cookie: b=c'],
    ['Host: a', `${NAME}: /\t`, 'Cookie: b=c'],
    ['Host: a', `${NAME}: /\n`, 'Cookie: b=c'],
    ['Host: a', `${NAME}: /\rX: 1`, 'Cookie: b=c'],
    ['Host: a', ` ${NAME}: /1`, 'Cookie: b=c'],
    ['Host: a', `Y-${NAME}: /1`, 'Cookie: b=c'],
    ['Host: a', '', `${NAME}: /1`, 'Cookie: b=c'],
    ['', 'Host: a', `${NAME}: /1`, 'Cookie: b=c'],
    ['Host: a', 'Cookie: b=c', '', `${NAME}: /1`],
  ]) {
    const bytes = head(...lines)
    const expected = said(readerWith().read(bytes, 0))
    for (const _ of [1, 2]) {
      t.strictSame(said(readerWith(varying).read(bytes, 0)), expected, JSON.stringify(lines))
    }
  }
})

t.test('a head that comes in pieces, and several in one piece', async t => {
  const varying = new VaryingLine(NAME)
  const known = head('Host: a', `${NAME}: /1`, 'Content-Length: 3')
  readerWith(varying).read(known, 0)
  const one = readerWith(varying)
  for (let end = 0; end < known.length; end += 1) {
    t.equal(one.read(known.subarray(0, end), 0), 'incomplete')
  }
  t.match(one.read(known, 0), { end: known.length, length: 3 })
  const plain = head('Host: a')
  const inContent = Buffer.from(`\r\n${NAME}: /9\r\n\r\n`)
  for (const bytes of [
    Buffer.concat([plain, known, Buffer.from('abc'), known]),
    Buffer.concat([head('Host: a', 'Content-Length: 25'), inContent, known]),
    Buffer.concat([known, inContent]),
  ]) {
    for (let at = 0; at < bytes.length; at += 1) {
      if (bytes.indexOf('GET /check', at) !== at) continue
      t.strictSame(said(readerWith(varying).read(bytes, at)), said(readerWith().read(bytes, at)))
    }
  }
})

t.test('what is remembered is bounded', async t => {
  const varying = new VaryingLine(NAME)
  const long = ['Host: a', `${NAME}: /1`, `Cookie: ${'b'.repeat(5000)}`]
  t.equal(beginOf(readerWith(varying).read(head(...long), 0)), undefined)
  const first = () => beginOf(readerWith(varying).read(head('Host: a', `${NAME}: /1`), 0))
  const before = first()
  t.equal(first(), before)
  for (let i = 0; i < 500; i += 1) {
    for (const value of ['/1', '/2']) {
      readerWith(varying).read(head('Host: a', `${NAME}: ${value}`, `Cookie: ${i}`), 0)
    }
  }
  t.not(first(), before, 'what was not used for the longest time is forgotten')
})

t.test('ten thousand damaged heads say what they say without a memory', async t => {
  const noise = new Noise(seed)
  const varying = new VaryingLine(NAME)
  const lines = [
    'Host: a',
    'Cookie: b=c',
    `${NAME}: /1`,
    `${NAME}: /22?x`,
    'Accept: */*',
    'Content-Length: 5',
    'Connection: close',
    'x-original-uri: /3',
  ] as [string, ...string[]]
  const grit = [
    '\r\n',
    '\r',
    '\n',
    ' ',
    '\t',
    ':',
    '\0',
    '\x80',
    `\r\n${NAME}: /4\r\n`,
    '\r\n\r\n',
  ] as [string, ...string[]]
  let remembered = 0
  for (let i = 0; i < 10_000; i += 1) {
    let bytes = head('Host: a', ...Array.from({ length: noise.below(5) }, () => noise.pick(lines)))
    if (noise.below(3) === 0) {
      const at = noise.below(bytes.length)
      const cut = noise.below(3)
      const damage = Buffer.from(noise.pick(grit), 'latin1')
      bytes = Buffer.concat([bytes.subarray(0, at), damage, bytes.subarray(at + cut)])
    }
    const read = readerWith(varying).read(bytes, 0)
    const [ours, plain] = [said(read), said(readerWith().read(bytes, 0))]
    if (JSON.stringify(ours) !== JSON.stringify(plain)) {
      t.strictSame(ours, plain, JSON.stringify(bytes.toString('latin1')))
    }
    if (beginOf(read) !== undefined) remembered += 1
  }
  t.ok(remembered > 500, `${remembered} were of those that are remembered`)
})
