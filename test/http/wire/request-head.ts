/**
 * What the reader of plain requests takes, and that it reads it as Node's parser and the rules do: over a table, and over thousands of damaged
 * requests from a seed. HEAD_SEED repeats a run.
 */

import { createServer, type IncomingMessage } from 'node:http'
import { Duplex } from 'node:stream'
import t from 'tap'
import { TargetReader } from '../../../lib/http/message/target.ts'
import { FieldLines, valueBytes } from '../../../lib/http/wire/field-lines.ts'
import {
  checkRequest,
  defaultHeadLimits,
  type PlainHead,
  PlainHeadReader,
} from '../../../lib/http/wire/request-head.ts'
import { Noise } from '../../fixtures/chance/noise.ts'
import { hostileRequest } from '../../fixtures/http/hostile-requests.ts'

const { HEAD_SEED: seed = '1' } = process.env
// A busy machine has a minute for what takes seconds.
t.setTimeout(600_000)

/** Node's server, and what it saw on each connection. */
const node = createServer({ requireHostHeader: false, insecureHTTPParser: false })
const seenOn = new WeakMap<Duplex, unknown[]>()
node.on('request', (message: IncomingMessage, out) => {
  const { method, url, rawHeaders: fields, socket } = message
  seenOn.get(socket)?.push({ method, url, fields, keepAlive: out.shouldKeepAlive })
})
node.on('clientError', (error, socket) => seenOn.get(socket)?.push({ error: String(error) }))

const limits = { head: 16 * 1024, heads: defaultHeadLimits }

function reader() {
  return new PlainHeadReader(new TargetReader(), limits)
}

function read(text: string) {
  return reader().read(Buffer.from(text, 'latin1'), 0)
}

const host = 'Host: archive.example.org\r\n'

t.test('requests as apt sends them are taken', t => {
  const taken = [
    `GET / HTTP/1.1\r\n${host}\r\n`,
    `HEAD /a?b=c HTTP/1.1\r\n${host}\r\n`,
    `GET http://archive.example.org/pool/a%2b%2b_1~2.deb HTTP/1.1\r\n${host}User-Agent: Debian APT-HTTP/1.3 (2.6.2)\r\n\r\n`,
    `GET / HTTP/1.1\r\n${host}Connection: Keep-Alive\r\n\r\n`,
    `GET / HTTP/1.1\r\nhOST:   archive.example.org  \r\nEmpty:\r\n\r\n`,
    `GET / HTTP/1.1\r\n${host}If-Modified-Since: Wed, 01 Jan 2025 00:00:00 GMT\r\nRange: bytes=5-\r\n\r\n`,
  ]
  for (const text of taken) {
    const head = read(text)
    t.type(head, 'object', text)
    t.match(head, { end: text.length, keepAlive: true })
  }
  t.match(read(`GET / HTTP/1.1\r\n${host}Connection: close\r\n\r\n`), { keepAlive: false })
  const spaced = read('GET / HTTP/1.1\r\nHost:   a  \r\nX: b c\r\n\r\n') as PlainHead
  t.strictSame(spaced.fields.flat, ['Host', 'a', 'X', 'b c'])
  t.end()
})

t.test('requests with a length are taken, and end where their content begins', t => {
  const taken = [
    [`POST / HTTP/1.1\r\n${host}Content-Length: 5\r\n\r\n`, 'POST', 5],
    [`PUT /a HTTP/1.1\r\n${host}content-length:0005\r\n\r\n`, 'PUT', 5],
    [
      `PATCH / HTTP/1.1\r\n${host}Content-Length: 999999999999999\r\n\r\n`,
      'PATCH',
      999_999_999_999_999,
    ],
    [`DELETE / HTTP/1.1\r\n${host}\r\n`, 'DELETE', 0],
    [`POST / HTTP/1.1\r\n${host}\r\n`, 'POST', 0],
    [`GET / HTTP/1.1\r\n${host}Content-Length: 0\r\n\r\n`, 'GET', 0],
    [`GET / HTTP/1.1\r\n${host}Content-Length: 3\r\n\r\n`, 'GET', 3],
  ] as const
  for (const [text, method, length] of taken) {
    t.match(read(`${text}hello`), { method, length, end: text.length }, text)
    const one = reader()
    for (let end = 0; end < text.length; end += 1) {
      t.equal(one.read(Buffer.from(text.slice(0, end)), 0), 'incomplete')
    }
    t.match(one.read(Buffer.from(text), 0), { method, length, end: text.length })
  }
  t.end()
})

