/**
 * What the feature `builds` is in a running service: the step around answers, the contents that stay, and `cachesvc build`.
 */
import { stopStep } from '../../../daemon.ts'
import { countOf, size } from '../../../figures.ts'
import { textResponse } from '../../../http/message/reply.ts'
import type { RefuseTunnel } from '../../answer/connect.ts'
import type { Config } from '../../config/config.ts'
import type { OutcomeFacts } from '../../rfc9111/outcome.ts'
import type { Core, Joints } from '../feature.ts'
import type { BuildRefusal } from './build.ts'
import { buildAnswers } from './build-answers.ts'
import { Builds } from './builds.ts'
import { buildAnswer } from './control.ts'
import { buildMetrics } from './metrics.ts'
import { missingFiles } from './missing-files.ts'

export async function joints(core: Core): Promise<Joints> {
  const { cacheDirectory, store, clock, rules, fetcher, suites } = core
  const log = core.log.child({ part: 'builds' })
  const settings = () => buildSettings(rules().config)
  const builds = await Builds.open({ cacheDirectory, store, clock, log, settings })
  buildMetrics(core.metrics, builds)
  const fetchMissing = missingFiles({ builds, fetcher, rules, log })
  return {
    step: buildAnswers({ builds, store, suites }),
    keeps: digest => builds.keeps(digest),
    refuseTunnel,
    answers: {
      build: ({ act, name, file, json }) =>
        buildAnswer(builds, fetchMissing, {
          act: String(act),
          name: String(name),
          file: String(file),
          json: json === true,
        }),
    },
    report: { stays: () => staysText(builds) },
    stops: [
      { when: 'last', step: stopStep('write the records of builds', 10_000, () => builds.close()) },
    ],
  }
}

/** The settings of builds. Builds never take more than half of the quota, because retention does not remove what they keep. */
function buildSettings({ builds, retention }: Config): Config['builds'] {
  const half = retention.size === 0 ? Number.POSITIVE_INFINITY : retention.size / 2
  return { ...builds, size: Math.min(builds.size, half) }
}

/** A build cannot have what goes through a tunnel unread. */
const refuseTunnel: RefuseTunnel = ({ label: build, origin }) => {
  if (build === undefined) return undefined
  const because: BuildRefusal = 'unread-tunnel'
  const facts = { outcome: 'failed', because, origin, build } satisfies OutcomeFacts
  const sentence = `A build cannot have what goes through a tunnel unread: write http://HTTPS///${origin}/ instead of https://${origin}/, or have the tunnel intercepted.`
  return textResponse(409, sentence, { facts })
}

function staysText({ all, bytes }: Pick<Builds, 'all' | 'bytes'>): readonly string[] {
  if (all.length === 0) return []
  const what = `${countOf(all.length, 'build')} and ${size(bytes)} of files`
  return [`${what} stay until the build is removed: cachesvc build list.`]
}
