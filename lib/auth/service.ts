/**
 * Starts the parts of one instance, gives them a new configuration on reload, and stops them in order.
 */
import { randomBytes } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import { type Property, takeOwnership } from '../admin-socket.ts'
import { type Clock, type Milliseconds, systemClock } from '../async/clock.ts'
import { type Reload, type Service, type Start, type StopStep, stopStep } from '../daemon.ts'
import type { Exchange, Request } from '../http/message/message.ts'
import { textResponse } from '../http/message/reply.ts'
import { formatAuthority } from '../http/message/target.ts'
import { traceIdOf } from '../http/message/trace-context.ts'
import { requestIds } from '../http/server/connections.ts'
import { accessFacts } from '../http/server/exchanges.ts'
import { otherSockets, startListening } from '../http/server/listen.ts'
import { stopTimes, untilLull } from '../http/server/lull.ts'
import type { HttpServerLimits } from '../http/server/options.ts'
import { methodNotAllowed } from '../http/server/router.ts'
import { HttpServer } from '../http/server/server.ts'
import type { Log } from '../log/log.ts'
import type { InheritedSocket } from '../systemd.ts'
import { newInstanceId } from './access/instance-id.ts'
import type { CutReason, OutcomeFacts } from './access/outcome.ts'
import { placeOf, type RequestHead } from './access/own-origin.ts'
import { admin } from './admin.ts'
import { Backend } from './backend/backend.ts'
import { watchBackendCredential } from './backend/backend-credential.ts'
import { watchClientIdentity } from './backend/client-identity.ts'
import type { Config } from './config/config.ts'
import type { CheckAddress } from './config/setting-forward-auth.ts'
import { control } from './control.ts'
import { listenForChecks, openTokens, shareState } from './features.ts'
import { passesAgain } from './gate/gate.ts'
import { IdentityTokens, tokenKeys } from './identity/identity-token.ts'
import { SessionIdentity } from './identity/session-identity.ts'
import type { KeyMakingOptions } from './keys/dynamic-config.ts'
import { cannotSave, lockOf } from './keys/dynamic-file.ts'
import { KeyRing } from './keys/key-ring.ts'
import { loginCookies } from './login/cookies.ts'
import { formReader } from './login/resubmission.ts'
import { type CreateSamlService, createSamlService } from './login/service.ts'
import { AuthMetrics } from './metrics.ts'
import { errorResponse, failurePageMaker } from './pages/failure-page.ts'
import { FailureRecords, failuresFile } from './pages/failure-records.ts'
import { isKeyPath, keySetHandler, loginScriptHandler, ownDocument } from './pages/own-document.ts'
import { pageMaker } from './pages/page.ts'
import { answer, type PipelineParts } from './pipeline.ts'
import { probeAnswerer } from './probe/probe.ts'
import { RulesInForce } from './rules-in-force.ts'
import { endWithSessions } from './session/ending.ts'
import { RevocationList, revocationsPath } from './session/revocation.ts'
import { Sessions, userHash } from './session/sessions.ts'
import { type ReadSession, SessionTokens } from './session/token.ts'

export interface ServiceOptions {
  readonly config: Config
  readonly log: Log
  readonly start: Start
  /** Reads the configuration again, or answers its problems. */
  readonly reload: () => Promise<
    { readonly config: Config } | { readonly problems: readonly string[] }
  >
  /** The SAML service of tests that need no identity provider. */
  readonly createSaml?: CreateSamlService
  /** Reloads the whole daemon, for commands that ask for it; by default this service alone. */
  readonly reloadDaemon?: Reload
  /** The command that failure pages name for a reference; by default that of an installed instance. */
  readonly explainCommand?: (reference: string) => string
  readonly clock?: Clock
  readonly random?: (size: number) => Buffer
  /** Makes the key pair for SAML where there is no dynamic file yet. */
  readonly makePair?: KeyMakingOptions['makePair']
}

