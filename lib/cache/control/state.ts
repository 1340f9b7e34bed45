/**
 * Whether the service is well, with the reasons when it is not or when there is something to look after.
 */
import { countOf } from '../operations/figures.ts'
import type { OperationsSources } from '../operations/sources.ts'

export interface ServiceState {
  /** Ready, ready with something to look after, or unable to do its work. */
  readonly is: 'ready' | 'doubtful' | 'broken'
  /** Why it cannot do its work; empty otherwise. */
  readonly because: string
  /** What there is to look after, a sentence each. */
  readonly cautions: readonly string[]
}

export async function serviceState({
  config,
  warnings,
  https,
  verification,
  health,
}: Pick<
  OperationsSources,
  'config' | 'warnings' | 'https' | 'verification' | 'health'
>): Promise<ServiceState> {
  const found = await health()
  const wrong = verification().last?.wrong ?? 0
  const cautions = [
    ...(config.offline ? ['offline: nothing is fetched from origins'] : []),
    ...warnings(),
    ...(https()?.expiresSoon === true ? ['the CA certificate expires soon'] : []),
    ...(wrong > 0 ? [`the last verification removed ${countOf(wrong, 'wrong file')}`] : []),
  ]
  if (!found.writable) return { is: 'broken', because: found.because, cautions }
  return { is: cautions.length === 0 ? 'ready' : 'doubtful', because: '', cautions }
}
