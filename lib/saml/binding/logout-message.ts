/**
 * Reads LogoutRequest and LogoutResponse, saml-core-2.0-os section 3.7: bytes in, values out. When a message carries its own
 * signature (HTTP-POST), everything is read from the canonical bytes that were signed, never from the bytes that arrived.
 */
import { revealName } from '../response/decryption.ts'
import { instantOf, readHead, readNameId } from '../response/read-assertion.ts'
import type { ResponseRules } from '../response/verify-response.ts'
import { isSigned, signedContent } from '../signature/signature.ts'
import {
  logoutLimits,
  type RefusedMessage,
  readMessage,
  refuse,
  refusedBy,
  signedLimits,
} from '../xml/message.ts'
import { ns } from '../xml/vocabulary.ts'
import { allNamed, attributeOf, childOf, childrenOf, trimXml, type XmlElement } from '../xml/xml.ts'

export type LogoutRequest = Readonly<ReturnType<typeof readRequest>>
export type LogoutResponse = Readonly<ReturnType<typeof readResponse>>

export type LogoutMessage = LogoutRequest | LogoutResponse | RefusedMessage

export interface LogoutRules extends ResponseRules {
  /** Whether a signature outside these bytes has been verified (HTTP-Redirect). */
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
    const { root } = signed
      ? signedContent(given, given.root, { ...rules, limits: signedLimits(logoutLimits) })
      : given
    // The name is decrypted only after the message is known to be the IdP's.
    const verified = signed || rules.signedOutside
    return read(
      verified ? revealName(root, { root, privateKeys: rules.decryptionKeys }) : root,
      signed,
    )
  } catch (error) {
    return refusedBy(error)
  }
}

function read(root: XmlElement, signed: boolean): LogoutMessage {
  if (root.namespace !== ns.protocol) refuse('logout_form', 'the root is not of SAML 2.0')
  if (root.name === 'LogoutRequest') return readRequest(root, signed)
  if (root.name === 'LogoutResponse') return readResponse(root, signed)
  return refuse('logout_form', 'the root is not a logout message')
}

function readRequest(root: XmlElement, signed: boolean) {
  const indexes = childrenOf(root, ns.protocol, 'SessionIndex')
  return {
    ok: true as const,
    kind: 'LogoutRequest' as const,
    ...readHead(root, signed),
    nameId: readNameId(root),
    /** Whether the name is still encrypted, because no signature had been verified. */
    encryptedId: childOf(root, ns.assertion, 'EncryptedID') !== undefined,
    sessionIndexes: indexes.map(({ text }) => trimXml(text)),
    notOnOrAfter: instantOf(root, 'NotOnOrAfter'),
  }
}

/** Reads a LogoutResponse. `status` is the top-level code, a URI. */
function readResponse(root: XmlElement, signed: boolean) {
  const code = childOf(childOf(root, ns.protocol, 'Status'), ns.protocol, 'StatusCode')
  const status = attributeOf(code, 'Value')
  if (status === undefined) refuse('logout_form', 'the LogoutResponse has no StatusCode')
  const head = { ok: true as const, kind: 'LogoutResponse' as const, ...readHead(root, signed) }
  return { ...head, status: status.slice(0, 200) }
}
