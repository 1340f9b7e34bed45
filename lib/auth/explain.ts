/**
 * The command `authproxy explain REFERENCE` prints the record of a failure, field by field, and advice: which setting of this
 * service or of the IdP decides it. A running instance answers from memory; while none runs, the command reads the file of the
 * instance.
 */
import { systemCode } from '../errors.ts'
import { printable } from '../log/redact.ts'
import { type FailureRecord, readFailures } from './pages/failure-records.ts'
import { idpStatuses } from './pages/idp-statuses.ts'

/** The explanation of a failure from the file of an instance that does not run. */
export async function explainFromFile(reference: string, file: string) {
  try {
    return explain(reference, await readFailures(file))
  } catch (error) {
    const why =
      systemCode(error) === 'ENOENT' ? 'no failure has been kept yet' : 'it cannot be read'
    return { found: false, lines: [`${file}: ${why}`] }
  }
}

/** The lines that explain a failure, or say that it is not known; the oldest failure is first. */
export function explain(reference: string, failures: readonly FailureRecord[]) {
  // People write the category and the ID in quotes, and then they are one operand.
  const id = reference.replace(/^(?:(?:SAML|PROXY)-ERROR|ACCESS-REFUSED)[\s:]*/, '').trim()
  const failure = failures.findLast(candidate => candidate.id === id)
  if (failure === undefined) {
    const [oldest] = failures
    const since = oldest === undefined ? '' : `; failures are known since ${timeOf(oldest)}`
    return { found: false, lines: [`no failure has the request ID ${printable(id)}${since}`] }
  }
  return { found: true, lines: linesOf(failure).map(printable) }
}

function linesOf(failure: FailureRecord): readonly string[] {
  const { category, code, title, status, method, path, client, facts, findings } = failure
  const lines = [
    `${category} ${code}`,
    `${title} (status ${status})`,
    '',
    pair('when', timeOf(failure)),
    pair('client', client),
    pair('request', `${method} ${path}`),
    ...Object.entries(facts ?? {}).map(([name, value]) => pair(name, textOf(value))),
  ]
  if (findings.length > 0) lines.push('')
  for (const { what, ok, expected, received } of findings) {
    lines.push(`${ok ? 'ok   ' : 'WRONG'} ${what}`)
    if (ok && expected === received) continue
    lines.push(`      expected ${expected}`, `      received ${received}`)
  }
  const advice = adviceOn(failure)
  if (advice.length > 0) lines.push('', 'what to do')
  return [...lines, ...advice.map(sentence => `  - ${sentence}`)]
}

function pair(name: string, value: string): string {
  return `${name.padEnd(12)} ${value}`
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '')
}

function timeOf({ at }: FailureRecord): string {
  return new Date(at).toISOString()
}

/** The advice for a failure, the most likely remedy first. The list is empty when nothing but the record itself helps. */
export function adviceOn(failure: FailureRecord): readonly string[] {
  const { code, facts = {}, findings } = failure
  const status = ` ${facts['problem'] ?? ''} `
  if (code === 'idp_status') {
    const found = [...idpStatuses].filter(([name]) => status.includes(name))
    return found.length === 0 ? ADVICE['idp_status'] : found.map(([, { advice }]) => advice)
  }
  if (facts['cause'] === 'session_short') return SHORT
  if (code === 'access_refused') return facts['unreadAttributes'] === undefined ? [] : LOOSE
  if (code === 'request_not_kept') return KEPT.get(`${facts['because']}`) ?? []
  if (code.endsWith('signature_algorithm') && isCanonicalisation(findings)) {
    return [
      'At the identity provider choose exclusive canonicalisation, http://www.w3.org/2001/10/xml-exc-c14n#, for SignedInfo and as the second transform, after enveloped-signature. Inclusive canonicalisation is not taken: it puts into the signature what stands around the element.',
    ]
  }
  const isLogout = code.startsWith('logout_')
  const bare = isLogout ? code.slice('logout_'.length) : code
  const own = Object.hasOwn(ADVICE, code) ? code : `logout ${bare}`
  if (isAdvised(own)) return ADVICE[own]
  return isAdvised(bare) ? ADVICE[bare] : []
}

