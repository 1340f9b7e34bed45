/**
 * The tables of docs/sizing.md and of README.md beside this file, written between their marks from what was measured.
 */
import { short } from '../results.ts'
import type { Check } from './measure.ts'
import {
  type AuthNeeds,
  type CacheNeeds,
  ci,
  debian,
  needsOfCi,
  needsOfFleet,
  needsOfRequests,
  needsOfSessions,
  type UnitCosts,
} from './model.ts'

/** What bench/sizing/figures.json holds. */
export interface Measured {
  readonly date: string
  readonly machine: string
  readonly versions: string
  /** Of the last minute before the run. */
  readonly load: number
  readonly costs: UnitCosts
  readonly checks: readonly Check[]
}

/** Which tables each document has. */
export const documents = {
  'docs/sizing.md': ['cachesvc', 'authproxy'],
  'bench/sizing/README.md': ['circumstances', 'costs', 'checks'],
} as const

/** A document with its tables made again; throws when a mark is missing. */
export function withTables(
  document: string,
  names: ReadonlyArray<(typeof documents)[keyof typeof documents][number]>,
  measured: Measured,
): string {
  const { costs, checks } = measured
  const tables = {
    cachesvc: cacheTable(costs),
    authproxy: authTable(costs),
    costs: costTable(costs),
    checks: checkTable(checks),
    circumstances: `Measured on ${measured.date}: ${measured.machine}, load ${short(measured.load)} before the run; ${measured.versions}.\n`,
  }
  return names.reduce((text, name) => {
    const parts = text.split(new RegExp(`(<!-- table ${name} -->\n)[\\s\\S]*?(<!-- end -->)`))
    if (parts.length !== 4) throw new Error(`the document has no mark for ${name}`)
    const [before, begin, end, after] = parts
    return `${before}${begin}\n${tables[name]}\n${end}${after}`
  }, document)
}

/** The fleets of the table: machines, and kinds of machines. */
export const fleets = [
  { machines: 10, kinds: 2 },
  { machines: 100, kinds: 5 },
  { machines: 1000, kinds: 15 },
  { machines: 10_000, kinds: 40 },
] as const

function cacheTable(costs: UnitCosts): string {
  const line = (name: string, needs: CacheNeeds) => [
    name,
    short(needs.requestsPerSecond),
    rate(needs.bytesPerSecond),
    cores(needs.cores),
    short(needs.connections),
    megabytes(needs.memory),
    size(needs.disk),
    `${size(needs.fetchedDaily)}; most ${size(needs.fetchedMost)}`,
    size(needs.sentDaily),
  ]
  return table(
    [
      'Clients',
      'Requests/s',
      'To clients',
      'Cores, busiest minute',
      'Connections',
      'Memory',
      'Disk',
      'Fetched a day',
      'Sent a day',
    ],
    [
      ...fleets.map(fleet =>
        line(
          `${fleet.machines.toLocaleString('en')} machines of ${fleet.kinds} kinds`,
          needsOfFleet(fleet, costs, debian),
        ),
      ),
      line(`CI, ${ci.jobsPerMinute} jobs a minute`, needsOfCi(ci, costs)),
    ],
  )
}

function authTable(costs: UnitCosts): string {
  const line = (name: string, needs: AuthNeeds) => [
    name,
    short(needs.requestsPerSecond),
    short(needs.loginsPerSecond),
    rate(needs.bytesPerSecond),
    cores(needs.cores),
    short(needs.connections),
    megabytes(needs.memory),
  ]
  return table(
    [
      'An instance with',
      'Requests/s',
      'Logins/s',
      'To browsers',
      'Cores, busiest minute',
      'Connections',
      'Memory',
    ],
    [
      ...[10, 100, 1000, 10_000].map(sessions =>
        line(`${sessions.toLocaleString('en')} sessions`, needsOfSessions(sessions, costs)),
      ),
      ...[100, 1000].map(requests =>
        line(
          `${requests.toLocaleString('en')} requests/s, no logins`,
          needsOfRequests({ requests, logins: 0, sessions: 1000 }, costs),
        ),
      ),
    ],
  )
}

