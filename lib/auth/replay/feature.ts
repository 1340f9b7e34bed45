/**
 * `authproxy access --log`: the requests of a log, judged by other rules, and rules that allow them.
 */
import type { Feature } from '../features/feature.ts'

export const replay: Feature = {
  async judgeLog(config) {
    const { Replay } = await import('./replay.ts')
    return new Replay(config)
  },
  async suggestRules() {
    const { Suggestion } = await import('./suggest.ts')
    return new Suggestion()
  },
}
