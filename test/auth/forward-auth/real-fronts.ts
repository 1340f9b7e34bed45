/**
 * The gateway and real edges with the files of packaging/edges decide alike: the requests by chance of test/auth/two-fronts.ts are sent to
 * both, in front of one application. Compared are the verdict, the identity, the cookies, and what else the application could take for
 * something it is not. An edge may refuse a request itself; it must never let one through that the gateway does not.
 *
 * FRONTS_SEED repeats a run, FRONTS_EDGE_REQUESTS changes its length for each edge.
 */
import { setImmediate as turn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { foreignName } from '../../../lib/auth/access/foreign-names.ts'
import { seeded } from '../../fixtures/chance/seeded-random.ts'
import { type EdgeName, realEdges, startRealEdge } from '../../fixtures/edges/real-edge.ts'
import { startChecks } from '../../fixtures/gateway/checks.ts'
import type { Gateway } from '../../fixtures/gateway/gateway.ts'
import {
  type Asked,
  claimsIn,
  cookiesOf,
  differences,
  gatewayBytes,
  type Line,
  reached,
  recordingBackend,
  request,
  variants,
  verdictOf,
} from '../../fixtures/gateway/two-fronts.ts'
import { ownDirectory } from '../../fixtures/gateway/whole-gateway.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'
import { lacking } from '../../fixtures/process/command.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const { FRONTS_SEED = '1', FRONTS_EDGE_REQUESTS = '200' } = process.env
const count = Number(FRONTS_EDGE_REQUESTS)

t.setTimeout(600_000)

for (const [number, edge] of realEdges.entries()) {
  t.test(`83, 95: the gateway and ${edge} decide alike`, { skip: lacking(edge) }, async t => {
    const { passed, different } = await compare(t, edge, Number(FRONTS_SEED) * 100 + number)
    t.equal(different, 0)
    t.ok(passed > count / 10, `${passed} of ${count} pass both`)
  })
}

async function compare(t: Test, edge: EdgeName, seed: number) {
  // HAProxy 2.6 crashes where an application declines a WebSocket.
  const backend = await recordingBackend(t, { opensSockets: true })
  const clock = new ManualClock(Date.parse('2026-01-01T00:00:00Z'))
  const { gateway, at } = await startChecks(t, {
    edge,
    clock,
    target: `http://127.0.0.1:${backend.port}`,
    proxy: { trustedProxies: ['127.0.0.1'] },
    // The shipped files have the names of authproxy itself.
    settings: variants['rules'] ?? {},
  })
  if ('path' in at) throw new Error('not a port')
  const { connect } = await startRealEdge(t, edge, {
    directory: await ownDirectory(t),
    application: backend.port,
    gateway: gateway.port,
    checks: at.port,
  })
  const cookies = await cookiesOf(gateway, clock)
  const { stripped } = gateway.config.identityFields
  const ask = async (client: RawClient, asked: Asked, by: 'gateway' | 'edge') => {
    backend.take()
    const said = verdictsIn(gateway)
    // HAProxy closes a connection whose request it cannot read.
    const status = await statusOf(client, asked).catch(() => 'closes')
    const told = (await said(by === 'gateway' ? 1_000_000 : 200)) ?? `edge ${status}`
    // The line about a WebSocket says why it ended, in place of why it passed.
    const verdict = status === 101 ? told.replace(/^pass [a-z-]+/, 'pass') : told
    const sent = backend.take()
    return { verdict, sent, arrived: sent && arrivedOf(sent) }
  }
  const arrivedOf = (sent: readonly Line[]) => ({
    upgrades: sent.filter(([name]) => /^upgrade$/i.test(name)).map(([, value]) => value),
    ...reached(sent),
    claims: claimsIn(sent, stripped),
  })
  const chance = seeded(seed)
  let passed = 0
  let different = 0
  for (let i = 0; i < count; i += 1) {
    const asked = request(chance, cookies)
    const one = await ask(await RawClient.connect(t, gateway.port), asked, 'gateway')
    const other = await ask(await connect(t), asked, 'edge')
    if (one.arrived !== undefined && other.arrived !== undefined) passed += 1
    const isRefusedByEdge = other.verdict.startsWith('edge ') && other.arrived === undefined
    const isKnown = differences.some(({ gateway, check, when }) => {
      return gateway.test(one.verdict) && check.test(other.verdict) && when(asked, edge)
    })
    // What an edge removes before it asks makes another request of it, so the verdict may differ; then it must not arrive.
    const removed = removedByEdge(asked)
    for (const name of removed) {
      const arrives = other.sent?.some(([each]) => each === name) ?? false
      if (arrives && one.verdict !== other.verdict) t.fail(`${name} arrives: ${other.verdict}`)
    }
    const isExplained = isKnown || removed.length > 0
    if (isRefusedByEdge || (isExplained && one.verdict !== other.verdict)) continue
    const [wanted, found] = [one, other].map(({ verdict, arrived }) => ({ verdict, arrived }))
    if (JSON.stringify(wanted) === JSON.stringify(found)) continue
    different += 1
    if (different < 6) t.strictSame(found, wanted, JSON.stringify(asked))
  }
  return { passed, different }
}

async function statusOf(client: RawClient, asked: Asked): Promise<number> {
  await client.write(gatewayBytes(asked))
  const { status } = await client.response({ to: asked.method === 'HEAD' ? 'HEAD' : 'GET' })
  client.end()
  return status
}

/** The fields that edges remove: a protocol other than WebSocket, and a method that a field names in an odd spelling. */
function removedByEdge({ lines }: Asked): readonly string[] {
  return lines
    .filter(([name, value]) => {
      return /^upgrade$/i.test(name)
        ? value !== 'websocket'
        : /[_.]/.test(name) && foreignName(name)?.family === 'override'
    })
    .map(([name]) => name)
}

/**
 * Waits for what the log says of the requests and checks that come from now on; undefined when an edge asks nothing. The line is written when
 * the answer is out, and then the client may have its own already.
 */
function verdictsIn({ log: { lines } }: Gateway) {
  const from = lines.length
  return async (most: number): Promise<string | undefined> => {
    for (let turns = 0; turns < most; turns += 1) {
      const line = lines
        .slice(from)
        .findLast(({ message }) => /^(?:request|check|malformed request)$/.test(message))
      if (line?.message === 'malformed request') return 'malformed'
      if (line !== undefined) return verdictOf(line.facts)
      await turn()
    }
    return undefined
  }
}
