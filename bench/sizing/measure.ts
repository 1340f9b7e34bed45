/**
 * Measures the unit costs of the load model (model.ts), and two points of it directly: what was calculated for them beside what is used.
 */
import { createWriteStream } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { pathOf } from '../bare/content.ts'
import { indexed } from '../bare/suite.ts'
import type { LoadClient, LoadPlan } from '../load.ts'
import { adopting } from '../rows/adoption.ts'
import { signIn } from '../rows/gateway.ts'
import { entries } from '../rows/memory.ts'
import { series, urlOf } from '../rows/row.ts'
import { type Program, type SubjectName, startSubject } from '../subject.ts'
import { debian, machine, needsOfFleet, person, type UnitCosts } from './model.ts'

/** What was calculated for a load beside what that load used. CPU in cores, memory in MB. */
export interface Check {
  readonly what: string
  readonly requestsPerSecond: number
  readonly connections: number
  readonly cores: { readonly calculated: number; readonly measured: number }
  readonly memory: { readonly calculated: number; readonly measured: number }
}

export interface Place {
  readonly directory: string
  readonly origin: Program
  readonly load: LoadClient
  readonly effort: Effort
  readonly say: (text: string) => void
}

/** How much is measured. */
export interface Effort {
  /** CPU seconds until a Node.js program is compiled: by the clock a busy machine would have it do next to nothing. */
  readonly warm: number
  /** Seconds of a turn. */
  readonly turn: number
  readonly turns: number
  /** Files that are not stored, small and large. Each turn is followed by six seconds of rest. */
  readonly misses: { readonly small: number; readonly large: number; readonly turns: number }
  readonly sessions: number
  /** Seconds of a load that is tried directly. */
  readonly check: number
}

export const full: Effort = {
  warm: 3,
  turn: 6,
  turns: 2,
  misses: { small: 600, large: 30, turns: 2 },
  sessions: 1000,
  check: 20,
}
/** For development: the figures are of no use. */
export const quick: Effort = {
  warm: 0.3,
  turn: 2,
  turns: 1,
  misses: { small: 50, large: 3, turns: 1 },
  sessions: 100,
  check: 5,
}

/** Seconds after which a busy machine has had its turn. */
const patience = 60
const small = 10_000
const large = 1_000_000
/** Connections at once, each with a request every two seconds. */
const connected = 500
/** Files in a store, without contents. */
const filesInStore = 100_000

/** Starts a daemon of ours in a directory of its own, and stops it when the action is done. */
async function withDaemon<Answer>(
  { directory, origin }: Place,
  { subject, name }: { readonly subject: SubjectName; readonly name: string },
  action: (program: Program) => Promise<Answer>,
): Promise<Answer> {
  const program = await startSubject(subject, join(directory, name), { origin })
  try {
    return await action(program)
  } finally {
    await program.stop()
  }
}

/** Other work on the machine makes a turn dearer and never cheaper. */
function least(values: readonly number[]): number {
  return Math.min(...values)
}

/**
 * Microseconds of CPU for a request of a plan, with the program compiled. The requests come one by one, at the rate of the plan: a
 * program that is never out of work shares the cost of each wake-up among many of them, and seems twice as fast.
 */
async function microseconds(
  { load, effort }: Place,
  program: Program,
  plan: Omit<LoadPlan, 'seconds' | 'interval'> & { readonly perSecond: number },
): Promise<number> {
  const { perSecond, ...work } = plan
  const [before, began] = [program.cpu(), performance.now()]
  while (program.cpu() - before < effort.warm && performance.now() - began < patience * 1000) {
    await load.run(program.port, { ...work, connections: 16, requests: 1e6, seconds: 1 })
  }
  const paced = { ...work, connections: 100, interval: (100 / perSecond) * 1000, requests: 1e6 }
  const costs: number[] = []
  for (let turn = 0; turn < effort.turns; turn += 1) {
    const start = program.cpu()
    const { responses } = await load.run(program.port, { ...paced, seconds: effort.turn })
    costs.push(((program.cpu() - start) / responses) * 1e6)
  }
  return least(costs)
}

/** The line through two sizes: microseconds of a request without content, and seconds of a GB. */
function lineThrough(
  [bytes, cost]: readonly [number, number],
  [moreBytes, moreCost]: readonly [number, number],
) {
  const perByte = (moreCost - cost) / (moreBytes - bytes)
  return { request: cost - perByte * bytes, perGB: perByte * 1e3 }
}

async function mostMemory(program: Program, run: Promise<unknown>): Promise<number> {
  let over = false
  let most = 0
  const watched = run.finally(() => {
    over = true
  })
  while (!over) {
    await Promise.race([watched, pause(200)])
    most = Math.max(most, program.pss())
  }
  await watched
  return most
}

