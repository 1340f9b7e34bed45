/**
 * Request targets in their four forms, RFC 9112 section 3.2, and authorities, RFC 3986 section 3.2.
 * Pure: text in, values out. Bytes of the path are kept as they came; canonical keys are made elsewhere.
 */

export type Scheme = 'http' | 'https'

/** A host and a port. IPv6 addresses are kept without brackets; names are lower case without a trailing dot. */
export interface Authority {
  readonly host: string
  readonly port: number
}

/** An absolute http or https URI, taken apart. */
export interface TargetUri extends Authority {
  readonly scheme: Scheme
  /** `user:password` as it stood in the URI, still percent-encoded. Never log it. */
  readonly userinfo?: string
  /** Path with its leading slash, bytes as they came. */
  readonly path: string
  /** Query without its question mark; undefined when there was no question mark. */
  readonly query?: string
}

export type Target =
  | { readonly form: 'origin'; readonly path: string; readonly query?: string }
  | { readonly form: 'absolute'; readonly uri: TargetUri }
  | { readonly form: 'authority'; readonly authority: Authority }
  | { readonly form: 'asterisk' }
