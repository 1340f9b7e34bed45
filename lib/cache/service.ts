/**
 * Starts the parts of the service, gives them a new configuration on reload, and stops them in order. It counts what their events
 * report in the statistics of the days, the metrics, the activity on the pages, and the log.
 */
import { randomBytes } from 'node:crypto'
import type { RequestHandler } from '../admin-socket.ts'
import { type Clock, type Milliseconds, systemClock } from '../async/clock.ts'
import { BlockPool } from '../bytes/block-pool.ts'
import { type Reload, type Service, type Start, type StopStep, stopStep } from '../daemon.ts'
import { Failure } from '../errors.ts'
import type { OriginClient } from '../http/client/client.ts'
import type { Lookup } from '../http/client/dialling/name-lookup.ts'
import type { Exchange } from '../http/message/message.ts'
import { Clients } from '../http/server/clients.ts'
import { requestIds } from '../http/server/connections.ts'
import { accessFacts } from '../http/server/exchanges.ts'
import { otherSockets } from '../http/server/listen.ts'
import { stopTimes, untilLull } from '../http/server/lull.ts'
import type { HttpServerOptions, TlsOptions } from '../http/server/options.ts'
import type { Log, LogFacts } from '../log/log.ts'
import { packageVersion } from '../package.ts'
import { recentEntries } from '../recent.ts'
import { newPseudonym } from './answer/answerer.ts'
import { connectHandler } from './answer/connect.ts'
import { failureResponse } from './answer/errors.ts'
import { type AnswerParts, makeAnswerParts } from './answering.ts'
import { control } from './control/control.ts'
import { SentCredentials } from './decide/sent-credentials.ts'
import type { Feature } from './features/feature.ts'
import { type JoinedFeatures, joinFeatures, openFeatures } from './features/join.ts'
import { features } from './features.ts'
import { originClient, trustedAuthorities } from './fetch/origin-client.ts'
import { OpenListeners, places, serverLimits, statusLine } from './listening.ts'
import type { LiveEvents } from './operations/live.ts'
import { CacheMetrics } from './operations/metrics.ts'
import type { Listener, OperationsSources } from './operations/sources.ts'
import { pipeline } from './pipeline.ts'
import { limitsOfClient } from './policy/policy.ts'
import { operationsOf } from './reporting.ts'
import { type LoadedConfig, RulesInForce } from './rules-in-force.ts'
import { Activity } from './stats/activity.ts'
import type { Statistics } from './stats/statistics.ts'
import { StatisticsFile } from './stats/statistics-file.ts'
import { openStore, type Store } from './store/store.ts'
import type { StoreOptions } from './store/wiring.ts'
import { UnreferencedPackages } from './suites/unreferenced.ts'

/** The result of reading the configuration again. */
type Reloaded = LoadedConfig | { readonly problems: readonly string[] }

export interface ServiceOptions extends LoadedConfig {
  readonly log: Log
  readonly start: Start
  readonly reload: () => Promise<Reloaded>
  /** Reloads the whole daemon when a command asks for a reload. Without it a command reloads this service alone. */
  readonly reloadDaemon?: Reload
  readonly clock?: Clock
  /** The resolver of names, for tests. The default is the system's. */
  readonly lookup?: Lookup
  /** The disk of the store, for tests with disks that fail. */
  readonly disk?: StoreOptions['disk']
  /** The features, for tests. The default is all of them. */
  readonly features?: readonly Feature[]
}

/** A running service, its listeners, and its work under way. */
export type CacheService = Service & {
  readonly listeners: readonly Listener[]
  /**
   * The number of files that are being fetched, of those that are not yet complete on disk, of suites that are being adopted, and of jobs
   * of the thread that reads indexes.
   */
  readonly working: () => {
    readonly fetches: number
    readonly writes: number
    readonly adoptions: number
    readonly jobs: number
  }
  /** Resolves once nothing is being fetched and all fetched files are complete on disk. */
  readonly idle: () => Promise<void>
  /** What a request would get now, and why. */
  readonly explain: OperationsSources['explain']
  /** Answers commands, as the admin socket does. */
  readonly answer: RequestHandler
}

/** The options, and the parts that are open before the rest of the service is made. */
interface OpenParts extends ServiceOptions {
  readonly store: Store
  readonly blocks: BlockPool
  readonly clock: Clock
}

