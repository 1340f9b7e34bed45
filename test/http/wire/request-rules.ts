import t from 'tap'
import { Fields } from '../../../lib/http/message/field.ts'
import { checkRequest, defaultHeadLimits } from '../../../lib/http/wire/request-head.ts'
import { hostilePieces, seeded } from '../../fixtures/chance/seeded-random.ts'

type Row = readonly [
  version: string,
  fields: readonly string[],
  status: number | undefined,
  why?: RegExp,
]

function check(name: string, rows: readonly Row[]): void {
  t.test(name, t => {
    for (const [version, lines, status, why] of rows) {
      const pairs = lines.flatMap(line => {
        const colon = line.indexOf(':')
        return [line.slice(0, colon), line.slice(colon + 1).replace(/^ /, '')]
      })
      const head = { method: 'GET', version, rawTarget: '/', fields: Fields.fromFlat(pairs) }
      const refusal = checkRequest(head)
      t.equal(refusal?.status, status, JSON.stringify([version, lines]))
      if (why !== undefined) t.match(refusal?.sentence, why)
    }
    t.end()
  })
}

check('only HTTP/1.1 and HTTP/1.0 are spoken', [
  ['1.1', ['Host: a'], undefined],
  ['1.0', [], undefined],
  ['2.0', ['Host: a'], 505, /HTTP\/1\.1/],
  ['0.9', [], 505],
  ['1.2', ['Host: a'], 505],
  ['', [], 505],
])

check('lists that concern one hop are short', [
  ['1.1', ['Host: a', `Connection: ${'a,'.repeat(4000)}`], undefined],
  ['1.1', ['Host: a', `Connection: ${'a,'.repeat(4097)}`], 431, /too long/],
  ['1.1', ['Host: a', ...Array(9).fill(`connection: ${'a'.repeat(1000)}`)], 431],
  ['1.1', ['Host: a', `Upgrade: ${'a,'.repeat(3000)}`, `TE: ${'a,'.repeat(3000)}`], 431],
  ['1.1', ['Host: a', `Transfer-Encoding: ${'gzip,'.repeat(100_000)}chunked`], 400, /uncertain/],
])

check('exactly one valid Host in HTTP/1.1, at most one in HTTP/1.0 (RFC 9112 section 3.2)', [
  ['1.1', [], 400, /needs a Host/],
  ['1.1', ['Host: a', 'Host: a'], 400, /more than one Host/],
  ['1.1', ['Host: a', 'X: y', 'hOST: b'], 400, /more than one Host/],
  ['1.1', ['Host:', 'Host: a'], 400, /more than one Host/],
  ['1.0', ['Host: a', 'Host: a'], 400, /more than one Host/],
  ['1.0', ['Host: a'], undefined],
  ['1.1', ['HOST: Deb.Example.org:8080'], undefined],
  ['1.1', ['Host: [::1]:8080'], undefined],
  ['1.1', ['Host: 192.0.2.7'], undefined],
  ['1.1', ['Host:'], 400, /Host field is empty/],
  ['1.0', ['Host:'], 400, /Host field is empty/],
  ['1.1', ['Host: a b'], 400, /Host field/],
  ['1.1', ['Host: a, b'], 400],
  ['1.1', ['Host: a@b'], 400],
  ['1.1', ['Host: a/b'], 400],
  ['1.1', ['Host: http://a'], 400],
  ['1.1', ['Host: a:0'], 400],
  ['1.1', ['Host: a:x'], 400],
  ['1.1', ['Host: ::1'], 400],
  ['1.1', ['Host: a\x0b'], 400],
  ['1.0', ['Host: a b'], 400],
])

