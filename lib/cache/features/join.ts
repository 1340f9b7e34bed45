/**
 * Opens the features of a service in the order of their list, and joins them to the core when its parts are made.
 */
import type { StopStep } from '../../daemon.ts'
import type { Exchange } from '../../http/message/message.ts'
import type { AnswerStep } from '../answer/answer-step.ts'
import type { RefuseTunnel } from '../answer/connect.ts'
import type { RefuseFile } from '../decide/decide.ts'
import type { FeatureReport } from '../operations/sources.ts'
import type { KnownSuite } from '../suites/generation.ts'
import type {
  CommandAnswering,
  Core,
  Feature,
  FeatureStop,
  Ground,
  Joints,
  OpenFeature,
} from './feature.ts'

/** What all features together give the core. Its lists are fixed when the service starts. */
export interface JoinedFeatures {
  /** The step around answers; undefined when no feature has one. */
  readonly step: AnswerStep | undefined
  readonly refuse: RefuseFile | undefined
  readonly answered: ReadonlyArray<(exchange: Exchange) => void>
  readonly reports: readonly FeatureReport[]
  readonly answers: ReadonlyMap<string, CommandAnswering>
  readonly keeps: (digest: string) => boolean
  readonly refuseTunnel: readonly RefuseTunnel[]
  /** The feature that intercepts HTTPS; its members are undefined without one. */
  readonly interception: Pick<Joints, 'interceptTunnel' | 'tlsListener' | 'https'>
  readonly adopted: (suite: KnownSuite) => void
  /** Returns the problems, each in one sentence. */
  readonly reload: (authorities: readonly string[] | undefined) => readonly string[]
  readonly quiet: () => Promise<unknown>
  readonly stops: (when: FeatureStop['when']) => readonly StopStep[]
}

export async function openFeatures(
  features: readonly Feature[],
  ground: Ground,
): Promise<readonly OpenFeature[]> {
  const opened: OpenFeature[] = []
  for (const { open } of features) if (open !== undefined) opened.push(await open(ground))
  return opened
}

export async function joinFeatures(
  opened: readonly OpenFeature[],
  core: Core,
): Promise<JoinedFeatures> {
  const all: Joints[] = []
  for (const feature of opened) {
    const joints = await feature.join?.(core)
    if (joints !== undefined) all.push(joints)
  }
  const each = <Name extends keyof Joints>(name: Name) =>
    all.flatMap(({ [name]: joint }) => (joint === undefined ? [] : [joint]))
  const [keepers, listeners, reloads] = [each('keeps'), each('adopted'), each('reload')]
  const [quiets, stops] = [each('quiet'), each('stops').flat()]
  return {
    step: each('step')[0],
    refuse: each('refuse')[0],
    answered: each('answered'),
    reports: each('report'),
    refuseTunnel: each('refuseTunnel'),
    interception: all.find(({ https }) => https !== undefined) ?? {},
    answers: new Map(each('answers').flatMap(answers => Object.entries(answers))),
    keeps: digest => keepers.some(keeps => keeps(digest)),
    adopted: suite => {
      for (const listener of listeners) listener(suite)
    },
    reload: authorities => reloads.flatMap(reload => reload(authorities) ?? []),
    quiet: () => Promise.all(quiets.map(quiet => quiet())),
    stops: when => stops.filter(stop => stop.when === when).map(({ step }) => step),
  }
}