/** Starts the whole service. Throws a Failure with one sentence when it cannot. */
export async function startService(options: ServiceOptions): Promise<CacheService> {
  const { config, log, clock = systemClock } = options
  // Origins, store and clients share one pool, because the store writes and frees the pieces that the origin connections filled.
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
    return await startWith({ ...options, store, blocks, clock })
  } catch (error) {
    await store.close()
    throw error
  }
}

/** Makes each part with parts that were made before it, then opens the listeners. */
async function startWith(options: OpenParts): Promise<CacheService> {
  const { config, log, clock, store } = options
  const where = places(config, options.start.sockets)
  const listening = new OpenListeners()
  const secure = where.secure.length > 0
  const settings = new RulesInForce(options, { listening, clock, secure })
  const rules = settings.current
  const origin = await originClient(config, { ...options, rules })
  const days = await StatisticsFile.open(config.cacheDirectory, {
    clock,
    warn: (sentence, facts) => log.warn(sentence, facts),
  })

  // These parts count.
  const { statistics } = days
  const activity = new Activity(clock)
  const metrics = new CacheMetrics()
  const counted = { log, settings, statistics, metrics, activity }

  // These parts answer requests.
  const pseudonym = newPseudonym()
  const version = packageVersion()
  const events = fetchEvents(counted)
  const parts = { rules, store, clock, log, origin, pseudonym, version, ...events }
  const credentials = () => settings.credentials
  for (const sentence of credentials().warnings) log.warn(sentence)
  const { disk } = options
  const ground = {
    rules,
    credentials,
    store,
    clock,
    log,
    blocks: options.blocks,
    lookup: options.lookup,
    metrics: metrics.registry,
    secure,
    pseudonym,
    cacheDirectory: config.cacheDirectory,
  }
  const openedFeatures = await openFeatures(options.features ?? features, ground)
  const answers = await makeAnswerParts({ ...parts, disk, credentials, features: openedFeatures })
  const { suites, fetcher, updates } = answers
  store.listen({
    named: entry => suites.stored(entry),
    arriving: ({ entry, kept }) => suites.arriving(entry, kept),
  })
  const joined = await joinFeatures(openedFeatures, { ...ground, origin, fetcher, suites, updates })
  answers.adoptedListeners.push(joined.adopted)
  const unreferenced = await UnreferencedPackages.start({
    cacheDirectory: config.cacheDirectory,
    store,
    suites,
    clock,
    log: log.child({ part: 'store' }),
    stays: joined.keeps,
    after: () => settings.config.retention.unreferenced,
    onRemoved: bytes => metrics.removedUnreferenced(bytes),
  })
  const warnings = () => settings.warnings
  const clients = new Clients({
    clock,
    limitsOf: address => limitsOfClient(address, rules()),
    onTooMany: onTooManyConnections(counted, clock),
  })
  const watched = { ...counted, listening, clients, warnings, joined }
  const sentCredentials = new SentCredentials(clock)
  const pages = await operationsOf({
    ...parts,
    ...answers,
    around: joined.step,
    refuse: joined.refuse,
    sentCredentials,
    unreferenced,
    ...watched,
  })
  const handler = pipeline({
    ...parts,
    ...answers,
    around: joined.step,
    refuse: joined.refuse,
    sentCredentials,
    operations: pages.operations,
  })
  const connect = connectHandler({
    rules,
    clock,
    pseudonym,
    interceptTunnel: joined.interception.interceptTunnel,
    refuseTunnel: joined.refuseTunnel,
    dialler: origin.dialler,
    onOpen: () => statistics.tunnel(),
    onBytes: bytes => statistics.tunnelBytes(bytes),
  })

  // The listeners open last, when all parts that answer are made.
  const running = {
    ...options,
    ...answers,
    unreferenced,
    listening,
    settings,
    origin,
    days,
    joined,
    live: pages.live,
  }
  try {
    const tls = secure ? await tlsListener(joined, listening) : undefined
    const server: HttpServerOptions = {
      ...serverEvents(counted, joined),
      handler,
      connect,
      clock,
      requestId: requestIds(randomBytes),
      onFailure: (request, error) => failureResponse(request, error, log),
      limits: serverLimits(config),
      fastPath: true,
      introduces: address => rules().policy.balancers.has(address),
      clients,
    }
    await listening.open(where, server, tls)
  } catch (error) {
    // A start that failed serves no client until a lull.
    const steps = stopSteps(running, undefined)
    for (const step of steps.filter(({ serves }) => !serves)) await step.stop()
    throw error
  }
  const { listeners } = listening
  const given = listeners.filter(({ secure }) => !secure)
  const mismatch =
    where.plain === config.listen ? undefined : otherSockets(given, config.listen, 'cachesvc')
  if (mismatch !== undefined) log.warn(mismatch)
  settings.refresh()
  retain(running)
  const reload: Reload = givenUp => reloadSettings(running, givenUp)
  const answer = control({
    sources: pages.sources,
    store,
    negative: answers.negative,
    retention: { clock, store, unreferenced },
    suites,
    updates: answers.updates,
    rules,
    features: joined.answers,
    reload: options.reloadDaemon ?? reload,
    remarks: () => settings.warnings,
  })
  store.answerCommands(answer)
  const { announce } = config.mdns ? await import('./announcement.ts') : {}
  const takeBack = announce?.(listeners, log.child({ part: 'mdns' }))
  const stop = stopSteps(running, takeBack)
  const working = () => ({
    fetches: answers.fetcher.count,
    writes: store.writing,
    adoptions: suites.adoptions.count,
    jobs: suites.adoptions.jobs,
  })
  const idle = async () => {
    while (answers.fetcher.count > 0 || store.writing > 0) {
      await answers.fetcher.idle()
      await store.idle()
    }
  }
  const { explain } = pages.sources
  const status = statusLine(listeners, config)
  return { status, stop, reload, listeners, working, idle, explain, answer }
}

