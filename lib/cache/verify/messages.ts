/**
 * What the thread of a check is told and what it tells.
 */
import type { LogFacts } from '../../log/log.ts'
import type { Progress, VerificationReport, Wrong } from './report.ts'

/** What to check, and how hard. */
export interface Task {
  readonly directory: string
  /** Bytes a second; 0 is as fast as it goes. */
  readonly rate: number
}

export type Message =
  | { readonly tell: 'progress'; readonly progress: Progress }
  | { readonly tell: 'wrong'; readonly wrong: Wrong }
  | { readonly tell: 'warning'; readonly message: string; readonly facts: LogFacts | undefined }
  | { readonly tell: 'report'; readonly report: VerificationReport }
  | { readonly tell: 'failed'; readonly because: string }
