/**
 * Explains in a sentence why a peer's certificate was not accepted, instead of the code of OpenSSL or Node.
 */

/** The sentence for a verification code such as `CERT_HAS_EXPIRED`; undefined for any other code. */
export function certificateProblem(code: string | undefined): string | undefined {
  return code !== undefined && Object.hasOwn(SENTENCES, code) ? SENTENCES[code] : undefined
}

/**
 * Whether a verification code only says that the issuer is unknown here: it is a private authority, or the peer did not send the whole
 * chain.
 */
export function isIssuerUnknown(code: string): boolean {
  return /^(SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_GET_ISSUER_CERT(_LOCALLY)?|UNABLE_TO_VERIFY_LEAF_SIGNATURE)$/.test(
    code,
  )
}

const SENTENCES: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: "The origin's certificate has expired.",
  CERT_NOT_YET_VALID: "The origin's certificate is not valid yet.",
  CERT_REVOKED: "The origin's certificate has been revoked.",
  CERT_REJECTED: "The origin's certificate is not trusted for this use.",
  CERT_UNTRUSTED: "The origin's certificate is not trusted.",
  CERT_SIGNATURE_FAILURE: "The signature on the origin's certificate is wrong.",
  CERT_CHAIN_TOO_LONG: "The chain of the origin's certificate is too long.",
  DEPTH_ZERO_SELF_SIGNED_CERT: "The origin's certificate is signed by itself.",
  SELF_SIGNED_CERT_IN_CHAIN: "The origin's certificate comes from a CA this proxy does not trust.",
  UNABLE_TO_GET_ISSUER_CERT: "The issuer of the origin's certificate is not known.",
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: "The issuer of the origin's certificate is not known.",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    "The issuer of the origin's certificate is not known; the origin may not send its intermediate certificates.",
  INVALID_CA: "The origin's certificate was issued by a certificate that must not issue any.",
  INVALID_PURPOSE: "The origin's certificate is not meant for servers.",
  PATH_LENGTH_EXCEEDED: "The chain of the origin's certificate is longer than its issuer allows.",
  HOSTNAME_MISMATCH: "The origin's certificate is for another name.",
  ERR_TLS_CERT_ALTNAME_INVALID: "The origin's certificate is for another name.",
  ERR_TLS_CERT_ALTNAME_FORMAT: "The names in the origin's certificate are malformed.",
}
