/**
 * An archive that allows an address two connections: the real apt, direct and through the cache.
 */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import t, { type Test } from 'tap'
import { noLab, report, setUp } from '../fixtures/cache/lab.ts'
import { peerUnderTest } from '../fixtures/cache/proxy-process.ts'
import { freePort } from '../fixtures/process/ports.ts'

const count = 40
const names = Array.from({ length: count }, (_, n) => `many-${n}`)
const busy = 'HTTP/1.1 503 Busy\r\nContent-Length: 5\r\nConnection: close\r\n\r\nbusy\n'

t.setTimeout(600_000)

/** A door before the origin that lets two connections in at a time. */
async function door(t: Test, at: { port: number; to: number; how: 'reset' | '503' }) {
  const counts = { open: 0, refused: 0, all: 0 }
  const server = createServer(socket => {
    counts.all += 1
    socket.on('error', () => {})
    if (counts.open >= 2) {
      counts.refused += 1
      if (at.how === 'reset') socket.resetAndDestroy()
      else socket.once('data', () => socket.end(busy))
      return
    }
    counts.open += 1
    const inner = connect(at.to, '127.0.0.1').on('error', () => {})
    socket.once('close', () => {
      counts.open -= 1
      inner.destroy()
    })
    inner.once('close', () => socket.end())
    socket.pipe(inner).pipe(socket)
  })
  server.listen(at.port, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return { counts, port: (server.address() as AddressInfo).port }
}

for (const how of ['reset', '503'] as const) {
  t.test(`${how} for a third connection`, { skip: noLab || peerUnderTest }, async t => {
    const port = await freePort()
    const packages = names.map(name => ({ name, version: '1.0' }))
    const lab = await setUp(t, { packages, otherPorts: [port] })
    const { counts } = await door(t, { port, to: lab.origin.port, how })
    const sources = [
      { uri: `http://127.0.0.1:${port}/debian`, suite: 'test', components: ['main'] },
    ]
    for (const [way, change] of [
      ['direct', { proxy: '' }],
      ['through', {}],
    ] as const) {
      const apt = await lab.apt(way, { sources, settings: { 'Acquire::Retries': '0' }, ...change })
      const update = await apt.update()
      t.strictSame([update.code, update.warnings], [0, []], report(update))
      const install = await apt.download(...names)
      t.strictSame([install.code, install.errors], [0, []], report(install))
      t.equal((await apt.downloaded()).length, count, way)
      t.comment(`${way}: ${counts.all} connections, ${counts.refused} refused`)
      counts.all = 0
      counts.refused = 0
    }
  })
}