check('the end of a request is certain or the request is refused (RFC 9112 section 6)', [
  ['1.1', ['Host: a', 'Transfer-Encoding: chunked'], undefined],
  ['1.1', ['Host: a', 'transfer-encoding: Chunked'], undefined],
  ['1.1', ['Host: a', 'Transfer-Encoding: gzip, chunked'], 501, /chunked/],
  ['1.1', ['Host: a', 'Transfer-Encoding: gzip'], 400, /uncertain/],
  ['1.1', ['Host: a', 'Transfer-Encoding: chunked, gzip'], 400],
  ['1.1', ['Host: a', 'Transfer-Encoding: chunked, chunked'], 400],
  ['1.1', ['Host: a', 'Transfer-Encoding: chunked', 'Transfer-Encoding: chunked'], 400],
  ['1.1', ['Host: a', 'Transfer-Encoding: gzip', 'Transfer-Encoding: chunked'], 400],
  ['1.1', ['Host: a', 'Transfer-Encoding: identity'], 400],
  ['1.1', ['Host: a', 'Transfer-Encoding:'], 400],
  ['1.1', ['Host: a', 'Transfer-Encoding: chunked,'], 400],
  ['1.1', ['Host: a', 'Transfer-Encoding: ,chunked'], 400],
  ['1.1', ['Host: a', 'Transfer-Encoding: \x0bchunked'], 400],
  ['1.1', ['Host: a', 'Transfer-Encoding: \xa0chunked'], 400],
  ['1.1', ['Host: a', 'Transfer-Encoding: chun\u212aed'], 400],
  ['1.1', ['Host: a', 'Transfer-Encoding: chunked;x=y'], 400],
  ['1.1', ['Host: a', 'Transfer-Encoding: "chunked"'], 400],
  ['1.0', ['Transfer-Encoding: chunked'], 400],
  ['1.1', ['Host: a', 'Transfer-Encoding: chunked', 'Content-Length: 1'], 400],
  ['1.1', ['Host: a', 'Content-Length: 1', 'Transfer-Encoding: chunked'], 400],
  ['1.1', ['Host: a', 'Content-Length: 1'], undefined],
  ['1.1', ['Host: a', 'Content-Length: 1', 'Content-Length: 1'], 400],
  ['1.1', ['Host: a', 'Content-Length: 1, 1'], 400],
  ['1.1', ['Host: a', 'Content-Length: +1'], 400],
  ['1.1', ['Host: a', 'Content-Length: -1'], 400],
  ['1.1', ['Host: a', 'Content-Length: 0x1'], 400],
  ['1.1', ['Host: a', 'Content-Length:'], 400],
])

check('CR, LF and NUL are refused in values, other bytes are not (RFC 9110 section 5.5)', [
  ['1.1', ['Host: a', 'X: a\rb'], 400, /CR, LF or NUL/],
  ['1.1', ['Host: a', 'X: a\nb'], 400],
  ['1.1', ['Host: a', 'X: a\0'], 400],
  ['1.1', ['Host: a', 'X: a\r\n b'], 400],
  ['1.1', ['Host: a', 'X: \xe4\x80\xff\t\x7f'], undefined],
])

t.test('a CONNECT may have the Host that older releases of apt give it', t => {
  const status = (method: string, host: string) => {
    const fields = Fields.fromFlat(['Host', host])
    return checkRequest({ method, version: '1.1', rawTarget: 'a:443', fields })?.status
  }
  for (const host of ['2001:db8::5:3142', '[proxy.example.org]:3142']) {
    t.equal(status('CONNECT', host), undefined, host)
    t.equal(status('GET', host), 400, host)
  }
  for (const host of ['a b', 'a@b', 'a/b', 'a, b']) t.equal(status('CONNECT', host), 400, host)
  const two = Fields.fromFlat(['Host', 'a', 'Host', 'a'])
  const head = { method: 'CONNECT', version: '1.1', rawTarget: 'a:443', fields: two }
  t.equal(checkRequest(head)?.status, 400)
  t.end()
})

t.test('limits for lines, target and content', t => {
  const fields = Fields.fromFlat(['Host', 'a', 'Content-Length', '100', 'X', 'y'])
  const head = { method: 'PUT', version: '1.1', rawTarget: '/abc', fields }
  t.equal(checkRequest(head), undefined)
  t.equal(checkRequest(head, { fields: 3, target: 4, content: 100 }), undefined)
  t.equal(checkRequest(head, { ...defaultHeadLimits, fields: 2 })?.status, 431)
  t.equal(checkRequest(head, { ...defaultHeadLimits, target: 3 })?.status, 414)
  t.equal(checkRequest(head, { ...defaultHeadLimits, content: 99 })?.status, 413)
  const many = Fields.fromFlat(['Host', 'a', ...Array.from({ length: 400 }, () => 'x')])
  t.equal(checkRequest({ ...head, fields: many })?.status, 431)
  t.end()
})

t.test('53: hostile heads never throw, and none passes with two ways to end', t => {
  const chance = seeded(12)
  const names = ['Host', 'host', 'Content-Length', 'Transfer-Encoding', 'X', 'TRANSFER-ENCODING']
  const values = ['a', '1', 'chunked', 'gzip, chunked', '', '[::1]:80', ...hostilePieces]
  let passed = 0
  for (let i = 0; i < 6000; i += 1) {
    const flat: string[] = []
    for (let lines = chance.below(5); lines > 0; lines -= 1) {
      flat.push(chance.pick(names), chance.mutate(chance.pick(values), values))
    }
    const fields = Fields.fromFlat(flat)
    const version = chance.pick(['1.0', '1.1'])
    if (checkRequest({ method: 'GET', version, rawTarget: '/', fields }) !== undefined) continue
    passed += 1
    const framings = [...fields.all('content-length'), ...fields.all('transfer-encoding')]
    if (framings.length > 1 || fields.all('host').length > 1) t.fail(JSON.stringify(flat))
    if (fields.get('transfer-encoding') && version === '1.0') t.fail(JSON.stringify(flat))
  }
  t.ok(passed > 300, `${passed} heads passed`)
  t.end()
})
