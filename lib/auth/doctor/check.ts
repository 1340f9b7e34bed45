/**
 * What a check of `authproxy doctor` came to: what was looked at, what was found, and how to mend it.
 */

export interface Diagnosis {
  readonly what: string
  /** `wrong` keeps people from their application, or from being safe; `doubtful` may, or could not be found out. */
  readonly state: 'right' | 'doubtful' | 'wrong'
  readonly found: string
  readonly mend?: string
}

export function right(what: string, found: string): Diagnosis {
  return { what, state: 'right', found }
}

export function doubtful(what: string, found: string, mend: string): Diagnosis {
  return { what, state: 'doubtful', found, mend }
}

export function wrong(what: string, found: string, mend: string): Diagnosis {
  return { what, state: 'wrong', found, mend }
}

/** The day of a moment, in UTC. */
export function dayOf(moment: number): string {
  return Number.isFinite(moment) ? new Date(moment).toISOString().slice(0, 10) : 'an unknown day'
}
