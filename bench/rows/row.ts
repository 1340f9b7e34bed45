/**
 * A row of the bench: what is measured of which subjects, and what a measurement has at hand.
 */
import type { Contents } from '../bare/content.ts'
import type { LoadClient, LoadResult } from '../load.ts'
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
  /** Measured while most memory of the machine is in use (hold.ts). */
  readonly memoryInUse?: boolean
  /** One measurement. */
  run(stage: Stage): Promise<Figures>
}

export interface Stage {
  readonly subject: SubjectName
  readonly program: Program
  readonly origin: Program
  /** Starts the subject once more, of the same tree; `settings` as in `startSubject`. */
  start(directory: string, settings?: object): Promise<Program>
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
  /** Milliseconds until memory counts as that of an idle process. */
  readonly rest: number
  /** Small downloads in a row. */
  readonly downloads: number
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
export function urlOf(stage: Pick<Stage, 'origin'>, path: string): string {
  return `http://127.0.0.1:${stage.origin.port}${path}`
}

/** Names of one kind: `small-0`, `small-1`, ... */
export function series(name: string, count: number): readonly string[] {
  return Array.from({ length: count }, (_, i) => `${name}-${i}`)
}

export const throughputFigures = {
  rate: { title: 'MB/s', better: 'more' },
  cpu: { title: 'CPU s/GB', better: 'less' },
} as const

export interface Cost {
  readonly result: LoadResult
  /** Seconds of processor time. */
  readonly cpu: number
}

/** What an action cost the subject, with the work it does behind its responses if that is asked for. */
export async function costOf(
  stage: Stage,
  action: () => Promise<LoadResult>,
  withRest = false,
): Promise<Cost> {
  const { program, effort } = stage
  const before = program.cpu()
  const result = await action()
  const after = withRest ? await program.cpuAtRest(effort.settle) : program.cpu()
  return { result, cpu: after - before }
}

export function throughputOf({ result, cpu }: Cost): { rate: number; cpu: number } {
  const { bytes, seconds } = result
  return { rate: bytes / 1e6 / seconds, cpu: (cpu / bytes) * 1e9 }
}
