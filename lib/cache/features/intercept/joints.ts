/**
 * What the feature `intercept` is in a running service: the interceptor of tunnels, the certificate of the TLS listener, and the CA on the
 * pages.
 */
import { stopStep } from '../../../daemon.ts'
import type { Core, Joints } from '../feature.ts'
import { Https } from './https.ts'
import { interceptionMetrics } from './metrics.ts'

export async function joints({ rules, clock, log, secure, metrics }: Core): Promise<Joints> {
  const https = await Https.open({ rules, clock, log: log.child({ part: 'https' }), secure })
  interceptionMetrics(metrics, https)
  const { interceptor } = https
  return {
    interceptTunnel: interceptor && (tunnel => interceptor.open(tunnel)),
    tlsListener: next => https.listener(next),
    https: https.pages,
    stops: [
      { when: 'last', step: stopStep('stop the timers of HTTPS', 1000, async () => https.stop()) },
    ],
  }
}