/** A running instance, and its addresses. */
export interface AuthService extends Service {
  readonly port: number
  readonly adminPort: number | undefined
  /** The address for checks of an edge; undefined when there is none. */
  readonly checks: CheckAddress | undefined
}

/** Starts an instance; throws a Failure with one sentence when it cannot. */
export async function startService(options: ServiceOptions): Promise<AuthService> {
  /** The steps that stop the started parts. The last started part stops first. */
  const stop: StopStep[] = []
  try {
    return await start(options, stop)
  } catch (error) {
    for (const step of stop) await step.stop().catch(() => undefined)
    throw error
  }
}

/** The dynamic configuration and the files beside it are locked, because two instances would overwrite each other's. */
function propertyOf({ configPath }: Config): Property {
  return {
    ...lockOf(configPath),
    name: `dynamic configuration ${configPath}`,
    mend: 'give each instance a `configPath` of its own',
  }
}

/** What the parts of an instance share apart from its settings. */
function toolsOf(options: ServiceOptions) {
  const { clock = systemClock, log, random = randomBytes } = options
  const closing = new AbortController()
  // Every WebSocket and event stream adds a listener, so their number is not limited.
  setMaxListeners(0, closing.signal)
  return {
    clock,
    log,
    random,
    instanceId: newInstanceId(random),
    /** Fires when WebSockets and event streams are to end. */
    closing,
    /** The requests of WebSockets and event streams. A stop does not wait for them. */
    endless: new WeakSet<object>(),
    /** Whether a stop has begun. */
    stopping: false,
  }
}

type Tools = ReturnType<typeof toolsOf>

/** The state, the parts and the listeners are made in this order. Each step adds what stops it, in front of the steps before it. */
async function start(options: ServiceOptions, stop: StopStep[]): Promise<AuthService> {
  const { config, log } = options
  const tools = toolsOf(options)
  const state = await openState(options, tools, stop)
  const parts = await makeParts(options, { tools, state }, stop)
  const listeners = await makeListeners(config, { tools, state, parts }, stop)
  const listens = await listeners.listen(options.start.sockets)

  const { rules, inForce, keys, owned, records, shared } = state
  const { saml, sessions, problems, remarks } = parts
  const reload: Reload = async givenUp => {
    const again = await options.reload()
    if ('problems' in again) return again.problems
    await keys.check()
    await inForce.replace(again.config, givenUp)
    await saml.checkMetadataFile()
    if (rules().waiting.length > 0) {
      log.warn('these settings wait for a restart', { settings: rules().waiting.join(', ') })
    }
    log.setLevel(rules().config.log.level)
    listeners.rulesChanged()
    return []
  }
  owned.answer(
    control({
      config: () => rules().config,
      started: tools.clock.now(),
      listening: listens,
      problems,
      waiting: () => rules().waiting,
      remarks,
      sharedFailures: async () => (await shared?.failures()) ?? [],
      readings: () => saml.readings(),
      counts: listeners.counts,
      reload: options.reloadDaemon ?? reload,
      endUser: user => sessions.endUser(user),
      failures: () => records.all(),
      log,
    }),
  )
  return {
    port: listens.main.port,
    adminPort: listens.admin?.port,
    checks: listens.checks,
    get status() {
      const { instance, baseUrl, target } = rules().config
      const to = `${target.scheme}://${formatAuthority(target, target.scheme)}`
      const at = formatAuthority({ host: listens.main.address, port: listens.main.port })
      return `${instance}: listening on ${at} for ${baseUrl}, forwarding to ${to}`
    },
    reload,
    stop,
  }
}