function costTable({ cache, auth }: UnitCosts): string {
  const lines: ReadonlyArray<readonly [string, string]> = [
    ['cachesvc: a stored file', `${short(cache.hitMicroseconds)} µs`],
    ['cachesvc: a GB of stored files', `${short(cache.hitPerGB)} s`],
    [
      'cachesvc: a Release file that has not changed (304)',
      `${short(cache.notModifiedMicroseconds)} µs`,
    ],
    ['cachesvc: a new connection', `${short(cache.connectionMicroseconds)} µs`],
    ['cachesvc: a file that is not stored', `${short(cache.missMicroseconds / 1000)} ms`],
    ['cachesvc: a GB that is not stored', `${short(cache.missPerGB)} s`],
    ['cachesvc: a new index of 60,000 packages', `${short(cache.adoptionPer1000 * 60)} s`],
    ['cachesvc: memory after work, little stored', megabytes(cache.memory)],
    ['cachesvc: memory of a connection', `${short(cache.memoryPerConnection * 1000)} kB`],
    ['cachesvc: memory of a stored file', `${short(cache.memoryPer1000Files * 1000)} bytes`],
    [
      'cachesvc: memory of a package that an index names',
      `${short(cache.memoryPer1000Packages * 1000)} bytes`,
    ],
    ['authproxy: a request with a session', `${short(auth.requestMicroseconds)} µs`],
    ['authproxy: a GB forwarded', `${short(auth.requestPerGB)} s`],
    ['authproxy: a login', `${short(auth.loginMilliseconds)} ms`],
    ['authproxy: memory after work', megabytes(auth.memory)],
    [
      'authproxy: memory of a connection with its request',
      `${short(auth.memoryPerConnection * 1000)} kB`,
    ],
    ['authproxy: memory of a session', `${short(auth.memoryPerSession / 1000)} kB`],
    ['authproxy: cookies of a browser', `${short(auth.cookies)} bytes`],
  ]
  return table(['What', 'Measured'], lines)
}

function checkTable(checks: readonly Check[]): string {
  const beside = (
    { calculated, measured }: Check['cores'],
    write: (value: number) => string,
  ): string => {
    const difference = Math.round((measured / calculated - 1) * 100)
    return `${write(calculated)}; ${write(measured)} (${difference > 0 ? '+' : ''}${difference}%)`
  }
  return table(
    ['Load', 'Requests/s', 'Connections', 'Cores: calculated; measured', 'Memory'],
    checks.map(check => [
      check.what,
      short(check.requestsPerSecond),
      short(check.connections),
      beside(check.cores, short),
      beside(check.memory, megabytes),
    ]),
  )
}

function table(head: readonly string[], lines: ReadonlyArray<readonly string[]>): string {
  const row = (cells: readonly string[]) => `| ${cells.join(' | ')} |\n`
  const rule = head.map((_, index) => (index === 0 ? '---' : '---:'))
  return row(head) + row(rule) + lines.map(row).join('')
}

/** Hundredths of a core are the least that is said. */
function cores(value: number): string {
  return value < 0.01 ? 'below 0.01' : short(value)
}

function rate(bytesPerSecond: number): string {
  const bits = bytesPerSecond * 8
  return bits < 1e9 ? `${short(bits / 1e6)} Mbit/s` : `${short(bits / 1e9)} Gbit/s`
}

function megabytes(value: number): string {
  return `${Math.round(value)} MB`
}

function size(bytes: number): string {
  if (bytes < 1e9) return `${short(bytes / 1e6)} MB`
  return bytes < 1e12 ? `${short(bytes / 1e9)} GB` : `${short(bytes / 1e12)} TB`
}
