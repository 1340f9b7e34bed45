/**
 * The checks of an edge that forwards requests itself, where `forwardAuth` is set. Their code is loaded then alone.
 */
import type { Feature } from '../features/feature.ts'

export const forwardAuth: Feature = {
  async listenForChecks({ forwardAuth }, parts) {
    if (forwardAuth === undefined) return undefined
    const { checkServer, listenForChecks } = await import('./listener.ts')
    const { ProbedChecks } = await import('./probed-checks.ts')
    const probed = new ProbedChecks(parts)
    const server = checkServer({ ...parts, probed }, parts.server)
    return {
      listen: socket => listenForChecks(server, socket ?? forwardAuth.listen),
      announceEnd: () => server.announceEnd(),
      close: deadline => server.close(deadline),
      checkOf: nonce => probed.of(nonce),
    }
  },
}
