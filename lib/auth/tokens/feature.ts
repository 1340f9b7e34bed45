/**
 * Tokens that people make for their programs, where `tokens.longest` is set. Their code is loaded then alone.
 */
import type { Feature } from '../features/feature.ts'

export const tokens: Feature = {
  async openTokens(parts) {
    const { openTokens } = await import('./tokens.ts')
    return openTokens({ ...parts, log: parts.log.child({ part: 'tokens' }) })
  },
}
