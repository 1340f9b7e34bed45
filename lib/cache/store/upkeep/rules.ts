/**
 * The rules of retention: what the operator wants kept, and how much of it.
 */

/**
 * What adopted indexes say of a content: it is a part of a generation that is kept, such an index names it, or neither is
 * known.
 */
export type Standing = 'generation' | 'named' | 'unknown'

export interface RetentionRules {
  /** Entries that no client asked for in so many days go; 0 keeps them for ever. */
  readonly unusedDays: number
  /** So many of the newest versions of a package are kept; 0 keeps all. */
  readonly versions: number
  /** Most bytes of contents, downloads under way included; 0 is no limit. */
  readonly size: number
  /** Bytes of the file system that stay free; undefined is the smaller of 1 GiB and a fiftieth of the file system. */
  readonly free?: number | undefined
  /** Largest content that is stored, bytes; 0 is no limit. */
  readonly objectSize: number
  /** By digest. It is asked for many contents in a row and must answer at once. */
  readonly standing?: ((digest: string) => Standing) | undefined
}

/** Nothing goes. */
export const keepAll: RetentionRules = {
  unusedDays: 0,
  versions: 0,
  size: 0,
  free: 0,
  objectSize: 0,
}

export function standingOf({ standing }: RetentionRules, digest: string): Standing {
  return standing?.(digest) ?? 'unknown'
}