/** Opens what outlives requests: keys and files, the rules in force, ended sessions, and what instances share. */
async function openState(
  { config, makePair }: ServiceOptions,
  { clock, log, random, instanceId, closing, endless }: Tools,
  stop: StopStep[],
) {
  const tools = { clock, log }
  const keys = await KeyRing.open({
    path: config.sharedKeys ?? config.configPath,
    shared: config.sharedKeys !== undefined,
    entityId: config.saml.entityId,
    domain: config.domain,
    clock,
    random,
    log: log.child({ part: 'keys' }),
    ...(makePair === undefined ? {} : { makePair }),
  })
  stop.unshift(stopStep('keep the keys', 2000, () => keys.close()))
  const owned = await takeOwnership(propertyOf(config), tools).catch((error: unknown) => {
    throw cannotSave(config.configPath, error)
  })
  stop.push(stopStep('let the dynamic configuration go', 2000, () => owned.release()))
  const inForce = await RulesInForce.open(config, {
    ...tools,
    partsOf: from => {
      const signed = new IdentityTokens({ keys, clock, config: from })
      const identity = new SessionIdentity({ config: from, tokens: signed })
      const life = { closing: closing.signal, endless }
      return { identity, backend: new Backend({ config: from, clock, instanceId, ...life }) }
    },
  })
  const rules = inForce.current
  stop.unshift(stopStep('end the watch of names of groups', 2000, () => inForce.close()))
  const records = await FailureRecords.open({ ...tools, path: failuresFile(config.configPath) })
  stop.unshift(stopStep('keep the last failures', 2000, () => records.flush()))
  const revocations = config.session.revocation
    ? await RevocationList.open({
        ...tools,
        path: revocationsPath(config.configPath),
        lifetime: () => {
          const now = rules().config
          return Math.max(now.session.lifetime, now.tokens.longest ?? 0)
        },
      })
    : undefined
  stop.unshift(stopStep('keep ended sessions', 2000, async () => revocations?.close()))
  const shared = await shareState(config, { ...tools, revocations })
  stop.unshift(stopStep('leave the shared store', 2000, async () => shared?.close()))
  const ended = shared?.revocations ?? revocations
  const made = { ...tools, config: () => rules().config, keys, shared, random }
  const tokens = await openTokens(config, { ...made, revocations: ended })
  stop.unshift(stopStep('keep the record of tokens', 2000, async () => tokens?.close()))
  return { keys, owned, inForce, rules, records, ended, shared, tokens }
}

type State = Awaited<ReturnType<typeof openState>>

/** Makes what answers requests: pages, sessions, logins, and the steps of the pipeline. */
async function makeParts(
  options: ServiceOptions,
  { tools, state }: { readonly tools: Tools; readonly state: State },
  stop: StopStep[],
) {
  const { config, createSaml = createSamlService } = options
  const explainCommand = options.explainCommand ?? usualExplainCommand(config)
  const { clock, log, random, instanceId } = tools
  const { keys, inForce, rules, records, ended, shared, tokens } = state
  const clientAddress = (request: RequestHead) => rules().backend.client(request).address
  const page = pageMaker(random, () => rules().brand)
  const cookies = loginCookies({ keys, clock, random, config: () => rules().config.saml })
  const failurePage = failurePageMaker({
    ...{ clock, log, page, explainCommand, clientAddress },
    records: {
      add: record => {
        const kept = records.add(record)
        shared?.keepFailure(kept)
      },
    },
    sender: request => {
      const { owner, state } = cookies(request)
      if (owner !== undefined) return 'user'
      return state.cookieState === 'state' ? 'login' : 'other'
    },
  })
  const sessions = new Sessions({
    ...{ clock, log, random, failurePage },
    config: () => rules().config,
    tokens: new SessionTokens({ keys, clock, entityId: config.saml.entityId }),
    revocations: ended,
    groupTable: () => rules().groupNames?.table,
    tellLogin: login => {
      shared?.revocations?.tellLogin(login)
      tokens?.noteLogin(login)
    },
  })
  shared?.revocations?.whenLoggedIn(login => sessions.noteLogin(login))
  const metrics = new AuthMetrics()
  const given = { keys, sessions, cookies, failurePage, page, clock, random, clientAddress, shared }
  const saml = await createSaml({
    ...given,
    config: () => rules().config.saml,
    log: log.child({ part: 'saml' }),
    count: code => metrics.login(code),
  })
  await keys.begin()
  stop.unshift(stopStep('end logins', 3000, () => saml.close()))
  stop.unshift(stopStep('close connections to the backend', 2000, () => rules().backend.close()))
  const common = {
    clock,
    requestId: requestIds(random),
    onMalformed: (client: { address: string }, status: number, problem: string) =>
      log.info('malformed request', { client: client.address, status, problem }),
  }
  const judging = { rules, saml, sessions, failurePage, instanceId, clock }
  const front = tokens?.front(sessions, page)
  const checks = await listenForChecks(config, {
    ...{ ...judging, proof: front?.proof, keys, log, metrics },
    server: { ...common, limits: limitsOf(config) },
  })
  const checkOf = (nonce: string) => checks?.checkOf(nonce)
  const steps: PipelineParts = {
    ...{ ...judging, page, tokens: front },
    probe: probeAnswerer({ ...given, saml, rules, instanceId, checkOf }),
    documents: {
      'key-set': keySetHandler(() => tokenKeys(keys, rules().config.identityToken)),
      logo: ownDocument(() => rules().brand.logo),
      'login-script': loginScriptHandler(),
    },
    readForm: formReader(clock),
  }
  const problems = () => [
    ...(tools.stopping || tools.closing.signal.aborted ? ['the service stops'] : []),
    ...saml.problems(),
  ]
  const remarks = () =>
    [rules().groupNames?.problem, inForce.remark(), saml.remark(), shared?.remark()].filter(
      problem => problem !== undefined,
    )
  const answering = { saml, sessions, failurePage, clientAddress, steps, common, checks }
  return { ...answering, metrics, problems, remarks }
}

