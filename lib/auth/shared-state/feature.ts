/**
 * The state that instances share, where `state.url` is set. Its code is loaded then alone.
 */
import type { Feature } from '../features/feature.ts'

export const sharedState: Feature = {
  async shareState(config, parts) {
    const { openSharedState } = await import('./shared-state.ts')
    const log = parts.log.child({ part: 'state' })
    return openSharedState({ ...parts, log, config })
  },
}
