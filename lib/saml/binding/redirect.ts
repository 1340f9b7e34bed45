/**
 * Reads and writes messages by the HTTP-Redirect binding, saml-bindings-2.0-os section 3.4: in a query, with signatures over its
 * very bytes.
 *
 * # Facts
 * - The signature is over the query as it was sent: `SAMLRequest=…&RelayState=…&SigAlg=…`, still percent-encoded. A reader that
 *   decodes it and encodes it again verifies something else, and one that looks parameters up by decoded name can be shown two
 *   messages of which only one is signed. So names are taken literally, each once, and the bytes are never written again.
 * - The message is deflated; how much it may inflate to is bounded.
 */
import { deflateRawSync, inflateRawSync } from 'node:zlib'
import { attempt } from '../../errors.ts'
import {
  isSignedBy,
  methodProblem,
  privateKeyOf,
  type SignatureRules,
  signatureBehind,
  signatureBy,
  signatureMethods,
  type UnsignedText,
} from '../signature/method.ts'
import type { SigningKey } from '../signature/sign.ts'
import { decodeBase64, decodeFormText } from '../xml/encoding.ts'
import { logoutLimits, type MessageReason } from '../xml/message.ts'

export type MessageName = 'SAMLRequest' | 'SAMLResponse'

interface Sent {
  readonly name: MessageName
  readonly xml: string
  readonly relayState?: string | undefined
}

/** The address that takes a message to `location`, whose query stays; with a key it is signed, RSA with SHA-256. */
export function redirectAddress(
  location: string,
  message: Sent,
  key: SigningKey | undefined,
): string {
  if (key === undefined) return withQuery(location, queryOf(message))
  const unsigned = unsignedQuery(message, key)
  return withSignature(location, unsigned.data, signatureBy(unsigned))
}

/** Does what `redirectAddress` does; another thread makes the signature. */
export async function redirectAddressBehind(
  location: string,
  message: Sent,
  key: SigningKey | undefined,
): Promise<string> {
  if (key === undefined) return redirectAddress(location, message, key)
  const unsigned = unsignedQuery(message, key)
  return withSignature(location, unsigned.data, await signatureBehind(unsigned))
}

function queryOf({ name, xml, relayState }: Sent): string {
  const message = deflateRawSync(Buffer.from(xml)).toString('base64')
  const query = parameter(name, message).slice(1)
  return relayState === undefined ? query : query + parameter('RelayState', relayState)
}

function unsignedQuery(message: Sent, { privateKey }: SigningKey): UnsignedText {
  const uri = signatureMethods.rsaSha256
  const data = queryOf(message) + parameter('SigAlg', uri)
  return { key: privateKeyOf(privateKey), uri, data }
}

function withSignature(location: string, query: string, value: Buffer): string {
  return withQuery(location, query + parameter('Signature', value.toString('base64')))
}

function withQuery(location: string, query: string): string {
  return `${location}${location.includes('?') ? '&' : '?'}${query}`
}

function parameter(name: string, value: string): string {
  return `&${name}=${encodeURIComponent(value)}`
}

export interface RedirectMessage {
  readonly name: MessageName
  /** The inflated message, not yet scanned. */
  readonly bytes: Buffer
  readonly relayState: string | undefined
  /** The signature; `signedText` is the part of the query that it is over. */
  readonly signature:
    | { readonly algorithm: string; readonly value: Buffer; readonly signedText: string }
    | undefined
}

/** The message in the query of a request; undefined when there is none, a sentence when it does not follow the binding. */
export function readRedirect(query: string | undefined): RedirectMessage | string | undefined {
  const raw = new Map<string, string>()
  for (const piece of (query ?? '').split('&')) {
    const [, name = '', value = ''] = /^([^=]*)=?(.*)$/s.exec(piece) ?? []
    const decoded = decodeFormText(name)
    if (decoded === undefined || !PARAMETERS.includes(decoded)) continue
    // A parameter whose name only decodes to ours could hide a second message behind a signed one.
    if (decoded !== name) return 'a parameter name is percent-encoded'
    if (raw.has(name)) return `the parameter ${name} occurs twice`
    raw.set(name, value)
  }
  const value = (name: string) => decodeFormText(raw.get(name) ?? '%')
  if (raw.has('SAMLRequest') && raw.has('SAMLResponse')) return 'a request and a response at once'
  const name = raw.has('SAMLRequest') ? 'SAMLRequest' : 'SAMLResponse'
  if (!raw.has(name)) return undefined
  // 3.4.4.1: DEFLATE is the default encoding, and SAML defines no other.
  if (raw.has('SAMLEncoding') && value('SAMLEncoding') !== DEFLATE) return 'an unknown SAMLEncoding'
  const deflated = decodeBase64(value(name) ?? '')
  if (deflated === undefined) return 'the message is not base64'
  const bytes = attempt(() => inflateRawSync(deflated, { maxOutputLength: logoutLimits.size }))
  if (bytes === undefined) return 'the message does not inflate, or not within its limit'
  const message = { name, bytes, relayState: value('RelayState'), signature: undefined } as const
  if (!raw.has('Signature') && !raw.has('SigAlg')) return message
  const algorithm = value('SigAlg')
  const signature = decodeBase64(value('Signature') ?? '')
  if (!raw.has('Signature') || algorithm === undefined) {
    return 'a signature without algorithm, or the reverse'
  }
  if (signature === undefined) return 'the signature is not base64'
  // 3.4.4.1: the signature is over this order, even when the parameters arrive in another.
  const signedText = [name, 'RelayState', 'SigAlg']
    .filter(parameter => raw.has(parameter))
    .map(parameter => `${parameter}=${raw.get(parameter)}`)
    .join('&')
  return { ...message, signature: { algorithm, value: signature, signedText } }
}

const PARAMETERS = [
  'SAMLRequest',
  'SAMLResponse',
  'RelayState',
  'SigAlg',
  'Signature',
  'SAMLEncoding',
]

const DEFLATE = 'urn:oasis:names:tc:SAML:2.0:bindings:URL-Encoding:DEFLATE'

/** The reason why a message is not signed by one of these keys; undefined when it is. */
export function checkRedirectSignature(
  { signature }: RedirectMessage,
  { certificates, allowSha1 }: SignatureRules,
): MessageReason | undefined {
  if (signature === undefined) return 'signature_missing'
  const { algorithm, value, signedText } = signature
  const problem = methodProblem(algorithm, allowSha1)
  if (problem !== undefined) return problem
  // The binding does not say how ECDSA values are written: most products write DER, others as XML Signature does.
  const good = (['ieee-p1363', 'der'] as const).some(form =>
    isSignedBy(certificates, algorithm, { data: signedText, value, form }),
  )
  return good ? undefined : 'signature_invalid'
}
