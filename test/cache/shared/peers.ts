/**
 * Other nodes that are asked for what they fetch: where they may be, and those that send next to nothing.
 */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { type Clock, systemClock } from '../../../lib/async/clock.ts'
import { Lifetime } from '../../../lib/async/lifetime.ts'
import { BlockPool, socketBlock } from '../../../lib/bytes/block-pool.ts'
import { mayBeNode } from '../../../lib/cache/shared/misses/peer-addresses.ts'
import { Peers } from '../../../lib/cache/shared/misses/peers.ts'
import { parseUri, type TargetUri } from '../../../lib/http/message/target.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

function uriOf(text: string): TargetUri {
  const uri = parseUri(text)
  if ('problem' in uri) throw new Error(uri.problem)
  return uri
}

const uri = uriOf('http://archive.example.org/pool/foo_1_all.deb')

function peersOf(t: Test, clock: Clock, own?: TargetUri): Peers {
  const blocks = new BlockPool({ limit: 64 * socketBlock })
  const peers = new Peers({ clock, blocks, pseudonym: 'a', own: () => own })
  t.teardown(() => peers.close())
  return peers
}

/** A node that has sent a head of a content of 1 MB, and sends its bytes when it is told to. */
async function listen(t: Test): Promise<{ port: number; drop: () => void; asked: () => number }> {
  const responses: ServerResponse[] = []
  const server = createServer((_, response) => {
    response.writeHead(200, { 'Content-Length': '1000000' })
    response.flushHeaders()
    responses.push(response)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const drop = (): void => {
    for (const response of responses) response.write('x')
  }
  return { port: (server.address() as AddressInfo).port, drop, asked: () => responses.length }
}

t.test('a node that drips is left, and not asked for a minute', async t => {
  const node = await listen(t)
  const clock = new ManualClock(0)
  const peers = peersOf(t, clock)
  const question = { uri, first: 0, lifetime: new Lifetime() }
  const place = uriOf(`http://127.0.0.1:${node.port}`)
  const { content } = await peers.ask(place, question)
  let broken: Error | undefined
  for (let bytes = 0; broken === undefined && bytes < 10; bytes += 1) {
    const next = new Promise<Error | undefined>(resolve => {
      content.next((error, piece) => {
        piece?.release()
        resolve(error)
      })
    })
    clock.advance(4000)
    node.drop()
    broken = await next
  }
  t.match(broken, { code: 'ORIGIN_CONTENT_TIMEOUT' })
  await t.rejects(peers.ask(place, question), /too slow/)
  t.equal(node.asked(), 1)
  clock.advance(60_000)
  t.equal((await peers.ask(place, question)).status, 200)
})

t.test('a name that is this machine is asked by nodes of this machine alone', async t => {
  const node = await listen(t)
  const place = uriOf(`http://localhost:${node.port}`)
  const question = { uri, first: 0, lifetime: new Lifetime() }
  await t.rejects(peersOf(t, systemClock).ask(place, question), /no connection|no address|parent/)
  t.equal(node.asked(), 0)
  const own = uriOf('http://127.0.0.1:3142')
  t.equal((await peersOf(t, systemClock, own).ask(place, question)).status, 200)
})

t.test('where nodes may be', t => {
  const rows: ReadonlyArray<readonly [host: string, own: string | undefined, may: boolean]> = [
    ['10.0.0.2', undefined, true],
    ['fd00::2', '10.0.0.1', true],
    ['node2.example.org', undefined, true],
    ['198.51.100.7', 'node1.example.org', true],
    ['127.0.0.1', undefined, false],
    ['127.0.0.1', 'node1.example.org', false],
    ['127.0.0.1', '127.0.0.1', true],
    ['::1', 'localhost', true],
    ['::ffff:127.0.0.1', '10.0.0.1', false],
    ['x.localhost', '10.0.0.1', false],
    ['169.254.169.254', '127.0.0.1', false],
    ['::ffff:169.254.169.254', '10.0.0.1', false],
    ['100.100.100.200', '10.0.0.1', false],
    ['fd00:ec2::254', '10.0.0.1', false],
    ['fe80::1', '10.0.0.1', false],
    ['0.0.0.0', '10.0.0.1', false],
    ['::', '10.0.0.1', false],
    ['255.255.255.255', '10.0.0.1', false],
  ]
  for (const [host, own, may] of rows) t.equal(mayBeNode(host, own), may, `${host} from ${own}`)
  t.end()
})