export async function cacheCosts(place: Place): Promise<UnitCosts['cache']> {
  const { load } = place
  const urls = (bytes: number, count: number, name: string) =>
    series(name, count).map(one => urlOf(place, pathOf(bytes, one)))
  const worked = await withDaemon(place, { subject: 'cachesvc', name: 'costs' }, async program => {
    const targets = urls(small, 200, 'small')
    const middle = urls(large, 50, 'middle')
    for (const warm of [targets, targets, middle, middle]) {
      await load.run(program.port, { targets: warm })
    }
    const hit = await microseconds(place, program, { targets, perSecond: 1000 })
    const hitOfMegabyte = await microseconds(place, program, { targets: middle, perSecond: 100 })
    const notModified = await microseconds(place, program, {
      targets,
      perSecond: 1000,
      status: 304,
      fields: `If-Modified-Since: ${new Date().toUTCString()}`,
    })
    const alone = await microseconds(place, program, { targets, perSecond: 250, alwaysNew: true })
    place.say(`hits ${hit} ${hitOfMegabyte}, 304 ${notModified}, connections ${alone} us\n`)
    await pause(3000)
    const memory = program.pss()
    const miss = await missCost(place, program, {
      bytes: small,
      count: place.effort.misses.small,
    })
    const largeMiss = await missCost(place, program, {
      bytes: 10 * large,
      count: place.effort.misses.large,
    })
    place.say(`misses ${miss} ${largeMiss} us; ${memory} MB\n`)
    const hits = lineThrough([small, hit], [large, hitOfMegabyte])
    const misses = lineThrough([small, miss], [10 * large, largeMiss])
    return {
      hitMicroseconds: hits.request,
      hitPerGB: hits.perGB,
      notModifiedMicroseconds: notModified,
      connectionMicroseconds: Math.max(0, alone - hit),
      missMicroseconds: misses.request,
      missPerGB: misses.perGB,
      memory,
    }
  })
  return {
    ...worked,
    memoryPerConnection: await connectionMemory(place),
    ...(await keptCosts(place)),
  }
}

/** MB for a connection of a client, in a daemon that did no other work: what work leaves behind would hide it. */
async function connectionMemory(place: Place): Promise<number> {
  return withDaemon(place, { subject: 'cachesvc', name: 'connected' }, async program => {
    const targets = [urlOf(place, pathOf(small, 'one'))]
    const withSo = (connections: number) => {
      const plan = { targets, connections, requests: 1e6, seconds: 8, interval: 2000 }
      return mostMemory(program, place.load.run(program.port, plan))
    }
    const [few, more] = [connected / 10, 3 * connected]
    await withSo(few)
    const before = await withSo(few)
    return Math.max(0, (await withSo(more)) - before) / (more - few)
  })
}

/** Microseconds for a file that is not stored, with the work behind its response; a Node.js program has to be compiled first. */
async function missCost(
  { load, origin, effort }: Place,
  program: Program,
  { bytes, count }: { readonly bytes: number; readonly count: number },
): Promise<number> {
  const turn = async (name: string, files = count) => {
    const targets = series(name, files).map(one => urlOf({ origin }, pathOf(bytes, one)))
    const before = program.cpu()
    await load.run(program.port, { targets, connections: 2 })
    return (((await program.cpuAtRest(6000)) - before) / files) * 1e6
  }
  await turn(`cold-${bytes}`, 3 * count)
  const costs: number[] = []
  for (let n = 0; n < effort.misses.turns; n += 1) costs.push(await turn(`cold-${bytes}-${n}`))
  return least(costs)
}

/** What is kept: files in the store, and packages that an index names. */
async function keptCosts(place: Place) {
  const store = join(place.directory, 'stored/cache/v2')
  await mkdir(store, { recursive: true })
  const lines = Readable.from(entries(filesInStore))
  await pipeline(lines, createWriteStream(join(store, 'entries.log')))
  const idle = async (name: string) =>
    withDaemon(place, { subject: 'cachesvc', name }, async program => {
      await pause(4000)
      return program.pss()
    })
  // The first start writes what the second reads.
  await idle('stored')
  const [empty, stored] = [await idle('empty'), await idle('stored')]
  return withDaemon(place, { subject: 'cachesvc', name: 'adoption' }, async program => {
    await pause(3000)
    const [before, cpu] = [program.pss(), program.cpu()]
    await adopting(place, program)
    await pause(3000)
    const used = program.cpu() - cpu
    const kept = program.pss() - before
    place.say(`empty ${empty} MB, stored ${stored} MB; index ${used} s, ${kept} MB\n`)
    return {
      memoryPer1000Files: (stored - empty) / (filesInStore / 1000),
      adoptionPer1000: used / (indexed / 1000),
      memoryPer1000Packages: Math.max(0, kept) / (indexed / 1000),
    }
  })
}