/** The parts that a reload changes and a stop ends. */
interface RunningParts extends OpenParts, Pick<AnswerParts, 'fetcher' | 'suites'> {
  readonly unreferenced: UnreferencedPackages
  readonly listening: OpenListeners
  readonly settings: RulesInForce
  readonly origin: OriginClient
  readonly days: StatisticsFile
  readonly joined: JoinedFeatures
  readonly live: LiveEvents
}

/** The identity of the listener for TLS. Throws a Failure when no feature makes certificates. */
function tlsListener(
  { interception: { tlsListener } }: JoinedFeatures,
  listening: OpenListeners,
): Promise<TlsOptions> {
  if (tlsListener !== undefined) return tlsListener(next => listening.setIdentity(next))
  throw new Failure('This cachesvc makes no certificates, so it cannot listen for TLS.', {
    code: 'no-tls',
  })
}

/** Gives the store the rules of retention and of new checks. */
function retain({ store, settings, suites, joined }: RunningParts): void {
  const { retention, expiration, verification } = settings.config
  const standing = (digest: string) => (joined.keeps(digest) ? 'recorded' : suites.standing(digest))
  store.retain({ ...retention, ...expiration, standing })
  store.recheckAfter(verification.maxAge)
}

/** Reads the configuration again, as `Reload` says. What waits for files comes first, so that all settings take effect in one moment. */
async function reloadSettings(
  parts: RunningParts,
  givenUp: AbortSignal | undefined,
): Promise<readonly string[]> {
  const { settings, log, origin } = parts
  const loaded = await parts.reload()
  if ('problems' in loaded) return loaded.problems
  // `https.origin_ca` may have changed, and the system may trust other authorities now.
  const trusted = await trustedAuthorities(loaded.config, log).catch(error => {
    log.warn('the earlier authorities stay in force', { error })
    return undefined
  })
  givenUp?.throwIfAborted()
  try {
    settings.replace(loaded)
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    return [error.message]
  }
  for (const sentence of settings.pending) log.warn(sentence)
  retain(parts)
  parts.suites.reconfigured()
  log.setLevel(settings.config.log.level)
  if (trusted === undefined) return []
  origin.dialler.trust(trusted)
  for (const problem of parts.joined.reload(trusted)) log.warn(problem)
  return []
}

/**
 * The steps of stopping, in their order: first the parts that clients see, then the parts those need. They also end the parts that run
 * already when a listener does not open.
 */