function isAdvised(code: string): code is keyof typeof ADVICE {
  return Object.hasOwn(ADVICE, code)
}

function isCanonicalisation(findings: FailureRecord['findings']): boolean {
  return findings.some(({ what }) => what === 'CanonicalizationMethod' || what === 'Transforms')
}

/** The advice on a refusal by a rule where attributes of the last login have names like known ones. */
const LOOSE: readonly string[] = [
  'The last login brought the attributes of `unreadAttributes`, which nothing reads: their names differ from known ones in capitals or in what stands before them. So the person may lack what the rule asks for.',
  'identity.looseNames: true reads them too; or name them under identity.attributes, or as we know them at the identity provider.',
]

/** The advice on sessions that the IdP ends so soon that they seem lost. */
const SHORT = [
  'The assertion has a SessionNotOnOrAfter of seconds or minutes: set a longer lifetime of sessions at the identity provider. session.lifetime can only shorten it.',
] as const

const clocks = [
  'Set the clocks of this server and of the identity provider by NTP.',
  'saml.clockSkew says how far they may differ, saml.assertionAge how old an answer may be.',
] as const

const endpoints =
  'Give the identity provider the metadata of this service again (/saml/metadata), or compare `domain` with the address it has.'

const keys = [
  'Compare the fingerprints of the log line "signing keys of the IdP" with the certificate the identity provider signs with; authproxy doctor shows them too.',
  'Metadata from idpMetadataFile is read once: after a change of keys at the identity provider put a new file there and restart.',
] as const

const certificate =
  'Give the identity provider the encryption certificate of the metadata of this service (/saml/metadata) again: it has an older one, or that of another service.'

const document =
  'The key is right, so changing certificates does not help. The identity provider encrypts something that is no XML document in its place: the record says what is wrong with it.'

const tooMuch = [
  'Have the identity provider send the groups this application needs, and no others: it calls that a filter of the group claim.',
  'Or raise saml.responseSize, the largest answer that is taken; the number of elements rises with it.',
  'What the session keeps is another matter: identity.groups, identity.only and session.cookieSize.',
] as const

