/**
 * The fast path beside Node's server: the same bytes in give the same requests, refusals, reports, and the same bytes out.
 * FAST_PATH_SEED repeats a run, FAST_PATH_REQUESTS changes its length.
 */

import { connect } from 'node:net'
import t from 'tap'
import { Fields } from '../../../lib/http/message/field.ts'
import type { Request, Response } from '../../../lib/http/message/message.ts'
import { Noise } from '../../fixtures/chance/noise.ts'
import { hostileRequest } from '../../fixtures/http/hostile-requests.ts'
import { answers, echo, get, streamed, text } from '../../fixtures/http/raw-answers.ts'
import { serveForTest } from '../../fixtures/http/server.ts'
import { sourceOf } from '../../fixtures/http/source-of.ts'

// A busy machine has a minute for what takes seconds.
t.setTimeout(600_000)

const { FAST_PATH_SEED: seed = '1', FAST_PATH_REQUESTS: count = '1500' } = process.env

t.test('Node\u2019s server and the fast path write the same bytes', async t => {
  const broken = new Error('disk gone')
  const responses: ReadonlyArray<readonly [string, Response]> = [
    ['bytes', { ...text('hello'), reason: 'Quite Fine' }],
    ['no bytes', text('')],
    ['nothing', { status: 404, fields: Fields.empty, content: { kind: 'none' } }],
    ['odd status', { status: 299, fields: Fields.empty, content: { kind: 'none' } }],
    ['204', { status: 204, fields: Fields.of(['X', '1']), content: { kind: 'none' } }],
    [
      '304',
      {
        status: 304,
        fields: Fields.of(['ETag', '"1"']),
        content: { kind: 'none' },
        announcedLength: 5,
      },
    ],
    [
      'a date of its own',
      { ...text('x'), fields: Fields.of(['date', 'Wed, 01 Jan 2025 00:00:00 GMT']) },
    ],
    ['obs-text', { ...text('x'), fields: Fields.of(['X', 'caf\u00e9']) }],
    ['length', streamed(6, 'abc', '', 'def')],
    ['length of none', streamed(0)],
    ['chunks', streamed(undefined, 'abc', '', 'defghijklmnopqrstuvwxyz')],
    ['no chunks', streamed(undefined)],
    ['too short', streamed(5, 'abc')],
    ['too long', streamed(2, 'ab', 'c')],
    [
      'trailers',
      {
        status: 200,
        fields: Fields.empty,
        content: {
          kind: 'stream',
          length: undefined,
          open: () =>
            sourceOf(async function* () {
              yield Buffer.from('abc')
            }),
          trailers: () => Fields.of(['X', 'y']),
        },
      },
    ],
    [
      'breaks off',
      {
        status: 200,
        fields: Fields.empty,
        content: {
          kind: 'stream',
          length: undefined,
          open: () =>
            // biome-ignore lint/correctness/useYield: it breaks off before the first block
            sourceOf(async function* () {
              throw broken
            }),
        },
      },
    ],
    ['two fields in one', { ...text('x'), fields: Fields.of(['X', 'a\r\nY: b']) }],
    ['a name that is none', { ...text('x'), fields: Fields.of(['X Y', 'a']) }],
    ['a phrase that is none', { ...text('x'), reason: 'a\r\nb' }],
  ]
  const handler = async ({ target }: Request) => {
    const index = target.form === 'origin' ? Number(target.path.slice(1)) : -1
    return responses[index]?.[1] ?? text('?')
  }
  const node = await serveForTest(t, handler, { fastPath: false })
  const fast = await serveForTest(t, handler)
  for (const [index, [name]] of responses.entries()) {
    for (const method of ['GET', 'HEAD']) {
      for (const connection of ['keep-alive', 'close']) {
        const request = `${method} /${index} HTTP/1.1\r\nHost: a\r\nConnection: ${connection}\r\n\r\n${get('/x', 'Connection: close\r\n')}`
        const expected = await answers(t, node.port, [request])
        t.equal(await answers(t, fast.port, [request]), expected, `${method} ${name} ${connection}`)
      }
    }
  }
  const told = ({ exchanges }: typeof node) =>
    exchanges.map(({ sent, complete, response }) => `${response.status} ${sent} ${complete}`).sort()
  t.strictSame(told(fast), told(node), 'and report the same')
  t.equal(fast.contentErrors.length, node.contentErrors.length)
})

t.test('damaged requests get the same answers with the fast path and without', async t => {
  const noise = new Noise(seed)
  const targets = {
    origin: '127.0.0.1:1234',
    paths: ['/a', '/b?c', '/d%2be'] as [string, ...string[]],
  }
  const limits = { head: 16 * 1024 }
  const node = await serveForTest(t, echo, { fastPath: false, limits })
  const fast = await serveForTest(t, echo, { limits })
  const told = async ({ port, exchanges, malformed }: typeof node, bytes: Buffer) => {
    exchanges.length = 0
    malformed.length = 0
    await sendAndWait(port, bytes)
    return {
      exchanges: exchanges.map(({ request, response }) => {
        const { method, target, fields, version } = request
        return { method, target, version, fields: fields.flat, status: response.status }
      }),
      // A refusal ends the connection: whether what follows is still looked at is a matter of chance.
      malformed: exchanges.some(({ response }) => response.status !== 200)
        ? []
        : malformed.map(({ status }) => status),
    }
  }
  let different = 0
  for (let i = 0; i < Number(count); i += 1) {
    const bytes = hostileRequest(noise, targets)
    // What may follow a request with `close`, and a CONNECT, has other ends on purpose.
    const ends = /close|connect /i.test(bytes.toString('latin1'))
    const [ours, theirs] = await Promise.all([told(fast, bytes), told(node, bytes)])
    if (ends || JSON.stringify(ours) === JSON.stringify(theirs)) continue
    different += 1
    t.strictSame(ours, theirs, bytes.toString('latin1').slice(0, 2000))
  }
  t.equal(different, 0)
})

/** Writes, says that this is all, and waits until the server is gone. */
function sendAndWait(port: number, bytes: Buffer): Promise<void> {
  return new Promise(resolve => {
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
    socket.on('error', () => undefined)
    socket.on('close', () => resolve())
    socket.on('end', () => socket.destroy())
    socket.setTimeout(5000, () => socket.destroy())
    socket.on('data', () => undefined)
    socket.end(bytes)
  })
}
