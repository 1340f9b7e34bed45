/**
 * Loads @peculiar/x509 when the first certificate is read or made: it takes a quarter of a second, and most runs need none.
 *
 * No other file imports the library or the ASN.1 modules below it. They are CommonJS, so functions that use them need not wait.
 */
import { createRequire } from 'node:module'
import type * as asn1 from '@peculiar/asn1-schema'
import type * as structures from '@peculiar/asn1-x509'
import type * as x509 from '@peculiar/x509'

export type { x509 }

interface Library {
  readonly x509: typeof x509
  /** Encoding and decoding of ASN.1. */
  readonly asn1: typeof asn1
  /** The structures of RFC 5280. */
  readonly structures: typeof structures
}

let loaded: Library | undefined

export function library(): Library {
  if (loaded !== undefined) return loaded
  const require = createRequire(import.meta.url)
  // The library needs this module loaded before it.
  require('reflect-metadata')
  loaded = {
    x509: require('@peculiar/x509'),
    asn1: require('@peculiar/asn1-schema'),
    structures: require('@peculiar/asn1-x509'),
  }
  return loaded
}