export async function authCosts(place: Place): Promise<UnitCosts['auth']> {
  return withDaemon(place, { subject: 'authproxy', name: 'gateway' }, async program => {
    const { load, effort } = place
    const { sessions } = effort
    const fields = await signIn('authproxy', program)
    if (fields === undefined) throw new Error('no session')
    const asked = (bytes: number) => ({
      targets: [urlOf(place, pathOf(bytes, 'forwarded'))],
      as: 'origin' as const,
      fields,
    })
    const request = await microseconds(place, program, { ...asked(1000), perSecond: 1000 })
    const larger = await microseconds(place, program, { ...asked(100_000), perSecond: 200 })
    place.say(`forwarded ${request} ${larger} us\n`)
    const logins = async (count: number) => {
      const before = program.cpu()
      const one = async () => {
        for (let n = 0; n < count / 4; n += 1) await signIn('authproxy', program)
      }
      await Promise.all(Array.from({ length: 4 }, one))
      return ((program.cpu() - before) / count) * 1000
    }
    await logins(sessions / 5)
    await pause(3000)
    const memory = program.pss()
    const login = await logins(sessions)
    await pause(3000)
    const grown = program.pss() - memory
    const plan = {
      ...asked(1000),
      connections: connected,
      requests: 1e6,
      seconds: 8,
      interval: 2000,
    }
    const before = program.pss()
    const withThem = await mostMemory(program, load.run(program.port, plan))
    place.say(`login ${login} ms; ${memory} MB, ${grown} MB more, ${withThem} MB connected\n`)
    const line = lineThrough([1000, request], [100_000, larger])
    return {
      requestMicroseconds: line.request,
      requestPerGB: line.perGB,
      loginMilliseconds: login,
      memory,
      memoryPerConnection: Math.max(0, withThem - before) / connected,
      memoryPerSession: (Math.max(0, grown) / sessions) * 1e6,
      cookies: /^Cookie: (.*)$/m.exec(fields)?.[1]?.length ?? Number.NaN,
    }
  })
}

/** Sizes of 20 packages whose mean is that of updates: most are small, and one is large. */
const packageSizes = [
  ...Array.from({ length: 12 }, () => 59_000),
  ...Array.from({ length: 6 }, () => large),
  5_732_000,
  20_000_000,
]

/** The busiest hour of 10,000 machines, for some time: a thousand clients at once ask for its mean of packages. */
export async function checkCache(place: Place, costs: UnitCosts): Promise<Check> {
  const { load } = place
  const connections = 1000
  const needs = needsOfFleet({ machines: 10_000, kinds: 40 }, costs, debian)
  const rate = needs.requestsPerSecond
  return withDaemon(place, { subject: 'cachesvc', name: 'fleet' }, async program => {
    const targets = packageSizes.map((bytes, n) => urlOf(place, pathOf(bytes, `fleet-${n}`)))
    await load.run(program.port, { targets, requests: 6000, connections: 8 })
    const { measured, most } = await used(program, () =>
      load.run(program.port, {
        targets,
        connections,
        requests: 1e6,
        seconds: place.effort.check,
        interval: (connections / rate) * 1000,
      }),
    )
    const { cache } = costs
    const calculated =
      (measured.rate * cache.hitMicroseconds +
        (connections / place.effort.check) * cache.connectionMicroseconds) /
        1e6 +
      (measured.bytes / 1e9) * cache.hitPerGB
    return {
      what: `the busiest hour of 10,000 machines (${machine.mostPackages} packages each), stored`,
      requestsPerSecond: measured.rate,
      connections,
      cores: { calculated, measured: measured.cores },
      memory: {
        calculated: cache.memory + connections * cache.memoryPerConnection,
        measured: most,
      },
    }
  })
}

/** 1,000 requests a second of signed-in people, for some time. */
export async function checkAuth(place: Place, { auth }: UnitCosts): Promise<Check> {
  const connections = 300
  return withDaemon(place, { subject: 'authproxy', name: 'people' }, async program => {
    const fields = await signIn('authproxy', program)
    const plan = {
      targets: [urlOf(place, pathOf(person.responseBytes, 'page'))],
      as: 'origin' as const,
      ...(fields !== undefined && { fields }),
      requests: 1e6,
    }
    await place.load.run(program.port, { ...plan, connections: 20, seconds: 5 })
    const { measured, most } = await used(program, () =>
      place.load.run(program.port, {
        ...plan,
        connections,
        seconds: place.effort.check,
        interval: connections,
      }),
    )
    const calculated =
      (measured.rate * auth.requestMicroseconds) / 1e6 + (measured.bytes / 1e9) * auth.requestPerGB
    return {
      what: 'requests of signed-in people, answers of 15 KB',
      requestsPerSecond: measured.rate,
      connections,
      cores: { calculated, measured: measured.cores },
      memory: {
        calculated: auth.memory + connections * auth.memoryPerConnection,
        measured: most,
      },
    }
  })
}

/** What a load of some time used: requests and bytes a second, cores, and the most memory. */
async function used(program: Program, action: () => ReturnType<LoadClient['run']>) {
  const before = program.cpu()
  const run = action()
  const most = await mostMemory(program, run)
  const { responses, bytes, seconds: lasted } = await run
  const measured = {
    rate: responses / lasted,
    bytes: bytes / lasted,
    cores: (program.cpu() - before) / lasted,
  }
  return { measured, most }
}
