/**
 * Starts the parts of the service, gives them a new configuration on reload, and stops them in order.
 */
import { randomBytes } from 'node:crypto'
import { type Clock, systemClock } from '../async/clock.ts'
import { BlockPool } from '../bytes/block-pool.ts'
import { type Reload, type Service, type Start, type StopStep, stopStep } from '../daemon.ts'
import type { Lookup } from '../http/client/dialling/name-lookup.ts'
import type { Exchange } from '../http/message/message.ts'
import { accessFacts } from '../http/server/exchanges.ts'
import { requestIds } from '../http/server/live-request.ts'
import { stopTimes, untilLull } from '../http/server/lull.ts'
import type { HttpServerOptions, KeyAndCertificate } from '../http/server/options.ts'
import type { HttpServer } from '../http/server/server.ts'
import type { Log, LogFacts } from '../log/log.ts'
import { packageVersion } from '../package.ts'
import { otherSockets } from '../socket-unit.ts'
import { failureResponse } from './answer/errors.ts'
import { answering } from './answering.ts'
import { type Config, inForce, needRestart } from './config/config.ts'
import { control } from './control/control.ts'
import { originClient, trustedAuthorities } from './fetch/origin-client.ts'
import { connectHandler } from './intercept/connect.ts'
import { Https } from './intercept/https.ts'
import { listen, places, serverLimits, statusLine } from './listening.ts'
import { isOperationsPath } from './operations/paths.ts'
import type { Listener } from './operations/sources.ts'
import { operationsOf } from './operations/wiring.ts'
import { pipeline } from './pipeline.ts'
import { rulesOf } from './policy/policy.ts'
import { newPseudonym } from './pseudonym.ts'
import { Activity } from './stats/activity.ts'
import { StatisticsFile } from './stats/statistics-file.ts'
import { openStore, type Store } from './store/store.ts'
import type { StoreOptions } from './store/wiring.ts'
import { VerificationSchedule } from './verify/schedule.ts'

/** The result of reading the configuration again. */
type Reloaded =
  | { readonly config: Config; readonly warnings?: readonly string[] }
  | { readonly problems: readonly string[] }

export interface ServiceOptions {
  readonly config: Config
  /** What is doubtful about it, for the overview. */
  readonly warnings?: readonly string[]
  readonly log: Log
  readonly start: Start
  readonly reload: () => Promise<Reloaded>
  /** Reloads the whole daemon, for commands that ask for it; this service alone unless told. */
  readonly reloadDaemon?: Reload
  readonly clock?: Clock
  /** The resolver of names, for tests; the system's unless told. */
  readonly lookup?: Lookup
  /** The disk of the store; for tests with failing ones. */
  readonly disk?: StoreOptions['disk']
}

/** The service, where it listens, and whether it has nothing to do. */
export type CacheService = Service & {
  readonly listeners: readonly Listener[]
  /** How many files are being fetched, and how many are not yet whole on disk. */
  readonly working: () => { readonly fetches: number; readonly writes: number }
}

/** How often the addresses of the machine are read again. */
const identityInterval = 60_000

/** Starts the whole service; throws a Failure with one sentence when it cannot. */
export async function startService(options: ServiceOptions): Promise<CacheService> {
  const { config, log, start, clock = systemClock } = options
  // One for origins, store and clients: a piece that came from an origin is the store's to write and to let go.
  const blocks = new BlockPool({ limit: config.limits.transfers })
  const store = await openStore({
    blocks,
    directory: config.cacheDirectory,
    clock,
    log: log.child({ part: 'store' }),
    memory: config.limits.memory,
    ...(options.disk && { disk: options.disk }),
  })
  try {
    return await startWith(store, { ...options, blocks, clock, config, log, start })
  } catch (error) {
    await store.close()
    throw error
  }
}