type Parts = Awaited<ReturnType<typeof makeParts>>

/** The command that failure pages name for a reference. */
function usualExplainCommand({ instance }: Config): (reference: string) => string {
  return reference => `sudo -u authproxy authproxy explain ${reference} ${instance}`
}

/** Makes the servers, and what looks at their exchanges: log, metrics, and the ends of sessions. */
async function makeListeners(
  config: Config,
  { tools, state, parts }: { readonly tools: Tools; readonly state: State; readonly parts: Parts },
  stop: StopStep[],
) {
  const { clock, log, instanceId, closing, endless } = tools
  const { rules, keys, shared } = state
  const { saml, sessions, failurePage, clientAddress, metrics, steps, problems, remarks } = parts
  /** The reasons why exchanges that were under way have been cut. */
  const cuts = new WeakMap<object, CutReason>()
  const { common, checks } = parts
  let tunnels = 0
  const adminServer = new HttpServer({
    ...common,
    handler: admin({
      problems,
      remarks,
      metrics,
      isKeyPath: path => isKeyPath(path, rules().config.identityToken),
      identityKeys: () => tokenKeys(keys, rules().config.identityToken),
    }),
    connect: async () => methodNotAllowed(['GET', 'HEAD']),
    onFailure: () => textResponse(500, 'something went wrong'),
    onExchange: () => undefined,
    limits: { ...limitsOf(config), head: 16_384, connections: 100 },
  })
  // Closed after the public listener: the edge forwards requests for as long as their checks are answered.
  stop.unshift(
    stopStep('close the listener for checks', 1000, async deadline => checks?.close(deadline)),
  )
  // Closed after the public listener: until then /readyz answers that the service stops.
  stop.unshift(stopStep('close the admin listener', 1000, deadline => adminServer.close(deadline)))
  const handle = (request: Request) => answer(request, steps)
  const main = new HttpServer({
    ...common,
    handler: handle,
    connect: async request => handle(request),
    upgrade: async (request, socket, head) => {
      tunnels += 1
      try {
        return await answer(request, steps, { socket, head })
      } finally {
        tunnels -= 1
      }
    },
    onFailure: (request, error) => errorResponse(request, error, failurePage),
    onExchange: (whole, error) => {
      const cut = cuts.get(whole.request)
      const exchange = cut === undefined ? whole : cutExchange(whole, cut)
      metrics.exchange(exchange)
      if (rules().config.log.access) {
        const facts = accessFacts(exchange)
        facts['trace'] = traceIdOf(exchange.request.fields)
        log.info('request', facts)
      }
      if (error === undefined || closing.signal.aborted) return
      const about = { category: 'PROXY-ERROR', code: 'response_broke_off' }
      log.warn('PROXY-ERROR response_broke_off', { ...about, id: exchange.request.id, error })
    },
    limits: limitsOf(config),
    fastPath: true,
    introduces: address => rules().config.proxyProtocol && rules().backend.trusts(address),
  })

  const backend = () => rules().backend.counts()
  metrics.read({
    client_connections: () => main.connections,
    websockets: () => tunnels,
    backend_connections_busy: () => backend().busy,
    backend_connections_lasting: () => backend().lasting,
    backend_connections_free: () => backend().free,
    backend_connections_bound: () => backend().bound,
    backend_requests_waiting: () => backend().waiting,
    idp_metadata_fetched_seconds: () => secondsOf(saml.readings().metadataFetched),
    idp_metadata_valid_until_seconds: () => secondsOf(saml.readings().metadataValidUntil),
    idp_certificate_ends_seconds: () => secondsOf(saml.readings().idpCertificateEnds),
    own_certificate_ends_seconds: () => secondsOf(saml.readings().ownCertificateEnds),
    shared_store_here: () => (shared?.link === 'here' ? 1 : 0),
    shared_store_waiting: () => shared?.revocations?.waitingCount ?? 0,
    shared_store_unanswered_total: () => shared?.unanswered ?? 0,
    shared_store_evicts: () => (shared?.evicts === true ? 1 : 0),
    group_names_outdated: () => (rules().groupNames?.problem === undefined ? 0 : 1),
  })
  const ending = endWithSessions({
    ...{ clock, log },
    lasting: () => main.underWay(),
    noteCut: (request, because) => cuts.set(request, because),
    ...endings({ rules, sessions, clientAddress, instanceId }),
  })
  shared?.revocations?.whenEnded(ending.lookNow)
  for (const watch of [watchClientIdentity, watchBackendCredential]) {
    const endWatch = watch(clock, { log, rules })
    stop.unshift(stopStep('stop watching files for the backend', 1000, async () => endWatch()))
  }
  const { serving, rest } = stopTimes(config.timeouts.drain)
  stop.unshift(
    stopStep('end WebSockets and event streams, finish running requests', rest, deadline => {
      closing.abort()
      return main.close(deadline).finally(ending.stop)
    }),
  )
  function* transfers() {
    for (const { request } of main.underWay()) if (!endless.has(request)) yield request
  }
  stop.unshift({
    ...stopStep('serve until a lull', serving, deadline => {
      tools.stopping = true
      main.announceEnd()
      checks?.announceEnd()
      return untilLull(transfers, { clock, deadline })
    }),
    serves: true,
  })
  return {
    listen: (sockets: readonly InheritedSocket[]) =>
      listenAll({ config, log, main, adminServer, checks }, sockets),
    counts: () => ({ clients: main.connections, websockets: tunnels }),
    rulesChanged: () => ending.rulesChanged(),
  }
}

