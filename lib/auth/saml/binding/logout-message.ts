/**
 * LogoutRequest and LogoutResponse, saml-core-2.0-os section 3.7: bytes in, values out. When a message carries its own
 * signature (HTTP-POST), everything is read from the canonical bytes that were signed, never from those that came.
 */
import { type RevealReason, revealName } from '../core/encrypted-elements.ts'
import { instantOf, issuerOf, readNameId, type WrittenInstant } from '../core/read-assertion.ts'
import { messageLimits } from '../core/scan.ts'
import { isSigned, type SignatureReason, verifySignature } from '../core/signature.ts'
import type { NameId } from '../core/subject.ts'
import type { ResponseRules } from '../core/verify-response.ts'
import { ns } from '../core/vocabulary.ts'
import {
  allElements,
  attributeOf,
  childOf,
  childrenOf,
  parseXml,
  parseXmlText,
  type XmlElement,
  type XmlReason,
} from '../core/xml.ts'

interface LogoutCommon {
  readonly ok: true
  readonly id: string
  readonly version: string
  readonly issuer: string | undefined
  readonly destination: string | undefined
  readonly issued: WrittenInstant | undefined
  /** Whether it carried a signature of its own, which then has been verified. */
  readonly signed: boolean
}

export interface LogoutRequest extends LogoutCommon {
  readonly kind: 'LogoutRequest'
  readonly nameId: NameId | undefined
  /** Whether the name is encrypted and was left so, since no signature had been verified. */
  readonly encryptedId: boolean
  readonly sessionIndexes: readonly string[]
  readonly notOnOrAfter: WrittenInstant | undefined
}

export interface LogoutResponse extends LogoutCommon {
  readonly kind: 'LogoutResponse'
  readonly inResponseTo: string | undefined
  /** Top-level status code, a URI. */
  readonly status: string
}

export type LogoutMessage =
  | LogoutRequest
  | LogoutResponse
  | {
      readonly ok: false
      readonly because: `xml_${XmlReason}` | 'logout_form' | SignatureReason | RevealReason
      readonly problem: string
    }

export interface LogoutRules extends ResponseRules {
  /** Whether a signature over these bytes has been verified that stands outside of them (HTTP-Redirect). */
  readonly signedOutside: boolean
}

/** Reads a message; a signature inside it has to hold, none inside it is told by `signed`. Never throws for its content. */
export function readLogout(bytes: Uint8Array, rules: LogoutRules): LogoutMessage {
  const given = parseXml(bytes, messageLimits)
  if (!given.ok) return { ok: false, because: `xml_${given.because}`, problem: given.problem }
  const signatures = [...allElements(given.root)].filter(element => element.name === 'Signature')
  const signed = isSigned(given.root)
  if (signatures.length !== (signed ? 1 : 0)) return refuse('a signature where none may stand')
  if (!signed) {
    return rules.signedOutside ? open(given.root, false, rules) : read(given.root, false)
  }
  const verified = verifySignature(given, given.root, rules)
  if (!verified.ok) return verified
  const canonical = parseXmlText(verified.text, messageLimits)
  if (!canonical.ok) return refuse(canonical.problem)
  return open(canonical.root, true, rules)
}

/** The name is decrypted when the message is known to be the IdP's, and not before. */
function open(root: XmlElement, signed: boolean, rules: LogoutRules): LogoutMessage {
  const revealed = revealName(root, rules.decryptionKeys)
  return revealed.ok ? read(revealed.root, signed) : revealed
}

function read(root: XmlElement, signed: boolean): LogoutMessage {
  if (root.namespace !== ns.protocol) return refuse('the root is not of SAML 2.0')
  const common = {
    ok: true,
    id: attributeOf(root, 'ID') ?? '',
    version: attributeOf(root, 'Version') ?? '',
    issuer: issuerOf(root),
    destination: attributeOf(root, 'Destination'),
    issued: instantOf(root, 'IssueInstant'),
    signed,
  } as const
  if (root.name === 'LogoutRequest') {
    return {
      ...common,
      kind: 'LogoutRequest',
      nameId: readNameId(root),
      encryptedId: childOf(root, ns.assertion, 'EncryptedID') !== undefined,
      sessionIndexes: childrenOf(root, ns.protocol, 'SessionIndex').map(index => index.text.trim()),
      notOnOrAfter: instantOf(root, 'NotOnOrAfter'),
    }
  }
  if (root.name !== 'LogoutResponse') return refuse('the root is no logout message')
  const status = childOf(root, ns.protocol, 'Status')
  const code = status === undefined ? undefined : childOf(status, ns.protocol, 'StatusCode')
  const value = code === undefined ? undefined : attributeOf(code, 'Value')
  if (value === undefined) return refuse('the LogoutResponse has no StatusCode')
  return {
    ...common,
    kind: 'LogoutResponse',
    inResponseTo: attributeOf(root, 'InResponseTo'),
    status: value.slice(0, 200),
  }
}

function refuse(problem: string) {
  return { ok: false, because: 'logout_form', problem } as const
}
