/**
 * Reads LogoutRequest and LogoutResponse, saml-core-2.0-os section 3.7: bytes in, values out. When a message carries its own
 * signature (HTTP-POST), everything is read from the canonical bytes that were signed, never from those that came.
 */
import { agreed } from '../core/agreement.ts'
import { revealName } from '../core/encrypted-elements.ts'
import { logoutLimits, type Refused, readMessage, refuse, refusedBy } from '../core/message.ts'
import type { NameId } from '../core/read-assertion.ts'
import {
  instantOf,
  type MessageHead,
  readHead,
  readNameId,
  type WrittenInstant,
} from '../core/read-assertion.ts'
import type { ResponseRules } from '../core/verify-response.ts'
import { ns } from '../core/vocabulary.ts'
import {
  allNamed,
  attributeOf,
  childOf,
  childrenOf,
  trimXml,
  type XmlElement,
} from '../core/xml.ts'
import { isSigned, signedContent } from '../signature/signature.ts'

export interface LogoutRequest extends MessageHead {
  readonly ok: true
  readonly kind: 'LogoutRequest'
  readonly nameId: NameId | undefined
  /** Whether the name is encrypted and was left so, since no signature had been verified. */
  readonly encryptedId: boolean
  readonly sessionIndexes: readonly string[]
  readonly notOnOrAfter: WrittenInstant | undefined
}

export interface LogoutResponse extends MessageHead {
  readonly ok: true
  readonly kind: 'LogoutResponse'
  /** Top-level status code, a URI. */
  readonly status: string
}

export type LogoutMessage = LogoutRequest | LogoutResponse | Refused

export interface LogoutRules extends ResponseRules {
  /** Whether a signature over these bytes has been verified that stands outside of them (HTTP-Redirect). */
  readonly signedOutside: boolean
}

/** Reads a message; a signature inside it has to hold, and `signed` says whether there is one. Never throws for its content. */
export function readLogout(bytes: Uint8Array, rules: LogoutRules): LogoutMessage {
  try {
    const given = readMessage(bytes, logoutLimits)
    const signed = isSigned(given.root)
    if (allNamed(given.root, 'Signature').length !== (signed ? 1 : 0)) {
      refuse('logout_form', 'a signature where none may stand')
    }
    const { root } = signed ? signedContent(given, given.root, rules) : agreed(given)
    // The name is decrypted when the message is known to be the IdP's, and not before.
    const verified = signed || rules.signedOutside
    return read(verified ? revealName(root, rules.decryptionKeys) : root, signed)
  } catch (error) {
    return refusedBy(error)
  }
}

function read(root: XmlElement, signed: boolean): LogoutMessage {
  if (root.namespace !== ns.protocol) refuse('logout_form', 'the root is not of SAML 2.0')
  const head = { ok: true, ...readHead(root, signed) } as const
  if (root.name === 'LogoutRequest') {
    return {
      ...head,
      kind: 'LogoutRequest',
      nameId: readNameId(root),
      encryptedId: childOf(root, ns.assertion, 'EncryptedID') !== undefined,
      sessionIndexes: childrenOf(root, ns.protocol, 'SessionIndex').map(index =>
        trimXml(index.text),
      ),
      notOnOrAfter: instantOf(root, 'NotOnOrAfter'),
    }
  }
  if (root.name !== 'LogoutResponse') refuse('logout_form', 'the root is no logout message')
  const code = childOf(childOf(root, ns.protocol, 'Status'), ns.protocol, 'StatusCode')
  const status = attributeOf(code, 'Value')
  if (status === undefined) refuse('logout_form', 'the LogoutResponse has no StatusCode')
  return { ...head, kind: 'LogoutResponse', status: status.slice(0, 200) }
}
