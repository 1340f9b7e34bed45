/**
 * What TLS connections to origins trust: the authorities Node comes with, and others. OpenSSL reads some 150 certificates for that, which takes
 * 40 ms, so what was made last is kept for who trusts the same.
 */
import {
  createSecureContext,
  rootCertificates,
  type SecureContext,
  type SecureContextOptions,
} from 'node:tls'

let last: { readonly ca: readonly string[]; readonly context: SecureContext } | undefined

/** The options of a context that trusts these certificates (PEM) besides the well-known ones. */
export function trustOptions(ca: readonly string[]): SecureContextOptions {
  // A list replaces the well-known authorities, so they are named again.
  return { minVersion: 'TLSv1.2', ca: [...rootCertificates, ...ca] }
}

/** A context that trusts these certificates (PEM) besides the well-known ones, and shows none. */
export function contextTrusting(ca: readonly string[]): SecureContext {
  const same = last?.ca.length === ca.length && ca.every((pem, i) => pem === last?.ca[i])
  if (last === undefined || !same)
    last = { ca: [...ca], context: createSecureContext(trustOptions(ca)) }
  return last.context
}
