/**
 * Reads a message as a document within its limits, and refuses it. A failing check throws, so that no caller can overlook it.
 * The entry points turn the refusal into a value.
 */
import type { AssertionFinding } from '../subject.ts'
import { parseXml, type XmlReason } from './scan.ts'
import type { XmlDocument, XmlLimits } from './xml.ts'

/**
 * The limits of a Response of at most `size` bytes. Clients may send one before they have logged in. Each group is an element, and
 * Active Directory has at most 1,015 groups for a person.
 */
export function responseLimits(size: number): XmlLimits {
  const elements = Math.ceil(size / 128)
  return {
    size,
    elements,
    depth: 64,
    attributes: 32,
    // The limit allows three for each element, because Java programs give each value a type and declare two prefixes.
    allAttributes: 3 * elements,
    references: 3 * elements,
    declarations: 64,
    isHandWritten: false,
  }
}

/** The limits of messages where no setting says otherwise: 1,015 groups with names of 300 bytes pass, encrypted too. */
export const messageLimits: XmlLimits = responseLimits(1024 * 1024)

/** The limits of logout messages. They name one person and the sessions to end, and clients may send them without any login. */
export const logoutLimits: XmlLimits = {
  size: 32_768,
  elements: 200,
  depth: 16,
  attributes: 16,
  allAttributes: 400,
  references: 400,
  declarations: 32,
  isHandWritten: false,
}

/**
 * The limits of content under a verified signature. Canonicalisation repeats a declaration wherever its prefix is used, so the
 * same content has more of them. Only the IdP decides this content.
 */
export function signedLimits(limits: XmlLimits = messageLimits): XmlLimits {
  return {
    ...limits,
    size: 4 * limits.size,
    attributes: 128,
    allAttributes: 32 * limits.elements,
    references: 32 * limits.elements,
    declarations: 256,
  }
}

/** The limits of a SignedInfo. It contains an ID, a digest and names of methods, and is read before its author is known. */
export const infoLimits: XmlLimits = {
  ...logoutLimits,
  attributes: signedLimits().attributes,
  declarations: signedLimits().declarations,
}

/** The limits of metadata, which comes from the place the configuration names: at most 10 MiB, as the specification says. */
export const metadataLimits: XmlLimits = {
  size: 10 * 1024 * 1024,
  elements: 500_000,
  depth: 64,
  attributes: 64,
  allAttributes: 2_000_000,
  references: 2_000_000,
  declarations: 256,
  isHandWritten: true,
}

/** The limits of metadata with a valid signature, with room for the declarations that canonicalisation repeats. */
export const signedMetadataLimits: XmlLimits = {
  ...metadataLimits,
  size: 4 * metadataLimits.size,
  attributes: 128,
}

/** The reason why a message is refused, as a code for the log. */
export type MessageReason =
  | 'base64'
  | `xml_${XmlReason}`
  | 'response_form'
  | 'logout_form'
  | 'assertion_missing'
  | 'assertion_several'
  | 'idp_status'
  | `signature_${'missing' | 'form' | 'reference' | 'algorithm' | 'sha1' | 'invalid'}`
  | `encryption_${'form' | 'algorithm' | 'key' | 'document' | 'tries' | 'content' | 'limit'}`
  | `metadata_${'form' | 'web-page' | 'no-idp' | 'several-idps' | 'unknown-entity' | 'no-entity-id'}`
  | `metadata_${'no-sign-on' | 'no-key' | 'dates'}`

export interface RefusedMessage {
  readonly ok: false
  readonly because: MessageReason
  /** A sentence for the log. */
  readonly problem: string
  /** The expected value and the received one, for `authproxy explain`. */
  readonly finding?: Difference | undefined
  /** The issuer the message names, for the log. It is not verified. */
  readonly claimedIssuer?: string | undefined
  /** The status of the IdP for a login it refuses: the short names of its codes, and its text. */
  readonly idpStatus?: string
  readonly idpMessage?: string
}

/** One thing in a message that is not as expected: `Reference URI`, `#_a`, `#_b`. */
export type Difference = Omit<AssertionFinding, 'ok'>

class MessageRefusal extends Error {
  readonly refused: RefusedMessage

  constructor(refused: RefusedMessage) {
    super(refused.problem)
    this.refused = refused
  }
}

type RefusalFacts = Pick<RefusedMessage, 'finding' | 'idpStatus' | 'idpMessage'>

/** Ends the reading of a message. */
export function refuse(
  because: MessageReason,
  problem: string,
  { finding, ...said }: RefusalFacts = {},
): never {
  const bounded = finding && { finding: { ...finding, received: finding.received.slice(0, 300) } }
  throw new MessageRefusal({ ok: false, because, problem, ...said, ...bounded })
}

/** The thrown refusal as a value. Any other error is a fault of ours and is thrown again. */
export function refusedBy(error: unknown): RefusedMessage {
  if (!(error instanceof MessageRefusal)) throw error
  return error.refused
}

/** Scans and parses a message, or a part of one; by default within the limits of messages. */
export function readMessage(
  message: Uint8Array | string,
  limits: XmlLimits = messageLimits,
): XmlDocument {
  const parsed = parseXml(message, limits)
  return parsed.ok ? parsed : refuse(`xml_${parsed.because}`, parsed.problem)
}
