/**
 * Makes and rotates the keys of an instance, its dynamic configuration.
 *
 * The newest key comes first: it signs, seals or is published for encryption. All keys verify, open or decrypt until they
 * retire. A key pair is published before it signs (`signingKey`). The file is dynamic-file.ts.
 */
import { generateKeyPair } from 'node:crypto'
import { promisify } from 'node:util'
import type { Milliseconds } from '../../async/clock.ts'
import { selfSignedCertificate } from '../../x509/x509.ts'

export interface Key {
  readonly kid: string
  readonly created: Milliseconds
  /** The moment the key leaves the file; undefined for the current key. */
  readonly retires: Milliseconds | undefined
}

/** A key of 32 bytes for AES-256-GCM. */
export interface SealingKey {
  readonly kid: string
  readonly key: Buffer
}

/** A key of session tokens, or of values that browsers keep. */
export interface SecretKey extends Key, SealingKey {}

/** P-256. */
export interface IdentityKey extends Key {
  /** The moment from which verifiers have fetched the key and it may sign; undefined when it is the usual time of its kind. */
  readonly signs?: Milliseconds | undefined
  /** PKCS #8 in PEM. Never log it. */
  readonly privateKey: string
}

/** RSA. */
export interface SamlKeyPair extends IdentityKey {
  /** Self-signed certificate in PEM. */
  readonly certificate: string
}

export interface DynamicConfig {
  readonly entityId: string
  readonly session: readonly SecretKey[]
  readonly sealing: readonly SecretKey[]
  readonly saml: readonly SamlKeyPair[]
  /** The keys of the signed identity. */
  readonly identity: readonly IdentityKey[]
}

export interface KeyMakingOptions {
  readonly entityId: string
  readonly domain: string
  readonly now: Milliseconds
  readonly random: (size: number) => Buffer
  /** Makes the key pairs. The demonstration makes smaller keys, and tests use keys they made before. */
  readonly makePair?: typeof selfSignedCertificate
}

const CERTIFICATE_LIFETIME: Milliseconds = 10 * 365 * 86_400_000
/** The time an old identity key stays: longer than the time until the new key signs and the lifetime of a token. */
const IDENTITY_OVERLAP: Milliseconds = 3_600_000

/** New keys of every kind. */
export async function makeDynamicConfig(making: KeyMakingOptions): Promise<DynamicConfig> {
  return {
    entityId: making.entityId,
    session: [newSecret(making)],
    sealing: [newSecret(making)],
    saml: [await newKeyPair(making)],
    identity: [await newIdentityKey(making)],
  }
}

/**
 * The same configuration with a new key of every kind in front; the old ones retire after their overlap, those of identities
 * after one of their own. With `atOnce` new key pairs sign at once, before verifiers have had time to fetch them.
 */
export async function rotateKeys(
  config: DynamicConfig,
  making: KeyMakingOptions,
  overlap: {
    readonly session: Milliseconds
    readonly saml: Milliseconds
    readonly atOnce?: boolean
  },
): Promise<DynamicConfig> {
  const { now } = making
  const signs = overlap.atOnce ? { signs: now } : {}
  const later = overlap.atOnce ? now : samlSigns(now, overlap.saml)
  const retire = <K extends Key>(keys: readonly K[], after: Milliseconds): K[] =>
    keys
      .filter(isLive(now))
      .map(key => ({ ...key, retires: Math.min(key.retires ?? Infinity, now + after) }))
  const { entityId, session, sealing, saml, identity } = await makeDynamicConfig(making)
  return {
    entityId,
    session: [...session, ...retire(config.session, overlap.session)],
    sealing: [...sealing, ...retire(config.sealing, overlap.session)],
    saml: [...saml.map(key => ({ ...key, signs: later })), ...retire(config.saml, overlap.saml)],
    identity: [
      ...identity.map(key => ({ ...key, ...signs })),
      ...retire(config.identity, IDENTITY_OVERLAP),
    ],
  }
}

/** The moment a new SAML key begins to sign: the IdP has half of the overlap to fetch it, and the old key stays for the other half. */
export function samlSigns(now: Milliseconds, overlap: Milliseconds): Milliseconds {
  return now + overlap / 2
}

/** The time a key of a kind is published before it signs, when the key has no moment of its own. */
export const publishedFor = { saml: 0, identity: 600_000 } as const

/** The key that signs now, of keys newest first: the newest that may, or the oldest when none may. */
export function signingKey<K extends IdentityKey>(
  keys: readonly K[],
  now: Milliseconds,
  wait: Milliseconds,
): K | undefined {
  return keys.find(({ created, signs = created + wait }) => signs <= now) ?? keys.at(-1)
}

/**
 * The certificates that our metadata publishes, newest first: for encryption all key pairs that still decrypt; for signatures
 * the newest, and those that still sign in its place.
 */
export function publishedCertificates(pairs: readonly SamlKeyPair[], now: Milliseconds) {
  const current = signingKey(pairs, now, publishedFor.saml)
  const encryption = pairs.map(({ certificate }) => certificate)
  const signing = encryption.slice(0, current === undefined ? 0 : pairs.indexOf(current) + 1)
  return { signing, encryption }
}

/** Whether a key has not retired at `now`. */
export function isLive(now: Milliseconds): (key: Key) => boolean {
  return ({ retires }) => retires === undefined || retires > now
}

function newKey({ now, random }: Pick<KeyMakingOptions, 'now' | 'random'>): Key {
  return { kid: random(8).toString('hex'), created: now, retires: undefined }
}

function newSecret(making: KeyMakingOptions): SecretKey {
  return { ...newKey(making), key: making.random(32) }
}

async function newIdentityKey(
  making: Pick<KeyMakingOptions, 'now' | 'random'>,
): Promise<IdentityKey> {
  const { privateKey } = await promisify(generateKeyPair)('ec', { namedCurve: 'P-256' })
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  return { ...newKey(making), privateKey: pem }
}

async function newKeyPair(making: KeyMakingOptions): Promise<SamlKeyPair> {
  const { domain, now, makePair = selfSignedCertificate } = making
  const pair = await makePair({ name: domain, now, lifetime: CERTIFICATE_LIFETIME })
  return { ...newKey(making), ...pair }
}
