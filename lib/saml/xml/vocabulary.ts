/**
 * The URIs that SAML 2.0, XML Signature and XML Encryption use as names.
 */
export const ns = {
  metadata: 'urn:oasis:names:tc:SAML:2.0:metadata',
  protocol: 'urn:oasis:names:tc:SAML:2.0:protocol',
  assertion: 'urn:oasis:names:tc:SAML:2.0:assertion',
  signature: 'http://www.w3.org/2000/09/xmldsig#',
  encryption: 'http://www.w3.org/2001/04/xmlenc#',
  encryption11: 'http://www.w3.org/2009/xmlenc11#',
} as const

/** Bindings (saml-bindings-2.0-os section 3). */
export const bindings = {
  redirect: 'urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect',
  post: 'urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST',
} as const

export type Binding = 'redirect' | 'post'

/** The only accepted canonicalisations and transforms. */
export const transforms = {
  enveloped: 'http://www.w3.org/2000/09/xmldsig#enveloped-signature',
  exclusive: 'http://www.w3.org/2001/10/xml-exc-c14n#',
  /** Gives the bytes of `exclusive` where there is no comment: messages have none, and signed metadata with one does not verify. */
  exclusiveWithComments: 'http://www.w3.org/2001/10/xml-exc-c14n#WithComments',
} as const

export const digestMethods = {
  sha1: 'http://www.w3.org/2000/09/xmldsig#sha1',
  sha256: 'http://www.w3.org/2001/04/xmlenc#sha256',
  sha384: 'http://www.w3.org/2001/04/xmldsig-more#sha384',
  sha512: 'http://www.w3.org/2001/04/xmlenc#sha512',
} as const

/**
 * The hash of each digest method, by its name in OpenSSL. The table is a Map, so that a name in a message cannot match a member
 * that every object inherits.
 */
export const digests: ReadonlyMap<string, string> = new Map(
  Object.entries(digestMethods).map(([hash, uri]) => [uri, hash]),
)

/** saml-core-2.0-os section 3.2.2.2 */
export const status = {
  success: 'urn:oasis:names:tc:SAML:2.0:status:Success',
  requester: 'urn:oasis:names:tc:SAML:2.0:status:Requester',
  responder: 'urn:oasis:names:tc:SAML:2.0:status:Responder',
  invalidNameIdPolicy: 'urn:oasis:names:tc:SAML:2.0:status:InvalidNameIDPolicy',
  noPassive: 'urn:oasis:names:tc:SAML:2.0:status:NoPassive',
  partialLogout: 'urn:oasis:names:tc:SAML:2.0:status:PartialLogout',
} as const

/** saml-profiles-2.0-os section 3.3 */
export const bearer = 'urn:oasis:names:tc:SAML:2.0:cm:bearer'

export const nameIdFormats = {
  transient: 'urn:oasis:names:tc:SAML:2.0:nameid-format:transient',
  entity: 'urn:oasis:names:tc:SAML:2.0:nameid-format:entity',
} as const

/** The last piece of a URI, for texts: `HTTP-POST`, `Success`, `rsa-sha1`. */
export function shortName(uri: string): string {
  return uri.slice(Math.max(uri.lastIndexOf(':'), uri.lastIndexOf('#'), uri.lastIndexOf('/')) + 1)
}
