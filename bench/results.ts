/**
 * What was measured: medians by row, figure and column.
 */
import type { Figures } from './rows/row.ts'
import type { SubjectName } from './subject.ts'

/** `before` is cachesvc or authproxy of the tree that `--before` names. */
export const columns = [
  'cachesvc',
  'authproxy',
  'before',
  'nginx',
  'varnish',
  'squid',
  'apt-cacher-ng',
  'mod_auth_mellon',
  'bare node:net',
  'bare node:http',
  'direct',
] as const
export type Column = (typeof columns)[number]

export interface Measured {
  readonly row: string
  readonly column: Column
  readonly figures: Figures
}

/** Median, least and most of the rounds. */
export interface Spread {
  readonly median: number
  readonly least: number
  readonly most: number
}

export class Results {
  readonly #all: Measured[] = []

  add(measured: Measured): void {
    this.#all.push(measured)
  }

  get all(): readonly Measured[] {
    return this.#all
  }

  /** Whether anything was measured in a row and a column. */
  hasRow(row: string, column: Column): boolean {
    return this.#all.some(one => one.row === row && one.column === column)
  }

  /** Undefined when nothing was measured. */
  spread(row: string, figure: string, column: Column): Spread | undefined {
    const values = this.#all
      .filter(one => one.row === row && one.column === column)
      .map(one => one.figures[figure])
      .filter(value => value !== undefined)
      .sort((a, b) => a - b)
    const [least] = values
    const most = values.at(-1)
    if (least === undefined || most === undefined) return undefined
    const middle = (values.length - 1) / 2
    const [below = least, above = most] = [values[Math.floor(middle)], values[Math.ceil(middle)]]
    return { median: (below + above) / 2, least, most }
  }

  median(row: string, figure: string, column: Column): number | undefined {
    return this.spread(row, figure, column)?.median
  }
}

/** The column of a subject. */
export function columnOf(subject: SubjectName): Column {
  if (subject === 'nginx as a plain proxy' || subject === 'nginx with auth_request') return 'nginx'
  if (subject === 'bare gateway') return 'bare node:http'
  return subject === 'bare server' || subject === 'bare proxy' ? 'bare node:net' : subject
}

/** A figure for people: three digits that say something, thousands apart. */
export function short(value: number): string {
  const digits = value >= 99.5 ? 0 : value >= 9.95 ? 1 : 2
  return value.toLocaleString('en', {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  })
}