/** A moment for a metric: seconds since the epoch, 0 when it is unknown. */
function secondsOf(moment: Milliseconds = 0): number {
  return moment / 1000
}

/**
 * An exchange that this service has cut, for the log and the metrics: neither the client nor the backend has ended it. The status
 * 499 of an exchange that had no answer yet would blame the client.
 */
function cutExchange(exchange: Exchange, because: CutReason): Exchange {
  const { response } = exchange
  const status = response.status === 499 ? 401 : response.status
  const facts: OutcomeFacts = { outcome: 'cut', because }
  const cut = { ...response, status, facts: { ...response.facts, ...facts } }
  return { ...exchange, complete: false, response: cut }
}

/** Why exchanges that last end before their time. */
function endings({
  rules,
  sessions,
  clientAddress,
  instanceId,
}: Pick<PipelineParts, 'rules' | 'sessions' | 'instanceId'> & {
  readonly clientAddress: (request: RequestHead) => string
}) {
  const passes = (request: Request, session: ReadSession | undefined): boolean => {
    const place = placeOf(request, rules().config.domain)
    // The age of the login counts at the arrival of the request. An exchange may last longer than the age its rule allows.
    const now = request.received
    const client = clientAddress(request)
    return (
      place !== undefined &&
      passesAgain({ ...place, request, client, now, instanceId }, session, rules().config)
    )
  }
  /** The reason why an exchange of a session ends with a later login in its browser, where rules look at the person. */
  const whyReplaced = (session: ReadSession, request: Request) => {
    const later = rules().config.access && sessions.laterThan(session)
    if (later === undefined) return undefined
    if (later.user !== userHash(session.subject)) return 'other-user'
    // Another instance tells who has logged in, and not with which attributes.
    if (later.session === undefined) return undefined
    const { attributes, authnInstant, authnContext } = later.session
    return passes(request, { ...session, attributes, authnInstant, authnContext })
      ? undefined
      : 'rules'
  }
  return {
    passes,
    whyEnded: (session: ReadSession, request: Request) =>
      sessions.whyEnded(session) ?? whyReplaced(session, request),
  }
}