t.test('a length is that of its own field lines, and not one that is remembered', t => {
  const one = reader()
  const lines = (length: number) => `POST / HTTP/1.1\r\n${host}Content-Length: ${length}\r\n\r\n`
  for (const length of [5, 5, 7, 5, 0]) {
    t.match(one.read(Buffer.from(lines(length)), 0), { length })
  }
  t.match(one.read(Buffer.from(`GET / HTTP/1.1\r\n${host}\r\n`), 0), { length: 0 })
  t.end()
})

t.test('everything else is left alone', t => {
  const left = [
    '\r\nGET / HTTP/1.1\r\n',
    'OPTIONS / HTTP/1.1\r\n',
    'PO ST / HTTP/1.1\r\n',
    'POSTS / HTTP/1.1\r\n',
    'post / HTTP/1.1\r\n',
    'get / HTTP/1.1\r\n',
    'GET  / HTTP/1.1\r\n',
    'GET / HTTP/1.0\r\n',
    'GET / HTTP/1.1 \r\n',
    'GET / HTTP/1.1\n',
    'GET * HTTP/1.1\r\n',
    'GET a:443 HTTP/1.1\r\n',
    'GET ftp://a/ HTTP/1.1\r\n',
    'GET http://a@b@c/ HTTP/1.1\r\n',
    'GET /a#b HTTP/1.1\r\n',
    'GET /a|b HTTP/1.1\r\n',
    'GET /\xe4 HTTP/1.1\r\n',
    'GET / HTTP/1.1\r\n: x\r\n',
    'GET / HTTP/1.1\r\nHost : a\r\n',
    'GET / HTTP/1.1\r\nHost: a\r\n folded\r\n',
    'GET / HTTP/1.1\r\nHost: a\tb\r\n',
    'GET / HTTP/1.1\r\nHost: a\xa0\r\n',
    'GET / HTTP/1.1\r\nHost: a\rX: b\r\n',
    'GET / HTTP/1.1\r\nHost: a\nX: b\r\n',
    'GET / HTTP/1.1\r\nX: 1\r\n\r\n',
    'GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n',
    'GET / HTTP/1.1\r\nHost: a/b\r\n\r\n',
    ...[
      'Content-Length:',
      'Content-Length: +5',
      'Content-Length: -5',
      'Content-Length: 5, 5',
      'Content-Length: 0x5',
      'Content-Length: 5 5',
      'Content-Length: 9007199254740993',
      'Content-Length: 99999999999999999999',
      'Content-Length: 5\r\ncontent-length: 5',
      'Content-Length: 5\r\nTransfer-Encoding: chunked',
      'transfer-encoding: chunked',
      'Expect: 100-continue',
      'Upgrade: h2c',
      'HTTP2-Settings: x',
      'Trailer: x',
      'TE: trailers',
      'Connection: upgrade',
      'Connection: close, x',
      'Connection:',
      'Connection: close\r\nConnection: close',
      'Connection: keep-alive\r\nProxy-Connection: close',
    ].map(line => `GET / HTTP/1.1\r\n${host}${line}\r\n\r\n`),
    `GET / HTTP/1.1\r\n${host}${'X: y\r\n'.repeat(defaultHeadLimits.fields)}\r\n`,
    `GET / HTTP/1.1\r\n${host}X: ${'x'.repeat(limits.head)}`,
    `GET /${'x'.repeat(limits.head)}`,
  ]
  for (const text of left) t.equal(read(text), 'other', JSON.stringify(text.slice(0, 80)))
  t.end()
})

t.test('a beginning is not the whole, wherever it ends', t => {
  const text = `GET http://archive.example.org/a HTTP/1.1\r\n${host}Accept: */*\r\n\r\n`
  const one = reader()
  for (let end = 0; end < text.length; end += 1) {
    t.equal(one.read(Buffer.from(text.slice(0, end)), 0), 'incomplete')
  }
  t.match(one.read(Buffer.from(`${text}GET`), 0), { end: text.length })
  // Once more, with the field lines in memory.
  for (let end = 0; end < text.length; end += 1) {
    t.equal(one.read(Buffer.from(text.slice(0, end)), 0), 'incomplete')
  }
  t.end()
})

