/**
 * The listener for the checks of an edge, with the bounds of the public one.
 */
import { traceIdOf } from '../../http/message/trace-context.ts'
import { accessFacts } from '../../http/server/exchanges.ts'
import type { HttpServerOptions } from '../../http/server/options.ts'
import { methodNotAllowed } from '../../http/server/router.ts'
import { HttpServer } from '../../http/server/server.ts'
import type { AuthMetrics } from '../metrics.ts'
import { failed } from '../pages/failure-page.ts'
import { type CheckParts, checkHandler } from './checks.ts'

/** Makes the server; the handler is told every check that is over. */
export function checkServer(
  parts: CheckParts & { readonly metrics: Pick<AuthMetrics, 'check'> },
  common: Pick<HttpServerOptions, 'requestId' | 'onMalformed' | 'limits'>,
): HttpServer {
  const { clock, log, metrics, failurePage, rules } = parts
  const handler = checkHandler(parts)
  return new HttpServer({
    ...common,
    clock,
    handler,
    connect: async () => methodNotAllowed(['GET', 'HEAD']),
    upgrade: async request => handler(request),
    onFailure: (request, error) => failed(request, error, failurePage),
    onExchange: exchange => {
      const { config } = rules()
      metrics.check(config.forwardAuth?.edge ?? 'none', exchange)
      if (!config.log.access) return
      const facts = accessFacts(exchange)
      facts['trace'] = traceIdOf(exchange.request.fields)
      log.info('check', facts)
    },
    fastPath: true,
  })
}