function stopSteps(
  parts: RunningParts,
  takeBack: (() => Promise<void>) | undefined,
): readonly StopStep[] {
  const { listening, settings, clock, store, fetcher, suites, joined } = parts
  const { origin, days, live } = parts
  const { serving, rest } = stopTimes(settings.config.timeouts.drain)
  function* transfers() {
    yield* fetcher.underWay()
    yield* listening.transfers()
  }
  return [
    {
      ...stopStep('serve until a lull', serving, deadline => {
        listening.announceEnd()
        return Promise.all([joined.quiet(), untilLull(transfers, { clock, deadline })])
      }),
      serves: true,
    },
    stopStep('take the announcement back', 2000, async () => takeBack?.()),
    stopStep('end the live figures', 1000, async () => live.close()),
    stopStep('finish what clients are being sent', rest, signal => listening.close(signal)),
    stopStep('finish what is being fetched', rest, async signal => {
      await Promise.all([joined.quiet(), fetcher.close(signal)])
    }),
    stopStep('stop answering commands', 5000, async () => {
      store.answerCommands(undefined)
      await parts.unreferenced.close()
    }),
    ...joined.stops('work'),
    stopStep('break off the reading of indexes', 5000, async () => {
      await suites.close()
    }),
    stopStep('close connections to origins', 5000, () => origin.close()),
    ...joined.stops('last'),
    stopStep('write the statistics', 5000, () => days.close()),
    stopStep('close the store', 10_000, () => store.close()),
  ]
}

interface CountingParts {
  readonly log: Log
  readonly settings: RulesInForce
  readonly statistics: Statistics
  readonly metrics: CacheMetrics
  readonly activity: Activity
}

function fetchEvents({ statistics, metrics }: CountingParts) {
  return {
    onFetched: (bytes: number): void => {
      statistics.fetched(bytes)
      metrics.fetched.add({}, bytes)
    },
    onFailover: (): void => metrics.count('failover'),
    onImpostor: (): void => metrics.count('impostor'),
    onNotStored: (because: string): void => metrics.notStored.add({ because }),
    onWrong: ({ code }: Failure): void => metrics.wrongContent.add({ code }),
  }
}

function serverEvents(
  { log, settings, statistics, metrics, activity }: CountingParts,
  { answered }: Pick<JoinedFeatures, 'answered'>,
): Pick<HttpServerOptions, 'onExchange' | 'onMalformed'> {
  return {
    onExchange: (exchange, error) => {
      const outcome = exchange.response.facts?.['outcome']
      if (outcome === 'hit') statistics.hit(exchange.sent)
      else if (outcome === 'miss') statistics.miss(exchange.sent)
      else if (outcome === 'refused' || outcome === 'failed') statistics.unanswered(outcome)
      metrics.exchange(exchange)
      if (exchange.request.slowClient) metrics.count('slow')
      if (activity.note(exchange)) statistics.problem()
      for (const note of answered) note(exchange)
      if (settings.config.log.access) log.info('request', factsWithoutRepeats(exchange))
      if (error !== undefined) log.warn('response broke off', { id: exchange.request.id, error })
    },
    onMalformed: (client, status, problem) => {
      metrics.count('malformed')
      log.info('malformed request', { client: client.address, status, problem })
    },
  }
}

/** The shortest time between two log lines about one client that has too many connections. */
const pause: Milliseconds = 60_000
/** The most clients for which the moment of the last line is remembered. */
const mostNoted = 256

/** The handler for a connection beyond the limit of its client. It logs at most one line a minute for each client. */
function onTooManyConnections(
  { log, settings, metrics }: CountingParts,
  clock: Clock,
): (client: string) => void {
  const noted = recentEntries<string, Milliseconds>(mostNoted)
  return client => {
    metrics.count('beyond-limit')
    const now = clock.elapsed()
    if (now < (noted.get(client) ?? Number.NEGATIVE_INFINITY) + pause) return
    noted.set(client, now)
    const most = settings.config.limits.perClient.connections
    log.warn('a client has more connections than allowed', { client, most })
  }
}

/** Facts of a request for the log. They leave out a key that equals the target, as it does in most lines. */
function factsWithoutRepeats(exchange: Exchange): LogFacts {
  const facts = accessFacts(exchange)
  if (facts['key'] === facts['target']) facts['key'] = undefined
  return facts
}
