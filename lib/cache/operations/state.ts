/**
 * Tells whether the service works, and what an operator should look after.
 */

import { countOf } from '../figures.ts'
import { neighbourCaution } from './endpoint.ts'
import type { OperationsSources } from './sources.ts'

export interface ServiceState {
  /** Ready, ready with something to look after, or unable to do its work. */
  readonly is: 'ready' | 'doubtful' | 'broken'
  /** Why it cannot do its work; empty otherwise. */
  readonly because: string
  /** What there is to look after, a sentence each. */
  readonly cautions: readonly string[]
}

export async function serviceState(sources: OperationsSources): Promise<ServiceState> {
  const { config, admits, warnings, https, verification, health, addresses, listeners } = sources
  const found = await health()
  const neighbours = neighbourCaution(admits, addresses(), listeners())
  const wrong = verification().last?.wrong ?? 0
  const cautions = [
    ...(config.offline ? ['offline: nothing is fetched from origins'] : []),
    ...warnings(),
    ...(neighbours === undefined ? [] : [neighbours]),
    ...(https()?.expiresSoon === true ? ['the CA certificate expires soon'] : []),
    ...(wrong > 0 ? [`the last verification removed ${countOf(wrong, 'wrong file')}`] : []),
  ]
  if (!found.writable) return { is: 'broken', because: found.because, cautions }
  return { is: cautions.length === 0 ? 'ready' : 'doubtful', because: '', cautions }
}