async function startWith(
  store: Store,
  options: ServiceOptions & {
    readonly blocks: BlockPool
    readonly clock: Clock
  },
): Promise<CacheService> {
  const { log, clock } = options
  const { config: started } = options
  let { config, warnings = [] } = options
  const listeners: Listener[] = []
  const servers: HttpServer[] = []
  const compiled = () =>
    rulesOf(
      config,
      listeners.map(({ port }) => port),
    )
  let current = compiled()
  const rules = () => current
  const { plain, secure } = places(config, options.start.sockets)
  const https = await Https.open({
    rules,
    clock,
    log: log.child({ part: 'https' }),
    secure: secure.length > 0,
  })
  const version = packageVersion()
  const origin = await originClient(config, options)
  const days = await StatisticsFile.open(config.cacheDirectory, {
    clock,
    warn: (sentence, facts) => log.warn(sentence, facts),
  })
  const { statistics } = days
  const pseudonym = newPseudonym()
  /** Addresses of the machine come and go. */
  const refresh = (): void => {
    current = compiled()
    clock.after(identityInterval, refresh)
  }

  const parts = {
    ...{ rules, store, clock, log, origin, pseudonym, version },
    onFetched: (bytes: number): void => {
      statistics.fetched(bytes)
      metrics.fetched(bytes)
    },
  }
  const answers = await answering({
    ...parts,
    disk: options.disk,
    onFailover: () => metrics.count('failover'),
    onImpostor: () => metrics.count('impostor'),
    onNotStored: because => metrics.notStored(because),
    onWrong: failure => metrics.wrongContent(failure.code),
    onAhead: (result, bytes) => metrics.fetchedAhead(result, bytes),
  })
  const { fetcher, negative, suites, ahead } = answers
  store.listen({
    named: entry => suites.stored(entry),
    arriving: ({ entry, kept }) => suites.arriving(entry, kept),
  })
  const verification = await VerificationSchedule.start({
    directory: config.cacheDirectory,
    store,
    clock,
    log: log.child({ part: 'verification' }),
    settings: () => rules().config,
    onWarning: () => metrics.count('verification-warning'),
  })
  const activity = new Activity(clock)
  const { metrics, sources, live, operations } = await operationsOf({
    ...{ ...parts, ...answers, warnings: () => warnings, listeners, servers, https },
    ...{ statistics, activity, verification },
  })
  const handler = pipeline({ ...parts, ...answers, operations })
  const connect = connectHandler({
    ...{ rules, clock, pseudonym, https, dialler: origin.dialler },
    onOpen: () => statistics.tunnel(),
    onBytes: bytes => statistics.tunnelBytes(bytes),
  })
  const serverOptions: HttpServerOptions = {
    handler,
    connect,
    clock,
    requestId: requestIds(randomBytes),
    onFailure: (request, error) => failureResponse(request, error, log),
    onExchange: (exchange, error) => {
      const outcome = exchange.response.facts?.['outcome']
      if (outcome === 'hit') statistics.hit(exchange.sent)
      else if (outcome === 'miss') statistics.miss({ down: 0, up: exchange.sent })
      else if (outcome === 'refused' || outcome === 'failed') statistics.unanswered(outcome)
      metrics.exchange(exchange)
      if (activity.note(exchange)) statistics.problem()
      if (config.log.access) log.info('request', factsWithoutRepeats(exchange))
      if (error !== undefined) log.warn('response broke off', { id: exchange.request.id, error })
    },
    onMalformed: (client, status, problem) => {
      metrics.count('malformed')
      log.info('malformed request', { client: client.address, status, problem })
    },
    limits: serverLimits(config),
    fastPath: true,
  }

  const reidentify = (identity: KeyAndCertificate) => {
    for (const server of servers) server.setIdentity(identity)
  }

  try {
    const tls = secure.length > 0 ? await https.listener(reidentify) : undefined
    await listen({ plain, secure, tls }, serverOptions, { servers, listeners })
  } catch (error) {
    https.stop()
    await verification.close()
    await ahead.close()
    await suites.close()
    await days.close()
    await Promise.all(servers.map(server => server.close(AbortSignal.abort())))
    throw error
  }
  const given = listeners.filter(({ secure }) => !secure)
  const mismatch =
    plain === config.listen ? undefined : otherSockets(given, config.listen, 'cachesvc')
  if (mismatch !== undefined) log.warn(mismatch)
  refresh()
  const retain = ({ retention, expiration, verification }: Config): void => {
    const standing = (digest: string) => suites.standing(digest)
    store.retain({ ...retention, ...expiration, standing })
    store.recheckAfter(verification.maxAge)
  }
  retain(config)

  let pending: readonly string[] = []
  const reload: Reload = async () => {
    const loaded = await options.reload()
    if ('problems' in loaded) return loaded.problems
    const fresh = loaded.config
    warnings = loaded.warnings ?? []
    const certifying = https.interceptor !== undefined
    pending = needRestart(started, fresh, certifying).map(
      setting => `${setting} has changed; it takes effect when the service is restarted`,
    )
    for (const sentence of pending) log.warn(sentence)
    config = inForce(started, fresh, certifying)
    current = compiled()
    retain(config)
    log.setLevel(config.log.level)
    // The system's store may have a new authority.
    try {
      origin.dialler.trust(await trustedAuthorities(config, log))
    } catch (error) {
      log.warn('the authorities of before stay in force', { error })
    }
    return []
  }
  store.answerCommands(
    control({
      ...{ sources, store, negative, updates: answers.updates, rules },
      evict: wrong => verification.evict(wrong),
      reload: options.reloadDaemon ?? reload,
      remarks: () => [...warnings, ...pending],
    }),
  )
  const { announce } = config.mdns ? await import('./announcement.ts') : {}
  const takeBack = announce?.(listeners, log.child({ part: 'mdns' }))
  const { serving, rest } = stopTimes(config.timeouts.drain)
  const lull = (deadline: AbortSignal) => untilLull(transfers, { clock, deadline })
  /** What a stop waits for: not the pages, whose live figures never end. */
  function* transfers() {
    yield* fetcher.underWay()
    for (const server of servers) {
      for (const { request } of server.underWay()) {
        const { target } = request
        if (target.form !== 'origin' || !isOperationsPath(target.path)) yield request
      }
    }
  }
  const stop: readonly StopStep[] = [
    {
      ...stopStep('serve until a lull', serving, signal => {
        for (const server of servers) server.announceEnd()
        return Promise.all([ahead.close(), lull(signal)])
      }),
      serves: true,
    },
    stopStep('take the announcement back', 2000, async () => takeBack?.()),
    stopStep('end the live figures', 1000, async () => live.close()),
    stopStep('finish what clients are being sent', rest, signal =>
      Promise.all(servers.map(server => server.close(signal))),
    ),
    stopStep('finish what is being fetched', rest, async signal => {
      await Promise.all([ahead.close(), fetcher.close(signal)])
    }),
    stopStep('break off a verification', 5000, () => {
      store.answerCommands(undefined)
      return verification.close()
    }),
    stopStep('break off the reading of indexes', 5000, () => suites.close()),
    stopStep('close connections to origins', 5000, () => origin.close()),
    stopStep('stop the timers of HTTPS', 1000, async () => https.stop()),
    stopStep('write the statistics', 5000, () => days.close()),
    stopStep('close the store', 10_000, () => store.close()),
  ]
  const working = () => ({ fetches: fetcher.count, writes: store.writing })
  return { status: statusLine(listeners, config), stop, reload, listeners, working }
}

/** Facts of a request for the log. The key of a file is left out where it is what the client wrote: that is most of the lines. */
function factsWithoutRepeats(exchange: Exchange): LogFacts {
  const facts = accessFacts(exchange)
  if (facts['key'] === facts['target']) facts['key'] = undefined
  return facts
}
