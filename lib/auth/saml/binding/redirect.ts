/**
 * The HTTP-Redirect binding, saml-bindings-2.0-os section 3.4: messages in a query, and signatures over the very bytes of it.
 *
 * # Facts
 * - What is signed is the query as it was sent: `SAMLRequest=…&RelayState=…&SigAlg=…`, still percent-encoded. Whoever decodes
 *   and encodes again verifies something else, and whoever looks parameters up by decoded name can be shown two messages of
 *   which only one is signed. So the names are taken literally, each once, and the bytes are never written anew.
 * - The message is deflated; what it inflates to is bounded before it is inflated.
 */
import { createPublicKey, createSign, createVerify } from 'node:crypto'
import { deflateRawSync, inflateRawSync } from 'node:zlib'
import { decodeBase64 } from '../core/base64.ts'
import type { MessageReason } from '../core/message.ts'
import { messageLimits } from '../core/scan.ts'
import type { SigningKey } from '../core/signature.ts'
import { signatureMethods } from '../core/vocabulary.ts'

export type MessageName = 'SAMLRequest' | 'SAMLResponse'

/**
 * The address a browser is sent to with a message for `location`. The query of the location stays; with a key the message is
 * signed, RSA with SHA-256.
 */
export function redirectAddress(
  location: string,
  message: { readonly name: MessageName; readonly xml: string; readonly relayState?: string },
  key: SigningKey | undefined,
): string {
  const encoded = deflateRawSync(Buffer.from(message.xml)).toString('base64')
  let query = `${message.name}=${encodeURIComponent(encoded)}`
  if (message.relayState !== undefined)
    query += `&RelayState=${encodeURIComponent(message.relayState)}`
  if (key !== undefined) {
    query += `&SigAlg=${encodeURIComponent(signatureMethods.rsaSha256)}`
    const signature = createSign('sha256').update(query).sign(key.privateKey, 'base64')
    query += `&Signature=${encodeURIComponent(signature)}`
  }
  return `${location}${location.includes('?') ? '&' : '?'}${query}`
}

export interface RedirectMessage {
  readonly name: MessageName
  /** Inflated, not yet scanned. */
  readonly bytes: Buffer
  readonly relayState: string | undefined
  readonly signature: RedirectSignature | undefined
}

interface RedirectSignature {
  readonly algorithm: string
  readonly value: Buffer
  /** The bytes of the query it is over. */
  readonly over: string
}

/**
 * Reads the query of a request. Undefined when it carries no message at all; a sentence when it carries one that is not as
 * the binding has it.
 */
export function readRedirect(query: string | undefined): RedirectMessage | string | undefined {
  const raw = new Map<string, string>()
  for (const piece of (query ?? '').split('&')) {
    const equals = piece.indexOf('=')
    const name = equals < 0 ? piece : piece.slice(0, equals)
    const decoded = decodeQuery(name)
    if (decoded === undefined || !PARAMETERS.includes(decoded)) continue
    // A name that only decodes to ours is how a second message hides behind a signed one.
    if (decoded !== name) return 'a parameter name is percent-encoded'
    if (raw.has(name)) return `the parameter ${name} occurs twice`
    raw.set(name, equals < 0 ? '' : piece.slice(equals + 1))
  }
  const request = raw.get('SAMLRequest')
  const response = raw.get('SAMLResponse')
  if (request !== undefined && response !== undefined) return 'a request and a response at once'
  const name: MessageName = request !== undefined ? 'SAMLRequest' : 'SAMLResponse'
  const encoded = request ?? response
  if (encoded === undefined) return undefined
  // 3.4.4.1: the default encoding, and there is no other.
  const encoding = decodeQuery(raw.get('SAMLEncoding') ?? DEFLATE)
  if (encoding !== DEFLATE) return 'an unknown SAMLEncoding'
  const bytes = inflate(encoded)
  if (typeof bytes === 'string') return bytes
  const rawRelayState = raw.get('RelayState')
  const relayState = rawRelayState === undefined ? undefined : decodeQuery(rawRelayState)
  const signature = readSignature(name, raw)
  return typeof signature === 'string' ? signature : { name, bytes, relayState, signature }
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

function inflate(encoded: string): Buffer | string {
  const decoded = decodeQuery(encoded)
  const deflated = decoded === undefined ? undefined : decodeBase64(decoded)
  if (deflated === undefined) return 'the message is not base64'
  try {
    return inflateRawSync(deflated, { maxOutputLength: messageLimits.size })
  } catch {
    return 'the message does not inflate, or not within its limit'
  }
}

function readSignature(name: MessageName, raw: ReadonlyMap<string, string>) {
  const signature = raw.get('Signature')
  const sigAlg = raw.get('SigAlg')
  if (signature === undefined && sigAlg === undefined) return undefined
  if (signature === undefined || sigAlg === undefined)
    return 'a signature without algorithm, or the reverse'
  const value = decodeBase64(decodeQuery(signature) ?? '!')
  const algorithm = decodeQuery(sigAlg)
  if (value === undefined || algorithm === undefined) return 'the signature is not base64'
  // 3.4.4.1: in this order, whatever order they came in.
  const over = [name, 'RelayState', 'SigAlg']
    .filter(parameter => raw.has(parameter))
    .map(parameter => `${parameter}=${raw.get(parameter)}`)
    .join('&')
  return { algorithm, value, over }
}

/** Why a message is not signed by one of these keys; undefined when it is. */
export function checkRedirectSignature(
  message: RedirectMessage,
  rules: { readonly certificates: readonly string[]; readonly allowSha1: boolean },
): MessageReason | undefined {
  const { signature } = message
  if (signature === undefined) return 'signature_missing'
  const { algorithm, value, over } = signature
  if (algorithm === signatureMethods.rsaSha1 && !rules.allowSha1) return 'signature_sha1'
  const hash = HASHES.get(algorithm)
  if (hash === undefined) return 'signature_algorithm'
  const good = rules.certificates.some(certificate => {
    const key = createPublicKey(certificate)
    return key.asymmetricKeyType === 'rsa' && createVerify(hash).update(over).verify(key, value)
  })
  return good ? undefined : 'signature_invalid'
}

/** A Map: what strangers name must not find what every object has. */
const HASHES: ReadonlyMap<string, string> = new Map([
  [signatureMethods.rsaSha1, 'sha1'],
  [signatureMethods.rsaSha256, 'sha256'],
  [signatureMethods.rsaSha512, 'sha512'],
])

function decodeQuery(text: string): string | undefined {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    return undefined
  }
}
