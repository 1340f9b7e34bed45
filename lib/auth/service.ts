/**
 * Wiring and nothing else: which part is made of which, what a reload replaces, and in which order all of it stops.
 */
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { type Clock, systemClock } from '../async/clock.ts'
import { type Service, type Start, stopStep } from '../daemon.ts'
import type { Exchange, Request } from '../http/message/message.ts'
import { textResponse } from '../http/message/reply.ts'
import { formatAuthority } from '../http/message/target.ts'
import { accessFacts } from '../http/server/access-log.ts'
import { requestIds } from '../http/server/live-request.ts'
import { methodNotAllowed } from '../http/server/router.ts'
import { HttpServer, type HttpServerOptions } from '../http/server/server.ts'
import type { Log } from '../log/log.ts'
import { packageRoot } from '../package.ts'
import { Templates } from '../template.ts'
import { newInstanceId } from './access/instance-id.ts'
import { admin } from './admin.ts'
import { Backend } from './backend.ts'
import type { Config } from './config/config.ts'
import { inForce, needRestart } from './config/reload.ts'
import { probeAnswerer } from './doctor/edge/probe-answer.ts'
import { FormReader } from './form-preservation/form-reader.ts'
import { IdentityTokens } from './identity/identity-token.ts'
import { keySetHandler } from './identity/key-set.ts'
import { KeyRing } from './keys/key-ring.ts'
import { failuresFile, revocationsFile } from './keys/paths.ts'
import { open, serverLimits } from './listening.ts'
import { AuthMetrics } from './metrics.ts'
import { unforeseen } from './pages/answers.ts'
import { failurePageMaker } from './pages/failure-page.ts'
import { FailureRecords } from './pages/failure-records.ts'
import { pageMaker } from './pages/page.ts'
import { pipeline, type Rules } from './pipeline.ts'
import type { CreateSamlService, SamlService } from './saml/contract.ts'
import { RevocationList } from './session/revocation.ts'
import { Sessions } from './session/sessions.ts'
import { SessionTokens } from './session/token.ts'

/** What reading the configuration again came to. */
export type Reloaded = { readonly config: Config } | { readonly problems: readonly string[] }

export interface ServiceOptions {
  readonly config: Config
  readonly log: Log
  readonly start: Start
  /** Reads the configuration again. */
  readonly reload: () => Promise<Reloaded>
  readonly createSaml: CreateSamlService
  readonly clock?: Clock
  readonly random?: (size: number) => Buffer
  /** Bits of RSA keys made here, for tests that are in a hurry. */
  readonly modulusLength?: number
}

/** A running instance, and where it listens. */
export interface AuthService extends Service {
  readonly port: number
  readonly adminPort: number | undefined
}

