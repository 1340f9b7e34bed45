/**
 * `authproxy access --log`: the requests of a log, judged by other rules.
 */
import type { Feature } from '../features/feature.ts'

export const replay: Feature = {
  async judgeLog(config) {
    const { Replay } = await import('./replay.ts')
    return new Replay(config)
  },
}