const ADVICE = {
  idp_status: [
    'The identity provider refused the login itself; its own log says why.',
    'If it says that the person lacks access, assign the application to them there.',
  ],
  unsolicited: [
    'The login began at the identity provider. Let its tile or bookmark lead to the address of the application instead.',
    'saml.idpInitiated: true takes such logins; docs/authproxy-threats.md says what that opens.',
  ],
  login_cookie_missing: [
    'If the login began at a tile of the identity provider, let the tile lead to the address of the application, or set saml.idpInitiated: true.',
    'Otherwise the browser sent no cookie of a login: saml.loginTime was over, cookies are blocked, or it began under another host name or without TLS.',
  ],
  login_unknown: [
    'The login took longer than saml.loginTime, or more tabs began one than cookies have room for.',
  ],
  login_cookie_invalid: [
    'The cookie was sealed with other keys: several servers with different dynamic configurations answer under this name, or the file was replaced.',
  ],
  in_response_to: [
    'The answer belongs to another login: it was begun in another browser, or is already used. Let the identity provider return RelayState unchanged.',
  ],
  destination: [endpoints],
  recipient: [endpoints],
  audience: [
    `Give the identity provider the entity ID of the record as audience, exactly. It may call it "Identifier", "SP entity ID" or "Audience URI".`,
    'An audience with a prefix, such as spn:, is not equal: change it at the identity provider.',
  ],
  issuer: [
    'idpEntityID and the metadata name another identity provider than the one that answered; compare both values, a final slash counts.',
  ],
  version: ['Only SAML 2.0 is spoken here.'],
  expired: clocks,
  not_yet_valid: clocks,
  issue_instant: clocks,
  too_old: clocks,
  session_over: clocks,
  subject_confirmation: [
    'Have the identity provider use the Web Browser SSO profile, with a SubjectConfirmation of method bearer.',
  ],
  authn_statement: [
    'Have the identity provider send an AuthnStatement: an answer with attributes alone signs no user in.',
  ],
  authn_context: ['saml.authnContext names what is asked for; `received` is what was used.'],
  authn_stale: [
    'saml.forceAuthn asks for a new authentication, but the identity provider used an earlier one. Change either.',
  ],
  authn_future: [
    'Have the identity provider write AuthnInstant in UTC, or set its clock: a login of the future is not known to be new.',
  ],
  signature_missing: ['Have the identity provider sign the Response or the assertion.'],
  'logout signature_missing': [
    'Have the identity provider sign logout messages, where it can.',
    'saml.allowUnsignedLogout: true takes them without a signature, from Entra and OneLogin for example.',
  ],
  signature_sha1: [
    'At the identity provider choose SHA-256 for signature and digest.',
    'saml.allowSHA1: true takes SHA-1 until then.',
  ],
  signature_algorithm: [
    'At the identity provider choose RSA with SHA-256; RSA-PSS and ECDSA, and SHA-384 and SHA-512, are taken too.',
  ],
  signature_reference: [
    'The signature has to name the ID of the element around it, which must occur once. The record says which ID came.',
  ],
  signature_form: [
    'The signature has parts that SAML does not have (saml-core section 5.4); choose the plain form of signature at the identity provider.',
  ],
  signature_invalid: keys,
  encryption_key: [
    certificate,
    'After authproxy rotate-keys an old key pair decrypts for as long as keys.overlap says.',
  ],
  encryption_document: [document],
  encryption_algorithm: [
    'At the identity provider choose AES-128 or AES-256 in GCM or CBC for the content, and RSA-OAEP for the key. RSA PKCS #1 1.5 is never taken.',
  ],
  encryption_limit: tooMuch,
  'xml_too-large': tooMuch,
  'xml_too-many-elements': tooMuch,
  'xml_too-many-attributes': tooMuch,
  'xml_too-many-references': tooMuch,
  form_too_large: tooMuch,
  'logout form_too_large': [
    'A message about signing out names one person: what came is not from an identity provider, or belongs to another address.',
  ],
  encryption_form: [
    'The encrypted element has no readable EncryptedData or EncryptedKey with a CipherValue inside it.',
  ],
  encryption_tries: [
    'One EncryptedKey came again and again in messages that were refused. If it is not an attack, look at the first record of the kind.',
  ],
  replay: ['The answer was used before: the browser has posted it again, or a copy is sent.'],
  used_ids_full: [
    'The list of used IDs is full: 100,000 answers in the few minutes for which each is valid. No answer is accepted until the oldest lapse.',
  ],
  idp_metadata: ['authproxy doctor says what is wrong with the metadata of the identity provider.'],
  subject_missing: [
    'Have the identity provider release a NameID or the attribute email; saml.nameIDFormat says which NameID is asked for, identity.attributes which attributes are read.',
  ],
  encrypted_id: [
    'The name in an unsigned logout message is encrypted; it is decrypted only when the message is signed.',
  ],
  cookie_too_large: [
    'identity.groups and identity.only keep fewer values; session.cookieSize says how much a session may take.',
  ],
} as const satisfies Readonly<Record<string, readonly string[]>>

/** Advice by the reason for which a post was not kept. */
const KEPT: ReadonlyMap<string, readonly string[]> = new Map([
  ['off', ['saml.replaySize is 0: forms are not kept. A larger value keeps them during a login.']],
  [
    'foreign',
    [
      'Browsers send no session cookie with a form of another site (SameSite=Lax). A path in passthroughPaths takes such posts, without an identity.',
    ],
  ],
  ['type', ['Only forms are kept. Let the application sign its user in again before it posts.']],
  ['too-large', ['saml.replaySize says how large a form may be that is kept.']],
  ['busy', ['The memory for kept forms was full; they end with saml.loginTime.']],
])
