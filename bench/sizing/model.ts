/**
 * The load model of docs/sizing.md: what fleets of machines and users ask for, and what that costs by the unit costs of a measurement.
 * Knows no program: values in, values out. Bytes are bytes, times are seconds unless the name says otherwise.
 */

/** What one unit of work or one thing that is kept costs, as measured by measure.ts. */
export interface UnitCosts {
  /** Of cachesvc. CPU in microseconds for a request, and in seconds for a GB of content. */
  readonly cache: {
    readonly hitMicroseconds: number
    readonly hitPerGB: number
    readonly notModifiedMicroseconds: number
    readonly connectionMicroseconds: number
    readonly missMicroseconds: number
    readonly missPerGB: number
    /** CPU seconds to read a new index of so many packages. */
    readonly adoptionPer1000: number
    /** MB when it has worked, with little stored and no client connected. */
    readonly memory: number
    readonly memoryPerConnection: number
    readonly memoryPer1000Files: number
    /** For a thousand packages that an adopted index names. */
    readonly memoryPer1000Packages: number
  }
  /** Of authproxy, likewise; a login is in milliseconds. */
  readonly auth: {
    readonly requestMicroseconds: number
    readonly requestPerGB: number
    readonly loginMilliseconds: number
    readonly memory: number
    readonly memoryPerConnection: number
    /** Bytes that the process grew by for each session that was made. */
    readonly memoryPerSession: number
    /** Bytes of the cookies that a browser sends with each request. */
    readonly cookies: number
  }
}

/** Bytes and counts of the archives, from the indexes of Debian 12 for amd64. */
export interface Archive {
  /** Release files that an update asks for. */
  readonly suites: number
  /** Bytes of the Release files of all suites, and of the indexes of all suites for one architecture, without translations. */
  readonly releases: number
  readonly indexes: number
  /** Translations into English. */
  readonly translations: number
  /** The same of the suite with security updates, which is new on most days. */
  readonly security: { readonly release: number; readonly indexes: number }
  /** Packages that the indexes name. */
  readonly packages: number
  /** Bytes of a package that is installed, and of an update: means. */
  readonly packageBytes: number
  readonly updateBytes: number
}

/** Read on 2026-11-27 from the Release files and indexes of bookworm, bookworm-updates and bookworm-security, main, amd64. */
export const debian: Archive = {
  suites: 3,
  releases: 151_075 + 55_403 + 34_770,
  indexes: 8_790_396 + 6_924 + 379_936,
  translations: 6_107_304 + 5_448 + 238_256,
  security: { release: 34_770, indexes: 379_936 + 238_256 },
  packages: 63_440 + 3_031 + 30,
  // 1,086 installed packages of main: 817.5 MB. 127 updates that a machine of some months needs: 206 MB.
  packageBytes: 753_000,
  updateBytes: 1_622_000,
}

/** A fleet of machines that stay. */
export interface Fleet {
  readonly machines: number
  /** Machines of one kind have the same packages. */
  readonly kinds: number
}

/** What is assumed of machines that stay. */
export const machine = {
  /** apt-daily.timer has two windows of 12 hours a day, and apt updates once a day: in the first window. */
  updateHours: 12,
  /** Packages upgraded on an ordinary day, and on the day of a point release. */
  usualPackages: 1,
  mostPackages: 127,
  /** apt-daily-upgrade.timer: within an hour. */
  upgradeHours: 1,
  /** Packages that all kinds have, and those that one kind has beside them. */
  common: 900,
  own: 300,
  /** Of the packages of the fleet, those that have a new version within a month, and months for which old versions stay. */
  monthly: 0.07,
  months: 6,
} as const

/** CI jobs that begin with an empty image. */
export interface CiFleet {
  readonly jobsPerMinute: number
  /** Packages a job installs, and their bytes: build-essential without recommended packages. */
  readonly packages: number
  readonly bytes: number
  /** Different sets of packages among the jobs. */
  readonly sets: number
}

export const ci: CiFleet = { jobsPerMinute: 60, packages: 75, bytes: 86_590_000, sets: 20 }

/** The busiest minute of an hour has so many times the mean of the hour. */
export const burst = 3

export interface CacheNeeds {
  /** In the busiest hour, means. */
  readonly requestsPerSecond: number
  readonly bytesPerSecond: number
  /** Of one core, in the busiest minute. */
  readonly cores: number
  /** Connections at once, in the busiest minute. */
  readonly connections: number
  /** MB in the busiest minute. */
  readonly memory: number
  /** Bytes of stored files. */
  readonly disk: number
  /** Bytes fetched from archives and sent to clients, on an ordinary day. */
  readonly fetchedDaily: number
  readonly sentDaily: number
  /** Bytes fetched on the busiest day. */
  readonly fetchedMost: number
}

/** Bytes a second at which a client takes a file: 1 Gbit/s. A download of 200 MB holds a connection for about two seconds. */
const clientRate = 125e6
/** Small files in memory and content under way are bounded by limits.memory and limits.transfers; MB. */
const bounded = { small: 64, transfers: 128 }
const GB = 1e9