interface ListeningParts {
  readonly config: Config
  readonly log: Log
  readonly main: HttpServer
  readonly adminServer: HttpServer
  readonly checks: Awaited<ReturnType<typeof listenForChecks>>
}

/**
 * Opens the listeners. Sockets that the service manager hands over take the place of configured addresses: the first ones named `admin`
 * and `checks`, and the first of the others. Further ones of these names are not taken: a check would be judged as a request for
 * the page `/check`.
 */
async function listenAll(
  { config, log, main, adminServer, checks }: ListeningParts,
  sockets: readonly InheritedSocket[],
) {
  const adminSocket = sockets.find(({ name }) => name === 'admin')
  const checksSocket = sockets.find(({ name }) => name === 'checks')
  const mainSocket = sockets.find(({ name }) => name !== 'admin' && name !== 'checks')
  const inUse =
    'the address is in use; every instance needs one of its own, and no other program may have it'
  const listens = await startListening(main, mainSocket ?? config.listen, inUse)
  const adminPlace = adminSocket ?? config.admin
  const adminListens = adminPlace && (await startListening(adminServer, adminPlace, inUse))
  const checksListen = await checks?.listen(checksSocket)
  const unit = `authproxy@${config.instance}`
  const mismatches = [
    mainSocket && otherSockets([listens], [config.listen], unit),
    checksSocket && otherCheckSocket(config, checksListen, unit),
  ]
  for (const mismatch of mismatches) if (mismatch !== undefined) log.warn(mismatch)
  return { main: listens, admin: adminListens, checks: checksListen }
}

/**
 * The advice when systemd listens for checks at another address than the configuration names, or for none that it names;
 * undefined where they agree.
 */
function otherCheckSocket(
  { instance, forwardAuth }: Config,
  given: CheckAddress | undefined,
  unit: string,
): string | undefined {
  const socket = `authproxy-checks@${instance}`
  if (forwardAuth === undefined || given === undefined) {
    return `systemd listens for checks, which wait in vain: forwardAuth.listenAddress is not set. Run \`systemctl daemon-reload && systemctl stop ${socket}.socket\``
  }
  return otherSockets([given], [forwardAuth.listen], unit, socket)
}

/**
 * The bounds of the public listener. A request may take any time as long as content moves; backend/backend.ts and `taking` enforce
 * that.
 */
function limitsOf({ limits, timeouts }: Config): HttpServerLimits {
  return {
    head: limits.head,
    heads: { fields: limits.fields, target: 65_536, content: Number.POSITIVE_INFINITY },
    connections: limits.connections,
    pipelined: 50,
    headTime: timeouts.clientHead,
    requestTime: 0,
    idle: timeouts.clientIdle,
    taking: timeouts.clientTaking,
    stalled: 0,
  }
}
