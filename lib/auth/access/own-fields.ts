/**
 * The fields of our own that have fixed names. A configured attribute is sent as X-Authproxy- and its name, so none may have one of these
 * names. Pure.
 */

/** What follows X-Authproxy- in the fields of a request that name no user. An edge may pass them with its check. */
const UNNAMED = ['Request-ID', 'Instance-ID', 'Authorization', 'Probe', 'Edge-Secret'] as const

/** What follows X-Authproxy- in the other ones: fields of the identity, of answers, and of the trials of the doctor. */
const OTHER = [
  ...(['User', 'Identity', 'Domain', 'Groups-Overage', 'Omitted'] as const),
  ...(['Login', 'Redirect', 'Padding', 'Doctor'] as const),
]

export type OwnName = (typeof UNNAMED)[number] | (typeof OTHER)[number]

/** A field of our own. */
export function ownField(name: OwnName): string {
  return `X-Authproxy-${name}`
}

/** The fields of a request that name no user. */
export const unnamedFields: readonly string[] = UNNAMED.map(ownField)

/** Whether the field of an attribute with this name would be one of our own. */
export function isOwnName(name: string): boolean {
  const low = name.toLowerCase()
  return [...UNNAMED, ...OTHER].some(own => own.toLowerCase() === low)
}

/** The field with the ID of a request. */
export const requestIdField = ownField('Request-ID')
