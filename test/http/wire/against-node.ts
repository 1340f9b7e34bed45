/**
 * Thousands of damaged responses, read by us and by Node's strict parser: what both take is the same response, and where only
 * one takes it the difference is one of those named here. WIRE_SEED repeats a run.
 */
import { request } from 'node:http'
import { Duplex } from 'node:stream'
import t from 'tap'
import { seeded } from '../../fixtures/chance/seeded-random.ts'
import { damagedResponse } from '../../fixtures/http/damaged-response.ts'
import { type ReadResponse, readResponse } from '../../fixtures/http/read-response.ts'

const { WIRE_SEED: seed = '1' } = process.env
// A busy machine has minutes for what takes seconds.
t.setTimeout(600_000)

/** What Node's client makes of the bytes and the end of the connection behind them. */
function readByNode(bytes: Buffer): Promise<ReadResponse> {
  const socket = new Duplex({ read() {}, write: (_block, _encoding, done) => done() })
  return new Promise(resolve => {
    const interim: number[] = []
    let content = ''
    const told = (end: string, more: Partial<ReadResponse> = {}) => {
      resolve({ interim, content, trailers: [], end, surplus: '', ...more })
      socket.destroy()
    }
    const outgoing = request({ createConnection: () => socket, insecureHTTPParser: false })
    outgoing.on('information', ({ statusCode }) => interim.push(statusCode))
    outgoing.on('error', error => told(`error ${'code' in error ? error.code : error.message}`))
    outgoing.on('upgrade', () => told('101'))
    outgoing.on('response', incoming => {
      const { statusCode: status = 0, statusMessage: reason = '', httpVersion: version } = incoming
      const head = { status, reason, version, fields: incoming.rawHeaders }
      incoming.on('data', (block: Buffer) => {
        content += block.toString('latin1')
      })
      incoming.on('error', () => told('cut', head))
      incoming.on('close', () => {
        if (!incoming.complete) return told('cut', head)
        told('whole', { ...head, trailers: incoming.rawTrailers })
      })
    })
    outgoing.end()
    setImmediate(() => {
      socket.push(bytes)
      socket.push(null)
    })
  })
}

/** Why we take what Node refuses. */
const weTake: Readonly<Record<string, (ours: ReadResponse, text: string) => boolean>> = {
  'bytes behind the response are no part of it: its connection is not used again': ours =>
    ours.surplus !== '',
  'chunk extensions are skipped, whatever they say': (_, text) => /\r\n[0-9a-f]+;/i.test(text),
  'a tab behind a length is whitespace like any other': (_, text) =>
    /Length:[^\r]*\t\r/i.test(text),
  'space before the colon is removed (RFC 9112 section 5.1)': (_, text) =>
    /\r\n[^\s:]+[ \t]+:/.test(text),
  'who announces the close early answers all the same': ({ interim }, text) =>
    interim.length > 0 && /Connection: close/i.test(text),
}

/** Why we refuse what Node takes. */
const nodeTakes: Readonly<Record<string, RegExp>> = {
  'nothing stands before the status line': /^[\r\n]|\r\n\r\n[\r\n]+HTTP/,
  'a reason phrase has no control characters': /HTTP\/1\.. \d{3} [^\r\n]*[\0\x7f]/,
  'a line ends with CR LF, and not with two CR': /\r\r/,
  'nothing changes protocols unasked': /HTTP\/1\.. 101/,
  'there is no status below 100': /HTTP\/1\.. 0/,
  'no transfer coding but chunked': /Transfer-Encoding:(?!chunked\r| chunked\r)/i,
  'chunked is said once': /Transfer-Encoding:[\s\S]*\n *Transfer-Encoding:/i,
  'no transfer coding in HTTP/1.0': /HTTP\/1\.0[\s\S]*Transfer-Encoding:/i,
  'a chunk size has at most 13 digits': /\n[0-9a-f]{14}/i,
  'a length has at most 16 digits': /Content-Length:[ \t]*\d{16}/i,
}

t.test('ten thousand damaged responses', async t => {
  const chance = seeded(Number(seed))
  const counts = { both: 0, neither: 0, onlyWe: 0, onlyNode: 0 }
  for (let i = 0; i < 10_000; i += 1) {
    const bytes = damagedResponse(chance)
    const text = bytes.toString('latin1')
    const ours = readResponse([bytes])
    const node = await readByNode(bytes)
    const [weTook, nodeTook] = [ours.end === 'whole', node.end === 'whole']
    if (weTook && nodeTook) {
      counts.both += 1
      const same = { ...ours, surplus: '' }
      if (JSON.stringify(sorted(node)) !== JSON.stringify(sorted(same)))
        t.same(node, same, JSON.stringify(text))
    } else if (weTook) {
      counts.onlyWe += 1
      if (!Object.values(weTake).some(why => why(ours, text)))
        t.same(node, ours, JSON.stringify(text))
    } else if (nodeTook) {
      counts.onlyNode += 1
      if (!Object.values(nodeTakes).some(why => why.test(text)))
        t.same(node, ours, JSON.stringify(text))
    } else counts.neither += 1
  }
  t.comment(counts)
  t.ok(counts.both > 1000 && counts.onlyWe + counts.onlyNode < 500)
})

function sorted(read: ReadResponse) {
  return Object.entries(read).sort(([a], [b]) => (a < b ? -1 : 1))
}
