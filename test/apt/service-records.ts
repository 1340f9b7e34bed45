/**
 * SRV records of an archive (RFC 2782) that name two nodes: apt takes the one with the smaller priority, and the next in the same run when it
 * cannot connect. The setup page has such records.
 */
import { createSocket } from 'node:dgram'
import { cp, mkdir, writeFile } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { noOverlay, overlayRoot } from '../fixtures/archive/overlay-root.ts'
import { fetchThrough, noLab, setUp } from '../fixtures/cache/lab.ts'
import { ProxyProcess, peerUnderTest } from '../fixtures/cache/proxy-process.ts'
import { freePort } from '../fixtures/process/ports.ts'

const skip = noLab || peerUnderTest || (await noOverlay())
const resolver = '127.0.0.77'
/** apt remembers an address that takes no connection, whatever the port: each node needs one of its own. */
const addresses = ['127.0.0.1', '127.0.0.2'] as const
const [A, SRV] = [1, 33]

t.setTimeout(600_000)

t.test(
  'the second node serves the same run when the first takes no connection',
  { skip },
  async t => {
    const ports = [await freePort(), await freePort()] as const
    const remap = (origin: number) => [{ from: 'archive.test', to: `127.0.0.1:${origin}` }]
    const lab = await setUp(t)
    const nodes = await Promise.all(
      ports.map((port, at) =>
        ProxyProcess.start({
          directory: join(t.testdirName, `node${at}`),
          domains: [`127.0.0.1:${lab.origin.port}`, 'archive.test'],
          settings: { remap: remap(lab.origin.port) },
          port,
        }),
      ),
    )
    t.teardown(() => Promise.all(nodes.map(node => node.stop())))
    await relay(t, addresses[1], ports[1])
    await answerQuestions(t, ports)

    const work = join(t.testdirName, 'work')
    await mkdir(work)
    const root = await overlayRoot(t, work)
    await cp(lab.archive.keyring, join(work, 'test.gpg'))
    const list = 'deb [signed-by=/etc/apt/test.gpg] http://archive.test/debian test main\n'
    await writeFile(join(work, 'test.list'), list)
    const clear = `set -e; cd /etc/apt; rm -rf sources.list sources.list.d/* apt.conf apt.conf.d/* /etc/resolv.conf
    cp ${work}/test.list sources.list; cp ${work}/test.gpg .; chmod 644 test.gpg sources.list
    echo nameserver ${resolver} >/etc/resolv.conf; echo 'hosts: files dns' >/etc/nsswitch.conf
    grep -qw ^http /etc/services || echo 'http 80/tcp' >>/etc/services
    printf 'APT::Sandbox::User "root";\\n' >apt.conf`
    t.equal((await root.run('sh', '-c', clear)).code, 0)
    const update = async () => {
      await root.run('sh', '-c', 'rm -rf /var/lib/apt/lists/*')
      const { code, stdout, stderr } = await root.run('apt-get', 'update')
      t.equal(code, 0, { stdout: `${stdout}`, stderr })
      t.notMatch(`${stdout}${stderr}`, /^(?:[WE]|Err|Ign):/m)
    }
    const requests = async (port: number): Promise<number> => {
      const { content } = await fetchThrough(port, '/_cachesvc/api/stats')
      return JSON.parse(content.toString()).totals.requests
    }
    await update()
    t.ok((await requests(ports[0])) > 0, 'the first one')
    t.equal(await requests(ports[1]), 0)
    await nodes[0]?.stop('SIGKILL')
    await update()
    t.ok((await requests(ports[1])) > 0, 'the second one')
  },
)

/** Joins a port of another loopback address with the same port of 127.0.0.1. */
async function relay(t: Test, host: string, port: number): Promise<void> {
  const server = createServer(near => {
    const far = connect(port, '127.0.0.1')
    near.pipe(far).pipe(near)
    near.on('error', () => far.destroy())
    far.on('error', () => near.destroy())
  })
  await new Promise<void>(resolve => server.listen(port, host, resolve))
  t.teardown(() => server.close())
}

/** A resolver (RFC 1035) that knows the records of archive.test and the addresses of the two nodes. */
async function answerQuestions(t: Test, ports: readonly number[]): Promise<void> {
  const server = createSocket('udp4')
  server.on('message', (message, { port, address }) => {
    const { name, type, question } = questionOf(message)
    const node = /^node([12])\.test$/.exec(name)?.[1]
    const records: Buffer[] = []
    if (name === '_http._tcp.archive.test' && type === SRV) {
      for (const [priority, target] of ports.entries()) {
        const numbers = Buffer.alloc(6)
        numbers.writeUInt16BE(priority, 0)
        numbers.writeUInt16BE(target, 4)
        records.push(record(SRV, Buffer.concat([numbers, labels(`node${priority + 1}.test`)])))
      }
    }
    if (node !== undefined && type === A) {
      const bytes = addresses[Number(node) - 1]?.split('.').map(Number) ?? []
      records.push(record(A, Buffer.from(bytes)))
    }
    const head = Buffer.alloc(12)
    message.copy(head, 0, 0, 2)
    const noSuchName = records.length === 0 && node === undefined ? 3 : 0
    head.writeUInt16BE(0x8580 + noSuchName, 2)
    head.writeUInt16BE(1, 4)
    head.writeUInt16BE(records.length, 6)
    server.send(Buffer.concat([head, question, ...records]), port, address)
  })
  await new Promise<void>((resolve, reject) => {
    server.on('error', reject)
    server.bind(53, resolver, resolve)
  })
  t.teardown(() => server.close())
}

function questionOf(message: Buffer) {
  const parts: string[] = []
  let at = 12
  for (let length = message[at] ?? 0; length > 0; length = message[at] ?? 0) {
    parts.push(message.toString('latin1', at + 1, at + 1 + length))
    at += length + 1
  }
  const type = message.readUInt16BE(at + 1)
  return { name: parts.join('.').toLowerCase(), type, question: message.subarray(12, at + 5) }
}

function labels(name: string): Buffer {
  const parts = name
    .split('.')
    .map(part => Buffer.from(`${String.fromCharCode(part.length)}${part}`))
  return Buffer.concat([...parts, Buffer.alloc(1)])
}

/** A record about the name of the question. */
function record(type: number, data: Buffer): Buffer {
  const head = Buffer.alloc(12)
  head.writeUInt16BE(0xc00c, 0)
  head.writeUInt16BE(type, 2)
  head.writeUInt16BE(1, 4)
  head.writeUInt32BE(60, 6)
  head.writeUInt16BE(data.length, 10)
  return Buffer.concat([head, data])
}
