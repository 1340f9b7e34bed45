/**
 * `authproxy access --log`: the requests of a log, judged by other rules.
 */
import type { Feature } from '../features/feature.ts'
import { Replay } from './replay.ts'

export const replay: Feature = { judgeLog: config => new Replay(config) }
