/** The load model of docs/sizing.md, and that the documents have the tables of what was measured. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import {
  ci,
  debian,
  needsOfCi,
  needsOfFleet,
  needsOfRequests,
  needsOfSessions,
  type UnitCosts,
} from '../bench/sizing/model.ts'
import { documents, type Measured, withTables } from '../bench/sizing/page.ts'
import { packageRoot } from '../lib/package.ts'

const read = (path: string) => readFileSync(join(packageRoot(), path), 'utf8')

/** Round figures, to calculate with. */
const costs: UnitCosts = {
  cache: {
    hitMicroseconds: 100,
    hitPerGB: 0.5,
    notModifiedMicroseconds: 0,
    connectionMicroseconds: 0,
    missMicroseconds: 0,
    missPerGB: 0,
    adoptionPer1000: 0,
    memory: 100,
    memoryPerConnection: 0,
    memoryPer1000Files: 0,
    memoryPer1000Packages: 0,
  },
  auth: {
    requestMicroseconds: 50,
    requestPerGB: 1,
    loginMilliseconds: 20,
    memory: 80,
    memoryPerConnection: 0.1,
    memoryPerSession: 4000,
    cookies: 1000,
  },
}

/** To three digits. */
const about = (value: number) => Number(value.toPrecision(3))

t.test('a fleet: all machines upgrade within an hour', async t => {
  const needs = needsOfFleet({ machines: 3600, kinds: 10 }, costs, debian)
  t.equal(about(needs.requestsPerSecond), 127, 'one machine a second')
  t.equal(about(needs.bytesPerSecond), 206e6)
  t.equal(about(needs.cores), about(3 * (127 * 100e-6 + 0.206 * 0.5)), 'three times the mean')
  t.equal(needs.connections, 5, 'each for 1.6 s, three a second')
  t.equal(about(needs.disk / 1e9), about(2.937 + 2.657 + 0.047 + 0.02))
})

t.test('more machines of the same kinds need no more disk', async t => {
  const [few, many] = [100, 10_000].map(machines =>
    needsOfFleet({ machines, kinds: 5 }, costs, debian),
  )
  t.equal(few?.disk, many?.disk)
  t.equal(few?.fetchedMost, many?.fetchedMost)
})

t.test('CI: each job has all indexes and its packages', async t => {
  const needs = needsOfCi(ci, costs)
  t.equal(needs.requestsPerSecond, 81, '3 Release files, 3 indexes and 75 packages a second')
  t.equal(about(needs.bytesPerSecond / 1e6), 96)
})

t.test('sessions: requests and logins of the busiest hour', async t => {
  const needs = needsOfSessions(3600, costs)
  t.match(needs, { requestsPerSecond: 360, loginsPerSecond: 1 })
  t.equal(about(needs.cores), about(3 * (360 * 50e-6 + 0.0054 + 0.02)))
  t.equal(about(needs.memory), about(80 + 14.4 + 10.9))
})

t.test('remembered sessions are bounded', async t => {
  const memory = (sessions: number) =>
    needsOfRequests({ requests: 0, logins: 0, sessions }, costs).memory
  t.equal(memory(1000), 84)
  t.equal(memory(1_000_000), 144)
})

t.test('the documents have the tables of bench/sizing/figures.json', async t => {
  const measured: Measured = JSON.parse(read('bench/sizing/figures.json'))
  for (const [path, names] of Object.entries(documents)) {
    const document = read(path)
    const says = `${path}: run \`node dist/bench/sizing/main.js --tables\``
    t.equal(withTables(document, names, measured), document, says)
  }
  t.throws(() => withTables('# no marks', ['cachesvc'], measured), /no mark for cachesvc/)
})
