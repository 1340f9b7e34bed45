/**
 * The listener for the checks of an edge, with the bounds of the public one.
 */
import type { Exchange } from '../http/message/message.ts'
import { traceIdOf } from '../http/message/trace-context.ts'
import { accessFacts } from '../http/server/exchanges.ts'
import type { HttpServerOptions } from '../http/server/options.ts'
import { methodNotAllowed } from '../http/server/router.ts'
import { HttpServer } from '../http/server/server.ts'
import type { LogFacts } from '../log/log.ts'
import { type CheckParts, checkHandler } from './forward-auth/checks.ts'
import { contracts } from './forward-auth/contract.ts'
import type { AuthMetrics } from './metrics.ts'
import { errorResponse } from './pages/failure-page.ts'

/** Makes the server; the handler is told every check that is over. */
export function checkServer(
  parts: CheckParts & { readonly metrics: Pick<AuthMetrics, 'check'> },
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
      const { outcome } = exchange.response.facts ?? {}
      log.info('check', outcome === 'allowed' ? allowedFacts(exchange) : otherFacts(exchange))
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
  const { client, method, target, because, user, passthrough } = response.facts ?? {}
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
    passthrough,
    trace: traceIdOf(request.fields),
  }
}
