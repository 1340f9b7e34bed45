/**
 * The listener for the checks of an edge, with the bounds of the public one: on an address, on a socket in the file system, or on a
 * socket of the service manager.
 *
 * # Facts
 * - The file of a socket stays when its process is killed. Connections to it are refused then, and nothing can listen there before the
 *   file is removed.
 * - Node makes the file with the umask of the process. A user who may write to it may connect (unix(7)).
 * - A process knows the inode of its socket by its descriptor (proc(5)), and /proc/net/unix has the name of each.
 */
import { once } from 'node:events'
import { chmod, lstat, readFile, readlink, rm } from 'node:fs/promises'
import { createConnection } from 'node:net'
import { explainError, Failure, systemCode } from '../../errors.ts'
import type { Exchange } from '../../http/message/message.ts'
import { traceIdOf } from '../../http/message/trace-context.ts'
import { accessFacts } from '../../http/server/exchanges.ts'
import { cannotListen, startListening } from '../../http/server/listen.ts'
import type { HttpServerOptions } from '../../http/server/options.ts'
import { methodNotAllowed } from '../../http/server/router.ts'
import { HttpServer } from '../../http/server/server.ts'
import type { LogFacts } from '../../log/log.ts'
import type { InheritedSocket } from '../../systemd.ts'
import type { CheckAddress } from '../config/setting-forward-auth.ts'
import { errorResponse } from '../pages/failure-page.ts'
import { type CheckParts, checkHandler } from './checks.ts'
import { contracts } from './contract.ts'

/** Makes the server; the handler learns of every check that is over. */
export function checkServer(
  parts: CheckParts & {
    readonly metrics: { readonly check: (edge: string, exchange: Exchange) => void }
  },
  common: Pick<HttpServerOptions, 'requestId' | 'onMalformed' | 'limits'>,
): HttpServer {
  const { clock, log, metrics, failurePage, rules } = parts
  const handler = checkHandler(parts)
  const { forwardAuth } = rules().config
  const source = forwardAuth && contracts[forwardAuth.edge].target
  return new HttpServer({
    ...common,
    clock,
    handler,
    connect: async () => methodNotAllowed(['GET', 'HEAD']),
    upgrade: async request => handler(request),
    onFailure: (request, error) => errorResponse(request, error, failurePage),
    onExchange: exchange => {
      const { config } = rules()
      metrics.check(config.forwardAuth?.edge ?? 'none', exchange)
      if (!config.log.access) return
      const { outcome, would } = exchange.response.facts ?? {}
      const isUsual = outcome === 'allowed' && would === undefined
      log.info('check', isUsual ? allowedFacts(exchange) : otherFacts(exchange))
    },
    fastPath: true,
    ...(source && { varying: source.field }),
  })
}

function otherFacts(exchange: Exchange): LogFacts {
  const facts = accessFacts(exchange)
  facts['trace'] = traceIdOf(exchange.request.fields)
  return facts
}

/**
 * Makes the log facts of an answer that has just these. Nearly every check needs them, and members after a spread are slow in
 * V8.
 */
function allowedFacts({ request, response, sent, complete, duration }: Exchange): LogFacts {
  const { client, method, target, because, user, program, passthrough } = response.facts ?? {}
  return {
    id: request.id,
    client,
    method,
    target,
    status: response.status,
    sent,
    duration: Math.round(duration),
    complete: complete ? undefined : false,
    agent: request.fields.get('User-Agent'),
    outcome: 'allowed',
    because,
    user,
    program,
    passthrough,
    trace: traceIdOf(request.fields),
  }
}

/** Starts to listen and answers the address. Throws a Failure with the reason when it cannot. */
export async function listenForChecks(
  server: HttpServer,
  at: CheckAddress | InheritedSocket,
): Promise<CheckAddress> {
  const inUse = 'another process has it; every instance needs one of its own'
  if ('fd' in at) {
    try {
      return (await server.listen(at)) ?? { path: await pathOf(at) }
    } catch (error) {
      throw cannotListen(error, at, inUse)
    }
  }
  if (!('path' in at)) return startListening(server, at, inUse)
  const { path } = at
  const failure = (why: string, cause?: unknown) =>
    new Failure(`cannot listen on unix:${path}: ${why}`, { code: 'LISTEN', cause })
  try {
    const there = await lstat(path).catch(() => undefined)
    if (there?.isSocket() === false) throw failure('a file that is not a socket has this name')
    if (there !== undefined) {
      if (await isAnswering(path)) throw failure(inUse)
      await rm(path, { force: true })
    }
    await server.listen({ path })
    await chmod(path, 0o666)
  } catch (error) {
    if (error instanceof Failure) throw error
    const reasons: Readonly<Record<string, string>> = {
      EADDRINUSE: inUse,
      // Node reports EACCES also for a directory that does not exist.
      EACCES: 'its directory does not exist, or this user may not make a file in it',
    }
    throw failure(reasons[systemCode(error) ?? ''] ?? explainError(error), error)
  }
  return at
}

/** The name of a socket in the file system; the name of its unit where the system does not know one. */
async function pathOf({ fd, name }: InheritedSocket): Promise<string> {
  const [link, table] = await Promise.all([
    readlink(`/proc/self/fd/${fd}`).catch(() => ''),
    readFile('/proc/net/unix', 'utf8').catch(() => ''),
  ])
  const inode = /^socket:\[(\d+)\]$/.exec(link)?.[1]
  const line = table.split('\n').find(line => line.split(/ +/, 7)[6] === inode)
  return /^(?:\S+ +){7}(.*)$/.exec(line ?? '')?.[1] ?? name
}

/** Whether a process listens on a socket in the file system. The kernel answers at once. */
async function isAnswering(path: string): Promise<boolean> {
  const socket = createConnection(path)
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}
