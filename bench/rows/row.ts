/**
 * A row of the bench: what is measured of which subjects, and what a measurement has at hand.
 */
import type { Contents } from '../bare/content.ts'
import type { LoadClient } from '../load.ts'
import type { Program, SubjectName } from '../subject.ts'

export interface Figure {
  /** With the unit: `requests/s`. */
  readonly title: string
  readonly better: 'more' | 'less'
}

/** Measured values by the names of the row's figures. */
export type Figures = Readonly<Record<string, number>>

export interface Row {
  readonly title: string
  /** What exactly is done, as part of a sentence. */
  readonly note: string
  readonly figures: Readonly<Record<string, Figure>>
  readonly subjects: readonly SubjectName[]
  /** Measured once, because it hardly varies and takes long. */
  readonly once?: boolean
  /** One measurement. */
  run(stage: Stage): Promise<Figures>
}

export interface Stage {
  readonly subject: SubjectName
  readonly program: Program
  readonly origin: Program
  readonly load: LoadClient
  readonly contents: Contents
  /** Different for every measurement: for names that no cache knows. */
  readonly label: string
  /** A directory for this measurement. */
  readonly directory: string
  /** How much is measured. */
  readonly effort: Effort
}

export interface Effort {
  /** Seconds that a measurement of a rate lasts. */
  readonly seconds: number
  /** Milliseconds after a cold download in which work behind the response still counts: checkpoints come after 5 s. */
  readonly settle: number
  /** Requests and gigabytes after which memory is measured, and entries that are stored. */
  readonly requests: number
  readonly gigabytes: number
  readonly entries: number
}

export const proxies: readonly SubjectName[] = [
  'cachesvc',
  'nginx',
  'varnish',
  'squid',
  'apt-cacher-ng',
]

/** The origin's URL of a path. */
export function urlOf(stage: Stage, path: string): string {
  return `http://127.0.0.1:${stage.origin.port}${path}`
}

/** Names of one kind: `small-0`, `small-1`, ... */
export function series(name: string, count: number): readonly string[] {
  return Array.from({ length: count }, (_, i) => `${name}-${i}`)
}

/** Seconds of processor time that an action took, with what the subject does after it. */
export async function costOf<T>(
  stage: Stage,
  action: () => Promise<T>,
): Promise<{ result: T; cpu: number }> {
  const before = stage.program.cpu()
  const result = await action()
  return { result, cpu: (await stage.program.cpuAtRest(stage.effort.settle)) - before }
}