export function needsOfFleet({ machines, kinds }: Fleet, costs: UnitCosts, archive: Archive) {
  const hour = 3600
  const packages = machine.mostPackages
  const requests = (machines * packages) / (hour * machine.upgradeHours)
  const bytes = requests * archive.updateBytes
  const distinct = machine.common + kinds * machine.own
  const newDaily = (distinct * machine.monthly) / 30
  const newIndexes = archive.security.release + archive.security.indexes
  const update = archive.security.release + newIndexes
  return needs(
    {
      requests,
      bytes,
      seconds: (packages * archive.updateBytes) / clientRate,
      runs: machines / (hour * machine.upgradeHours),
      files: distinct * (1 + machine.monthly * machine.months),
      unchanged: (machines * archive.suites) / (hour * machine.updateHours),
      misses: (distinct * (packages / (machine.common + machine.own))) / hour,
      disk:
        distinct * archive.packageBytes +
        distinct * machine.monthly * machine.months * archive.updateBytes +
        storedIndexes(archive),
      fetchedDaily: newIndexes + newDaily * archive.updateBytes,
      sentDaily: machines * (update + machine.usualPackages * archive.updateBytes),
      fetchedMost:
        archive.indexes +
        archive.translations +
        distinct * (packages / (machine.common + machine.own)) * archive.updateBytes,
    },
    costs,
    archive,
  )
}

export function needsOfCi({ jobsPerMinute, packages, bytes, sets }: CiFleet, costs: UnitCosts) {
  const archive = debian
  const jobs = jobsPerMinute / 60
  const each = { requests: 2 * archive.suites + packages, bytes: bytes + ofUpdate(archive) }
  const distinct = sets * packages
  return needs(
    {
      requests: jobs * each.requests,
      bytes: jobs * each.bytes,
      seconds: each.bytes / clientRate,
      runs: jobs,
      files: distinct,
      unchanged: 0,
      misses: 0,
      disk: sets * bytes * (1 + machine.monthly * machine.months) + storedIndexes(archive),
      fetchedDaily:
        archive.security.release + archive.security.indexes + (sets * bytes * machine.monthly) / 30,
      sentDaily: jobs * 86_400 * each.bytes,
      fetchedMost: sets * bytes + archive.indexes,
    },
    costs,
    archive,
  )
}

/** A container without lists gets every Release file and index whole, and no translations. */
function ofUpdate({ releases, indexes }: Archive): number {
  return releases + indexes
}

/** A month of indexes of the suite that changes, and the three last ones of each suite. */
function storedIndexes({ releases, indexes, translations, security }: Archive): number {
  return 3 * (releases + indexes + translations) + 30 * (security.release + security.indexes)
}

interface Work {
  readonly requests: number
  readonly bytes: number
  /** A client is connected for so long. */
  readonly seconds: number
  /** Runs of apt that begin in a second. */
  readonly runs: number
  readonly files: number
  /** Release files that are asked for in a second and have not changed. */
  readonly unchanged: number
  /** Files that are fetched in a second of the busiest hour. */
  readonly misses: number
  readonly disk: number
  readonly fetchedDaily: number
  readonly sentDaily: number
  readonly fetchedMost: number
}

function needs(work: Work, { cache }: UnitCosts, archive: Archive): CacheNeeds {
  const { requests, bytes, runs, files, misses, disk, fetchedDaily, sentDaily, fetchedMost } = work
  const connections = Math.ceil(burst * runs * Math.max(work.seconds, 1))
  const sending =
    (requests * cache.hitMicroseconds +
      runs * cache.connectionMicroseconds +
      work.unchanged * cache.notModifiedMicroseconds) /
      1e6 +
    (bytes / GB) * cache.hitPerGB
  const fetching =
    (misses * cache.missMicroseconds) / 1e6 +
    ((misses * archive.updateBytes) / GB) * cache.missPerGB
  const memory =
    cache.memory +
    bounded.small +
    Math.min(bounded.transfers, connections) +
    connections * cache.memoryPerConnection +
    (files / 1000) * cache.memoryPer1000Files +
    (archive.packages / 1000) * cache.memoryPer1000Packages
  return {
    requestsPerSecond: requests,
    bytesPerSecond: bytes,
    cores: burst * (sending + fetching),
    connections,
    memory,
    disk,
    fetchedDaily,
    sentDaily,
    fetchedMost,
  }
}

/** What is assumed of the people who work with an application. */
export const person = {
  /** All sign in within an hour of the morning. */
  loginHours: 1,
  /** Of those with a session, who opens pages in the busiest hour. */
  active: 0.3,
  /** Seconds from page to page, requests of a page, and bytes of a response: means. */
  pageSeconds: 60,
  requests: 20,
  responseBytes: 15_000,
} as const

export interface AuthNeeds {
  readonly requestsPerSecond: number
  readonly loginsPerSecond: number
  readonly bytesPerSecond: number
  /** Of one core, in the busiest minute. */
  readonly cores: number
  readonly connections: number
  readonly memory: number
}

/** An instance with so many sessions, in the hour in which all of them were made. */
export function needsOfSessions(sessions: number, costs: UnitCosts): AuthNeeds {
  const requests = (sessions * person.active * person.requests) / person.pageSeconds
  const logins = sessions / (3600 * person.loginHours)
  return needsOfRequests({ requests, logins, sessions }, costs)
}

export function needsOfRequests(
  { requests, logins, sessions }: { requests: number; logins: number; sessions: number },
  { auth }: UnitCosts,
): AuthNeeds {
  const bytes = requests * person.responseBytes
  const cores =
    (requests * auth.requestMicroseconds) / 1e6 +
    (bytes / GB) * auth.requestPerGB +
    (logins * auth.loginMilliseconds) / 1e3
  // A request holds a connection of the edge for a tenth of a second, most of which is the application's.
  const connections = Math.ceil(burst * (requests + logins) * 0.1)
  const remembered = Math.min(bounded.small, (sessions * auth.memoryPerSession) / 1e6)
  return {
    requestsPerSecond: requests,
    loginsPerSecond: logins,
    bytesPerSecond: bytes,
    cores: burst * cores,
    connections,
    memory: auth.memory + remembered + connections * auth.memoryPerConnection,
  }
}
