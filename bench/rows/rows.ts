/**
 * All rows of the bench, and what our daemons aim at in them. Rows that write much to the disk come last.
 */
import type { Column } from '../results.ts'
import { adoption } from './adoption.ts'
import { checkCost, checkRate } from './checks.ts'
import { apt, coldLarge, coldSmall, stampede } from './cold.ts'
import { firstPackage } from './first-package.ts'
import {
  gatewayDownload,
  gatewayLogins,
  gatewayMemory,
  gatewayMiddle,
  gatewayPosts,
  gatewayRules,
  gatewaySmall,
  gatewaySockets,
  gatewayUpload,
} from './gateway.ts'
import { delay, largeHits, middleHits, smallHits } from './hits.ts'
import { memory, million } from './memory.ts'
import type { Row } from './row.ts'
import { tokenCost } from './tokens.ts'
import { tunnel } from './tunnel.ts'

export const rows = {
  'hits-10k': smallHits,
  'hits-1m': middleHits,
  'hits-100m': largeHits,
  tunnel,
  'gateway-1k': gatewaySmall,
  'gateway-100k': gatewayMiddle,
  'gateway-100m': gatewayDownload,
  'gateway-upload': gatewayUpload,
  'gateway-post': gatewayPosts,
  'gateway-socket': gatewaySockets,
  'gateway-login': gatewayLogins,
  'gateway-rules': gatewayRules,
  'gateway-memory': gatewayMemory,
  checks: checkRate,
  'check-cost': checkCost,
  'token-cost': tokenCost,
  memory,
  delay,
  apt,
  'cold-10k': coldSmall,
  stampede,
  million,
  adoption,
  'first-package': firstPackage,
  'cold-100m': coldLarge,
} satisfies Record<string, Row>

export type RowName = keyof typeof rows

/** A figure of ours is to be at least or at most a value, or so many times the figure of another column. */
export interface Aim {
  readonly row: RowName
  readonly figure: string
  readonly relation: 'at least' | 'at most'
  readonly value: number
  readonly times?: Column
}

export const aims: readonly Aim[] = [
  { row: 'hits-10k', figure: 'rate', relation: 'at least', value: 1.2, times: 'nginx' },
  { row: 'hits-10k', figure: 'rate', relation: 'at least', value: 0.9, times: 'varnish' },
  { row: 'hits-1m', figure: 'rate', relation: 'at least', value: 1, times: 'nginx' },
  { row: 'hits-100m', figure: 'rate', relation: 'at least', value: 0.85, times: 'nginx' },
  { row: 'cold-100m', figure: 'rate', relation: 'at least', value: 0.6, times: 'nginx' },
  { row: 'cold-100m', figure: 'cpu', relation: 'at most', value: 1.8 },
  { row: 'cold-10k', figure: 'time', relation: 'at most', value: 1.2 },
  { row: 'cold-10k', figure: 'cpu', relation: 'at most', value: 2.5, times: 'nginx' },
  { row: 'apt', figure: 'time', relation: 'at most', value: 1.25, times: 'direct' },
  { row: 'tunnel', figure: 'rate', relation: 'at least', value: 1.5, times: 'squid' },
  { row: 'tunnel', figure: 'rate', relation: 'at least', value: 0.8, times: 'bare node:net' },
  { row: 'stampede', figure: 'wall', relation: 'at most', value: 1.25, times: 'direct' },
  { row: 'stampede', figure: 'first', relation: 'at most', value: 50 },
  { row: 'memory', figure: 'idle', relation: 'at most', value: 65 },
  { row: 'memory', figure: 'connections', relation: 'at most', value: 85 },
  { row: 'memory', figure: 'growth', relation: 'at most', value: 5 },
  { row: 'million', figure: 'ready', relation: 'at most', value: 2 },
  { row: 'million', figure: 'rss', relation: 'at most', value: 300 },
  { row: 'adoption', figure: 'delay', relation: 'at most', value: 20 },
  { row: 'gateway-1k', figure: 'rate', relation: 'at least', value: 0.5, times: 'nginx' },
  { row: 'gateway-1k', figure: 'rate', relation: 'at least', value: 1.3, times: 'mod_auth_mellon' },
  { row: 'gateway-1k', figure: 'cpu', relation: 'at most', value: 2, times: 'nginx' },
  { row: 'gateway-1k', figure: 'p99', relation: 'at most', value: 2, times: 'nginx' },
  { row: 'gateway-100k', figure: 'rate', relation: 'at least', value: 0.6, times: 'nginx' },
  { row: 'gateway-100m', figure: 'rate', relation: 'at least', value: 0.8, times: 'nginx' },
  { row: 'gateway-socket', figure: 'rate', relation: 'at least', value: 0.8, times: 'nginx' },
  { row: 'gateway-rules', figure: 'ratio', relation: 'at most', value: 1.03 },
  { row: 'checks', figure: 'rate', relation: 'at least', value: 0.5, times: 'nginx' },
  { row: 'check-cost', figure: 'ratio', relation: 'at most', value: 1 },
  { row: 'gateway-memory', figure: 'idle', relation: 'at most', value: 70 },
  { row: 'gateway-memory', figure: 'connections', relation: 'at most', value: 90 },
  { row: 'adoption', figure: 'share', relation: 'at least', value: 0.95 },
]