/** Starts an instance; throws a Failure with one sentence when it cannot. */
export async function startService(options: ServiceOptions): Promise<AuthService> {
  const { log, start, clock = systemClock, random = randomBytes } = options
  let { config } = options
  let waiting: readonly string[] = []
  const tools = { clock, log }
  const keys = await KeyRing.open({
    path: config.configPath,
    entityId: config.saml.entityId,
    domain: config.domain,
    clock,
    random,
    log: log.child({ part: 'keys' }),
    ...(options.modulusLength === undefined ? {} : { modulusLength: options.modulusLength }),
  })
  const servers: HttpServer[] = []
  const closing = new AbortController()
  let saml: SamlService | undefined
  let revocations: RevocationList | undefined
  try {
    const records = await FailureRecords.open(failuresFile(config.configPath), tools)
    revocations = config.session.revocation
      ? await RevocationList.open({
          ...tools,
          path: revocationsFile(config.configPath),
          lifetime: () => config.session.lifetime,
        })
      : undefined
    const instanceId = newInstanceId(random)
    const tokensOf = ({ identityToken, baseUrl: issuer, instance }: Config) => {
      if (identityToken === undefined) return undefined
      const audience = identityToken.audience ?? issuer
      return new IdentityTokens({ keys, clock, rules: { issuer, audience, instance } })
    }
    const backendOf = (from: Config) =>
      new Backend({
        ...{ config: from, clock, instanceId, closing: closing.signal },
        tokens: tokensOf(from),
      })
    const identityKeys = () => keys.identity()
    let rules: Rules = { config, backend: backendOf(config) }
    const clientAddress = (request: Request) => rules.backend.clientAddress(request)
    const page = pageMaker(Templates.read(join(packageRoot(), 'templates', 'auth')), random)
    const failurePage = failurePageMaker({ ...tools, page, records, clientAddress })
    const tokens = new SessionTokens({ keys, clock, entityId: () => config.saml.entityId })
    const sessions = new Sessions({
      ...tools,
      config: () => rules.config,
      tokens,
      revocations: () => revocations,
      failurePage,
      random,
    })
    const parts = { keys, sessions, failurePage, page, clock, random, clientAddress }
    const service = await options.createSaml({
      ...parts,
      config: () => rules.config.saml,
      log: log.child({ part: 'saml' }),
    })
    saml = service
    const steps = pipeline({
      rules: () => rules,
      saml: service,
      sessions,
      failurePage,
      probe: probeAnswerer({ ...parts, rules: () => rules, instanceId, waiting: () => waiting }),
      instanceId,
      keySet: keySetHandler(identityKeys),
      forms: new FormReader(clock),
      clock,
    })
    const ending = () => (closing.signal.aborted ? ['the service stops'] : [])
    let tunnels = 0
    const metrics = new AuthMetrics({
      connections: () => servers[0]?.connections ?? 0,
      backend: () => rules.backend.counts(),
      tunnels: () => tunnels,
      saml: () => service.readings(),
    })
    const common = {
      clock,
      requestId: requestIds(random),
      onMalformed: (client: { address: string }, status: number, problem: string) =>
        log.info('malformed request', { client: client.address, status, problem }),
    }
    const serverOptions: HttpServerOptions = {
      ...common,
      handler: steps.handle,
      connect: async () =>
        methodNotAllowed(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']),
      upgrade: async (request, socket, head) => {
        tunnels += 1
        return steps.upgrade(request, socket, head).finally(() => {
          tunnels -= 1
        })
      },
      onFailure: (request, error) => unforeseen(request, error, failurePage),
      onExchange: (exchange: Exchange, error?: unknown) => {
        metrics.exchange(exchange)
        if (rules.config.log.access) {
          log.info('request', { ...accessFacts(exchange), client: clientAddress(exchange.request) })
        }
        if (error !== undefined && !closing.signal.aborted) {
          log.warn('PROXY-ERROR response_broke_off', {
            category: 'PROXY-ERROR',
            code: 'response_broke_off',
            id: exchange.request.id,
            error,
          })
        }
      },
      limits: serverLimits(config),
    }
    const main = new HttpServer(serverOptions)
    servers.push(main)
    const sockets = socketsOf(start)
    const opened = await open(main, sockets.main ?? config.listen)
    const adminPlace = sockets.admin ?? config.admin
    const adminServer =
      adminPlace === undefined
        ? undefined
        : new HttpServer({
            ...common,
            handler: admin({
              problems: () => [...ending(), ...service.problems()],
              metrics,
              identityKeys: () =>
                rules.config.identityToken === undefined ? undefined : identityKeys(),
            }),
            connect: async () => methodNotAllowed(['GET', 'HEAD']),
            onFailure: () => textResponse(500, 'something went wrong'),
            onExchange: () => undefined,
            limits: { ...serverLimits(config), head: 16_384, connections: 100 },
          })
    let adminPort: number | undefined
    if (adminServer !== undefined && adminPlace !== undefined) {
      servers.push(adminServer)
      adminPort = (await open(adminServer, adminPlace)).port
    }
    const { drain } = config.timeouts
    return {
      port: opened.port,
      adminPort,
      get status() {
        return statusLine(config, opened)
      },
      reload: async () => {
        const again = await options.reload()
        if ('problems' in again) return again.problems
        const next = inForce(options.config, again.config)
        // First what may fail: a reload takes effect whole or not at all.
        const backend = backendOf(next)
        // Against what was started with: what waits does not stop waiting when a later reload says nothing new of it.
        waiting = needRestart(options.config, again.config)
        if (waiting.length > 0)
          log.warn('these settings wait for a restart', { settings: waiting.join(', ') })
        config = next
        log.setLevel(config.log.level)
        // What is under way keeps its old backend; its connections go when they are idle.
        rules = { config, backend }
        await keys.check()
        return []
      },
      stop: [
        stopStep(
          'end WebSockets and event streams, finish running requests',
          drain,
          async deadline => {
            closing.abort()
            await main.close(deadline)
          },
        ),
        // Not before: whoever asks for readiness meanwhile is to hear that it ends.
        stopStep('close the admin listener', 1000, async deadline => adminServer?.close(deadline)),
        stopStep('close connections to the backend', 2000, () => rules.backend.close()),
        stopStep('end logins', 3000, () => service.close()),
        stopStep('keep ended sessions and the last failures', 2000, async () => {
          await Promise.all([keys.close(), revocations?.close(), records.flush()])
        }),
      ],
    }
  } catch (error) {
    await Promise.all([keys.close(), revocations?.close()])
    closing.abort()
    await Promise.all(
      servers.map(server => server.close(AbortSignal.abort()).catch(() => undefined)),
    )
    await saml?.close()
    throw error
  }
}

/** Sockets the service manager hands over, in place of configured addresses: one named `admin`, and the first of the others. */
function socketsOf({ sockets }: Start) {
  const admin = sockets.find(({ name }) => name === 'admin')
  return { admin, main: sockets.find(socket => socket !== admin) }
}

function statusLine(config: Config, opened: { address: string; port: number }): string {
  const where = formatAuthority({ host: opened.address, port: opened.port })
  const target = `${config.target.scheme}://${formatAuthority(config.target, config.target.scheme)}`
  return `${config.instance}: listening on ${where} for ${config.baseUrl}, forwarding to ${target}`
}