t.test('field lines that come byte by byte are not read again from their first byte', t => {
  const bytes = Buffer.from(`${host}X: ${'x'.repeat(400_000)}\r\n\r\n`)
  const lines = new FieldLines(valueBytes, 2, 'request')
  // Were every byte looked at again for each that comes, this would take minutes.
  let early: number | undefined
  for (let end = 0; end < bytes.length; end += 1) {
    if (lines.read(bytes.subarray(0, end), 0) !== 'incomplete') early ??= end
  }
  t.equal(early, undefined)
  t.same(lines.read(bytes, 0), { end: bytes.length })
  t.end()
})

t.test('a long head is left to Node before it has ended, whatever the limit', t => {
  const generous = { ...limits, head: 4 * 1024 * 1024 }
  const begin = `GET / HTTP/1.1\r\n${host}Cookie: `
  const of = (length: number) => Buffer.from(begin.padEnd(length, 'a'), 'latin1')
  t.equal(new PlainHeadReader(new TargetReader(), generous).read(of(65_536), 0), 'incomplete')
  t.equal(new PlainHeadReader(new TargetReader(), generous).read(of(65_537), 0), 'other')
  t.end()
})

t.test('field lines in memory answer for the same bytes only', t => {
  const one = reader()
  const ask = (lines: string) => {
    const head = one.read(Buffer.from(`GET / HTTP/1.1\r\n${lines}\r\n`), 0)
    return typeof head === 'string' ? head : head.fields.flat
  }
  const first = ask('Host: a\r\nX: 1\r\n')
  t.strictSame(first, ['Host', 'a', 'X', '1'])
  t.equal(ask('Host: a\r\nX: 1\r\n'), first)
  t.strictSame(ask('Host: a\r\nX: 2\r\n'), ['Host', 'a', 'X', '2'])
  t.strictSame(ask('Host: a\r\n'), ['Host', 'a'])
  t.equal(ask('Host: a\r\nX: 1\r\nTE: x\r\n'), 'other')
  t.end()
})

t.test('ten thousand damaged requests are read as Node reads them', async t => {
  const noise = new Noise(seed)
  const paths = ['/debian/dists/test/InRelease', '/debian/pool/a/b++_1%2b2.deb', '/x'] as const
  const targets = { origin: '127.0.0.1:1234', paths: [...paths] as [string, ...string[]] }
  let taken = 0
  for (let i = 0; i < 10_000; i += 1) {
    const bytes = hostileRequest(noise, targets)
    const heads = takenFrom(bytes)
    const last = heads.at(-1)
    if (last === undefined) continue
    taken += heads.length
    // Node may see one more behind them, never one less and never another.
    const seen = await readByNode(bytes.subarray(0, last.end))
    const ours = heads.map(({ method, fields, keepAlive, raw }) => ({
      method,
      url: raw,
      fields: fields.flat,
      keepAlive,
    }))
    const same = JSON.stringify(seen) === JSON.stringify(ours)
    if (!same) t.strictSame(seen, ours, bytes.toString('latin1'))
    for (const { method, fields, raw } of heads) {
      const head = { method, version: '1.1', rawTarget: raw, fields }
      if (checkRequest(head) !== undefined) t.fail('breaks a rule', { head })
    }
  }
  t.ok(taken > 1000, `${taken} requests were taken`)
})

function takenFrom(bytes: Buffer): Array<PlainHead & { readonly raw: string }> {
  const one = reader()
  const heads: Array<PlainHead & { readonly raw: string }> = []
  for (let at = 0; at < bytes.length; ) {
    const head = one.read(bytes, at)
    if (typeof head === 'string') break
    const raw = bytes.toString('latin1', at + head.method.length + 1, bytes.indexOf(' HTTP/', at))
    heads.push({ ...head, raw })
    if (!head.keepAlive) break
    at = head.end
  }
  return heads
}

/** What Node's parser makes of bytes that end with the head of a request. */
async function readByNode(bytes: Buffer) {
  const seen: unknown[] = []
  const socket = new Duplex({ read() {}, write: (_block, _encoding, done) => done() })
  seenOn.set(socket, seen)
  node.emit('connection', socket)
  socket.push(bytes)
  await new Promise(resolve => setImmediate(resolve))
  socket.destroy()
  return seen
}
