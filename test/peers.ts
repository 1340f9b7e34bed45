/** The scripted origin and the raw client, each proven with the other. */
import t from 'tap'
import { RawClient } from './fixtures/http/raw-client.ts'
import { file, inTurn, reply, ScriptedOrigin } from './fixtures/http/scripted-origin.ts'
import { Gate } from './fixtures/time/gate.ts'

t.test('a reply arrives as scripted, however it is framed', async t => {
  const origin = await ScriptedOrigin.listen(t)
  origin.at('/length', reply({ content: 'hello', fields: { 'X-A': '1' }, interim: [103] }))
  origin.at('/chunked', reply({ content: 'hello', framing: 'chunked' }))
  origin.at('/close', reply({ content: 'hello', framing: 'close', reason: 'Fine' }))
  const client = await RawClient.connect(t, origin.port)
  const length = await client.get('/length')
  t.match(length, { status: 200, reason: 'OK', text: 'hello', framing: 'length', interim: [103] })
  t.equal(length.fields.get('x-a'), '1')
  t.match(await client.get('/chunked'), { text: 'hello', framing: 'chunked' })
  t.match(await client.headOf('/length'), { text: '', framing: 'none' })
  t.match(await client.get('/nowhere'), { status: 404 })
  t.match(await client.get('/close'), { text: 'hello', framing: 'close', reason: 'Fine' })
  t.equal(await client.ended, 'fin')
  t.equal(origin.connections, 1)
  t.strictSame(
    origin.requests.map(request => request.nth),
    [1, 2, 3, 4, 5],
  )
})

t.test('pipelined requests are answered in order and nothing comes after them', async t => {
  const origin = await ScriptedOrigin.listen(t)
  origin.at('/a', inTurn(reply({ content: 'one' }), reply({ content: 'two' })))
  const client = await RawClient.connect(t, origin.port)
  await client.write('GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /a HTTP/1.1\r\nHost: x\r\n\r\n')
  t.equal((await client.response()).text, 'one')
  t.equal((await client.response()).text, 'two')
  t.equal((await client.finish()).length, 0)
})

t.test('bytes after a response are found', async t => {
  const origin = await ScriptedOrigin.listen(t)
  origin.at('/a', answer => answer.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokrest'))
  const client = await RawClient.connect(t, origin.port)
  t.equal((await client.get('/a')).text, 'ok')
  t.equal((await client.finish()).toString(), 'rest')
})

t.test('a gate holds the content at its offset', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const gate = new Gate()
  origin.at('/a', reply({ content: 'hello', pauses: [{ at: 2, gate }] }))
  const client = await RawClient.connect(t, origin.port)
  await client.request('GET', '/a')
  t.equal((await client.head()).fields.get('Content-Length'), '5')
  t.equal((await client.bytes(2)).toString(), 'he')
  await gate.reached
  gate.open()
  t.equal((await client.bytes(3)).toString(), 'llo')
})

t.test('cuts, lies and sudden deaths are what they say', async t => {
  const origin = await ScriptedOrigin.listen(t, { requestsPerConnection: 1 })
  origin.at('/fin', reply({ content: 'hello', cut: { at: 3, by: 'fin' } }))
  origin.at('/reset', reply({ content: 'hello', cut: { at: 3, by: 'reset' } }))
  origin.at('/chunked', reply({ content: 'hello', framing: 'chunked', cut: { at: 3, by: 'fin' } }))
  origin.at('/lie', reply({ content: 'hello', claims: 9, cut: { at: 5, by: 'fin' } }))
  for (const [path, said] of [
    ['/fin', /connection fin, 3 unread bytes: "hel"/],
    ['/reset', /connection reset/],
    ['/chunked', /connection fin/],
    ['/lie', /did not send 9 bytes: connection fin, 5 unread/],
  ] as const) {
    const client = await RawClient.connect(t, origin.port)
    await t.rejects(client.get(path), said, path)
  }
  const client = await RawClient.connect(t, origin.port)
  t.equal((await client.get('/x')).status, 404)
  await t.rejects(client.get('/x'), /closed the connection instead of answering/)
})

t.test('a file knows validators and ranges, or gets them wrong as told', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const lastModified = 'Sun, 06 Nov 1994 08:49:37 GMT'
  const made = { content: 'hello', etag: '"1"', lastModified }
  origin.at('/right', file(made))
  origin.at('/start', file({ ...made, ranges: 'wrong-start' }))
  origin.at('/total', file({ ...made, ranges: 'wrong-total' }))
  origin.at('/ignored', file({ ...made, ranges: 'ignored' }))
  origin.at('/if-range', file({ ...made, ranges: 'ignores-if-range' }))
  const client = await RawClient.connect(t, origin.port)
  const cases: ReadonlyArray<[string, Record<string, string>, number, string, string?]> = [
    ['/right', {}, 200, 'hello'],
    ['/right', { 'If-None-Match': '"1"' }, 304, ''],
    ['/right', { 'If-None-Match': '"2"', 'If-Modified-Since': lastModified }, 200, 'hello'],
    ['/right', { 'If-Modified-Since': lastModified }, 304, ''],
    ['/right', { Range: 'bytes=2-' }, 206, 'llo', 'bytes 2-4/5'],
    ['/right', { Range: 'bytes=-2' }, 206, 'lo', 'bytes 3-4/5'],
    ['/right', { Range: 'bytes=0-1', 'If-Range': '"1"' }, 206, 'he', 'bytes 0-1/5'],
    ['/right', { Range: 'bytes=0-1', 'If-Range': '"2"' }, 200, 'hello'],
    ['/right', { Range: 'bytes=5-' }, 416, '', 'bytes */5'],
    ['/start', { Range: 'bytes=2-' }, 206, 'lo', 'bytes 3-4/5'],
    ['/total', { Range: 'bytes=2-' }, 206, 'llo', 'bytes 2-4/6'],
    ['/ignored', { Range: 'bytes=2-' }, 200, 'hello'],
    ['/if-range', { Range: 'bytes=2-', 'If-Range': '"2"' }, 206, 'llo', 'bytes 2-4/5'],
  ]
  for (const [path, fields, status, text, range] of cases) {
    const answer = await client.get(path, fields)
    t.match(answer, { status, text }, `${path} ${JSON.stringify(fields)}`)
    t.equal(answer.fields.get('Content-Range'), range)
  }
})

t.test('a client that leaves is noticed while the script stands still', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const before = new Gate()
  origin.at('/a', reply({ content: 'hello', before }))
  const client = await RawClient.connect(t, origin.port)
  await client.request('GET', '/a')
  const request = await origin.arrived('/a')
  await client.reset()
  t.equal(await request.gone, 'reset')
  await origin.opened(0)
  before.open()
})
