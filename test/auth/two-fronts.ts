/**
 * Both fronts, the gateway and the checks of an edge, decide alike: the same requests by chance are sent to the gateway and asked about in a
 * check of each edge. Compared are the verdict with its reason, the identity, the cookies, and whatever else of a client the application
 * could take for something it is not. `differences` is what differs, and why.
 *
 * FRONTS_SEED repeats a run, FRONTS_REQUESTS changes its length.
 */
import { setImmediate as turn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { foreignName } from '../../lib/auth/access/foreign-names.ts'
import type { Edge } from '../../lib/auth/config/setting-forward-auth.ts'
import { isSource } from '../../lib/auth/forward-auth/contract.ts'
import { seeded } from '../fixtures/chance/seeded-random.ts'
import { bytesOf, checkOf, edges, startChecks } from '../fixtures/gateway/checks.ts'
import type { Gateway } from '../fixtures/gateway/gateway.ts'
import {
  type Asked,
  claimsIn,
  cookiesOf,
  type Difference,
  differences,
  gatewayBytes,
  type Line,
  reached,
  recordingBackend,
  request,
  type Told,
  variants,
  verdictOf,
} from '../fixtures/gateway/two-fronts.ts'
import { RawClient, type RawResponse } from '../fixtures/http/raw-client.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

const { FRONTS_SEED = '1', FRONTS_REQUESTS = '3000' } = process.env
const count = Number(FRONTS_REQUESTS)

t.setTimeout(600_000)

for (const [number, edge] of edges.entries()) {
  for (const variant of Object.keys(variants)) {
    t.test(`${edge}, ${variant}: the gateway and a check decide alike`, async t => {
      await compare(t, { edge, variant, seed: Number(FRONTS_SEED) * 100 + number })
    })
  }
}

const met = new Map<Difference, number>()
let passed = 0
t.test('each difference is one, and enough is compared', t => {
  for (const difference of differences) t.ok(met.has(difference), difference.why)
  t.ok(passed > count / 8, `${passed} pass both fronts`)
  t.end()
})

async function compare(
  t: Test,
  { edge, variant, seed }: { readonly edge: Edge; readonly variant: string; readonly seed: number },
): Promise<void> {
  const backend = await recordingBackend(t)
  const clock = new ManualClock(Date.parse('2026-01-01T00:00:00Z'))
  const { gateway, at } = await startChecks(t, {
    edge,
    clock,
    target: `http://127.0.0.1:${backend.port}`,
    proxy: { trustedProxies: ['127.0.0.1'], useBasicAuth: variant === 'names' && edge === 'caddy' },
    settings: variants[variant] ?? {},
  })
  if ('path' in at) throw new Error('not a port')
  const cookies = await cookiesOf(gateway, clock)
  const { stripped } = gateway.config.identityFields
  const fronts = {
    gateway: new Front(t, gateway, { port: gateway.port, message: 'request' }),
    check: new Front(t, gateway, { port: at.port, message: 'check' }),
  }
  const chance = seeded(seed)
  let different = 0
  for (let i = 0; i < count / edges.length / Object.keys(variants).length; i += 1) {
    const asked = request(chance, cookies)
    const ofGateway = verdictOf((await fronts.gateway.ask(gatewayBytes(asked))).facts)
    const sent = backend.take()
    const checked = await fronts.check.ask(checkBytes(edge, asked))
    const ofCheck = verdictOf(checked.facts)
    const known = differences.filter(({ gateway, check, when }) => {
      return gateway.test(ofGateway) && check.test(ofCheck) && when(asked, edge)
    })
    for (const difference of known) met.set(difference, (met.get(difference) ?? 0) + 1)
    const [one, other] = [
      { verdict: ofGateway, ...(sent && { ...reached(sent), claims: claimsIn(sent, stripped) }) },
      {
        verdict: ofCheck,
        ...(checked.answer.status === 200 && behindEdge(edge, asked, checked.answer)),
      },
    ]
    const theirs =
      'lines' in other
        ? { verdict: ofCheck, ...reached(other.lines), claims: claimsIn(other.lines, stripped) }
        : other
    if (ofGateway === ofCheck && sent !== undefined) passed += 1
    if (known.length > 0 && ofGateway !== ofCheck) continue
    if (JSON.stringify(one) === JSON.stringify(theirs)) continue
    different += 1
    if (different < 6)
      t.strictSame(theirs, one, JSON.stringify(asked).replaceAll(/ey[\w.-]{40,}/g, 'JWT'))
  }
  t.equal(different, 0)
}

/** The check by which the edge asks about a request. Its own fields take the place of those of the client that have their names. */
function checkBytes(edge: Edge, asked: Asked): string {
  const { method, target, host } = asked
  const { line, lines } = checkOf(edge, { method, target, host })
  const own = lines.map(([name]) => name.toLowerCase())
  const takesUpgrade = edge === 'nginx' || edge === 'traefik' || edge === 'caddy'
  const theirs = asked.lines.filter(([name]) => {
    const plain = name.toLowerCase()
    return !own.includes(plain) && !(takesUpgrade && /^(?:connection|upgrade)$/.test(plain))
  })
  return bytesOf({ line, lines: [...lines, ...theirs] })
}

/** The fields that an edge forwards: the client's, but what the files of packaging/edges remove, under those of the answer. */
function behindEdge(
  edge: Edge,
  { lines }: Asked,
  { fields }: RawResponse,
): { readonly lines: readonly Line[] } {
  const kept = lines.filter(([name]) => {
    const row = foreignName(name)
    const isRemoved =
      row !== undefined &&
      row.family !== 'override' &&
      row.name.toLowerCase() === name.toLowerCase()
    return !fields.has(name) && !isRemoved && !isSource(edge, name)
  })
  return { lines: [...kept, ...fields] }
}

/** One front, and what its log says of each request. */
class Front {
  readonly #t: Test
  readonly #gateway: Gateway
  readonly #at: { readonly port: number; readonly message: string }
  #client: RawClient | undefined

  constructor(t: Test, gateway: Gateway, at: { readonly port: number; readonly message: string }) {
    this.#t = t
    this.#gateway = gateway
    this.#at = at
  }

  async ask(bytes: string): Promise<Told> {
    const { message } = this.#at
    const { lines } = this.#gateway.log
    // Nothing is under way at the other front.
    let read = lines.length
    this.#client ??= await RawClient.connect(this.#t, this.#at.port)
    await this.#client.write(bytes)
    const answer = await this.#client.response({ to: bytes.startsWith('HEAD') ? 'HEAD' : 'GET' })
    if (/close/i.test(answer.fields.get('Connection') ?? '') || /^Upgrade:/im.test(bytes)) {
      this.#client.end()
      this.#client = undefined
    }
    for (;;) {
      for (; read < lines.length; read += 1) {
        const line = lines[read]
        if (line?.message === message) return { answer, facts: line.facts }
        if (line?.message === 'malformed request')
          return { answer, facts: { outcome: 'malformed' } }
      }
      await turn()
    }
  }
}
