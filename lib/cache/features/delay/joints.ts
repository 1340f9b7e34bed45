/**
 * What the feature `delay` is in a running service: the choice of the generation that clients get, its commands, and what pages say of it.
 */
import { stopStep } from '../../../daemon.ts'
import type { Core, Ground, Joints, OpenFeature } from '../feature.ts'
import { ChangesInThread } from './changes.ts'
import { releaseSuites, suiteChanges } from './control.ts'
import { delayMetrics } from './metrics.ts'
import { delayReport, waitingGenerations } from './report.ts'
import { SteadyTime } from './steady-time.ts'
import { SuiteDelays } from './suite-delays.ts'

/** Reads the steady time. The delays are made when the suites are known. */
export async function openDelays(ground: Ground): Promise<OpenFeature> {
  const { cacheDirectory, clock, rules, store } = ground
  const log = ground.log.child({ part: 'suites' })
  const steady = await SteadyTime.open({ cacheDirectory, clock, log })
  const made: SuiteDelays[] = []
  return {
    choose: ({ suites }) => {
      const delays = new SuiteDelays({ rules, suites, store, clock, log, steady })
      made.push(delays)
      return delays
    },
    join: async core => {
      const [delays] = made
      return delays === undefined ? {} : joints(core, delays)
    },
  }
}

async function joints(core: Core, delays: SuiteDelays): Promise<Joints> {
  const { cacheDirectory, clock, suites, updates, store, metrics } = core
  const log = core.log.child({ part: 'suites' })
  const changes = new ChangesInThread({ cacheDirectory, clock, log })
  delayMetrics(metrics, () => waitingGenerations({ suites, delays }))
  await delays.start()
  const asked = { suites, delays, changes, updates, store, clock }
  return {
    answers: {
      release: request => releaseSuites(request, asked),
      changes: request => suiteChanges(request, asked),
    },
    report: delayReport({ suites, delays, changes }),
    stops: [
      {
        when: 'work',
        step: stopStep('break off the counts of changes', 5000, () =>
          Promise.all([delays.close(), changes.close()]),
        ),
      },
    ],
  }
}
