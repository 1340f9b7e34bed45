/**
 * The dynamic configuration: the keys of sessions, of login state, of SAML and of identities, as JSON at `configPath`, mode 0600. What the
 * file says, how it is made, and how keys are rotated with an overlap; who uses them is told elsewhere.
 *
 * # Format, version 2
 *     { "version": 2, "entityId": "https://app.example.org/saml/metadata",
 *       "session": [{ "kid", "key" (base64url, 32 bytes), "created", "retires"? }],
 *       "sealing": [the same], "saml": [{ "kid", "privateKey" (PEM), "certificate" (PEM), "created", "retires"? }],
 *       "identity": [{ "kid", "privateKey" (PEM), "created", "retires"? }] }
 * Newest first: the first of each signs, seals or is published for encryption, all verify, open or decrypt until they retire;
 * of "identity" the first waits until every backend knows it (identity-key.ts). Version 1 had no "identity"; its files are
 * read, and written again with one.
 * Moments are milliseconds since the epoch.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { constants } from 'node:fs'
import { access, readFile, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { writeFileAtomically } from '../atomic-file.ts'
import type { Milliseconds } from '../clock.ts'
import { explainError, Failure, systemCode } from '../errors.ts'
import { selfSigned } from '../x509-self-signed.ts'
import { type IdentityKey, identityOverlap, newIdentityKey } from './identity-key.ts'
import type { SamlKeyPair } from './saml/contract.ts'

export interface SecretKey {
  readonly kid: string
  /** 32 bytes. */
  readonly key: Buffer
  readonly created: Milliseconds
  readonly retires: Milliseconds | undefined
}

export interface DynamicConfig {
  readonly entityId: string
  readonly session: readonly SecretKey[]
  readonly sealing: readonly SecretKey[]
  readonly saml: readonly SamlKeyPair[]
  /** None in a file of version 1. */
  readonly identity: readonly IdentityKey[]
}

export interface Making {
  readonly entityId: string
  readonly domain: string
  readonly now: Milliseconds
  readonly random: (size: number) => Buffer
  /** Bits of RSA keys, for tests that are in a hurry. */
  readonly modulusLength?: number
}

const CERTIFICATE_LIFETIME = 10 * 365 * 86_400_000
const LARGEST = 1024 * 1024

/** New keys of every kind. */
export async function makeDynamicConfig(making: Making): Promise<DynamicConfig> {
  const { entityId } = making
  const [saml, identity] = [[await newKeyPair(making)], [await newIdentityKey(making)]]
  return { entityId, session: [newSecret(making)], sealing: [newSecret(making)], saml, identity }
}

/** A configuration of an older version with what it lacks; undefined when it lacks nothing. */
export async function upgraded(
  config: DynamicConfig,
  making: Pick<Making, 'now' | 'random'>,
): Promise<DynamicConfig | undefined> {
  return config.identity.length > 0
    ? undefined
    : { ...config, identity: [await newIdentityKey(making)] }
}

/** The same configuration with a new key of every kind in front; the old ones retire after their overlap. */
export async function rotated(
  config: DynamicConfig,
  making: Making,
  overlap: { readonly session: Milliseconds; readonly saml: Milliseconds },
): Promise<DynamicConfig> {
  const { now } = making
  const retire = <K extends { readonly retires: Milliseconds | undefined }>(
    keys: readonly K[],
    after: Milliseconds,
  ): K[] => keys.map(key => ({ ...key, retires: Math.min(key.retires ?? Infinity, now + after) }))
  const current = withoutRetired(config, now)
  return {
    entityId: making.entityId,
    session: [newSecret(making), ...retire(current.session, overlap.session)],
    sealing: [newSecret(making), ...retire(current.sealing, overlap.session)],
    saml: [await newKeyPair(making), ...retire(current.saml, overlap.saml)],
    identity: [await newIdentityKey(making), ...retire(current.identity, identityOverlap)],
  }
}

/** Without the keys that have retired at `now`. */
export function withoutRetired(config: DynamicConfig, now: Milliseconds): DynamicConfig {
  const live = ({ retires }: { retires: Milliseconds | undefined }) =>
    retires === undefined || retires > now
  return {
    ...config,
    session: config.session.filter(live),
    sealing: config.sealing.filter(live),
    saml: config.saml.filter(live),
    identity: config.identity.filter(live),
  }
}

/** Reads the file; undefined when there is none. Throws a Failure that names the file and what is wrong with it. */
export async function readDynamicConfig(path: string): Promise<DynamicConfig | undefined> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined
    throw failure(`failed to load dynamic configuration ${path}`, error)
  }
  try {
    if (text.length > LARGEST) throw new Error('it is far too large')
    return decode(JSON.parse(text))
  } catch (error) {
    // What JSON.parse quotes of the text may be a key.
    const cause = error instanceof SyntaxError ? new Error('it is not JSON') : error
    throw failure(
      `failed to load dynamic configuration ${path}; delete it to have new keys made`,
      cause,
    )
  }
}

/**
 * Writes the file, whole or not at all. Throws a Failure that names it. Root, who rotates keys for a service, writes in the name
 * of whom the directory belongs to: the service could not read a file of root's.
 */
export async function saveDynamicConfig(path: string, config: DynamicConfig): Promise<void> {
  try {
    const owner = process.getuid?.() === 0 ? await stat(dirname(path)) : undefined
    await writeFileAtomically(path, encode(config), { mode: 0o600, owner })
  } catch (error) {
    throw cannotSave(path, error)
  }
}

/** Throws a Failure when the file could not be written, though it does not have to be now. */
export async function checkSaveable(path: string): Promise<void> {
  try {
    await access(dirname(path), constants.W_OK | constants.X_OK)
  } catch (error) {
    throw cannotSave(path, error)
  }
}

function cannotSave(path: string, error: unknown): Failure {
  const directory = dirname(path)
  const mend: Readonly<Record<string, string>> = {
    ENOENT: `the directory ${directory} does not exist; make it and give it to the service user`,
    EACCES: `the directory ${directory} is not writable for the service user`,
    EROFS: `the directory ${directory} is on a read-only file system`,
    EISDIR: 'a directory of that name is in the way',
    ENOSPC: 'the disk is full',
  }
  const why = mend[systemCode(error) ?? ''] ?? 'see the cause'
  return failure(`failed to save dynamic configuration ${path}: ${why}`, error)
}

function failure(message: string, cause: unknown): Failure {
  return new Failure(message, {
    code: 'DYNAMIC_CONFIG',
    fault: 'internal',
    publicText: 'The service cannot start.',
    cause,
  })
}

function newSecret({ now, random }: Making): SecretKey {
  return { kid: random(8).toString('hex'), key: random(32), created: now, retires: undefined }
}

async function newKeyPair({ domain, now, random, modulusLength }: Making): Promise<SamlKeyPair> {
  const pair = await selfSigned({
    name: domain,
    now,
    lifetime: CERTIFICATE_LIFETIME,
    serialNumber: random(15),
    ...(modulusLength === undefined ? {} : { modulusLength }),
  })
  return { kid: random(8).toString('hex'), ...pair, created: now, retires: undefined }
}

function encode(config: DynamicConfig): string {
  const secret = ({ key, ...rest }: SecretKey) => ({ ...rest, key: key.toString('base64url') })
  const { entityId, session, sealing, saml, identity } = config
  const file = {
    version: 2,
    entityId,
    session: session.map(secret),
    sealing: sealing.map(secret),
    saml,
    identity,
  }
  return `${JSON.stringify(file, null, 2)}\n`
}

function decode(found: unknown): DynamicConfig {
  const file = record(found, 'it')
  const { version, entityId } = file
  if (version !== 1 && version !== 2) {
    throw new Error(
      typeof version === 'number' && version > 2
        ? `it has version ${version}, which a newer authproxy has written`
        : 'it names no version',
    )
  }
  return {
    entityId: typeof entityId === 'string' ? entityId : '',
    session: list(file['session'], 'session').map(secretOf),
    sealing: list(file['sealing'], 'sealing').map(secretOf),
    saml: list(file['saml'], 'saml').map(pairOf),
    identity: version === 1 ? [] : list(file['identity'], 'identity').map(identityKeyOf),
  }
}

function list(found: unknown, name: string): readonly unknown[] {
  if (Array.isArray(found) && found.length > 0 && found.length <= 100) return found
  throw new Error(`"${name}" is not a list of keys`)
}

function secretOf(found: unknown): SecretKey {
  const { kid, key, created, retires } = record(found, 'a key')
  const bytes = typeof key === 'string' ? Buffer.from(key, 'base64url') : Buffer.alloc(0)
  if (bytes.length !== 32) throw new Error('a secret key does not have 32 bytes')
  return { kid: kidOf(kid), key: bytes, created: momentOf(created), retires: retiresOf(retires) }
}

function pairOf(found: unknown): SamlKeyPair {
  const { kid, privateKey, certificate, created, retires } = record(found, 'a key pair')
  if (typeof privateKey !== 'string' || !privateKey.startsWith('-----BEGIN PRIVATE KEY-----')) {
    throw new Error('a private key of SAML is not PKCS #8 in PEM')
  }
  if (typeof certificate !== 'string') throw new Error('a certificate of SAML is missing')
  try {
    new X509Certificate(certificate)
  } catch (error) {
    throw new Error(`a certificate of SAML cannot be read: ${explainError(error)}`)
  }
  const times = { created: momentOf(created), retires: retiresOf(retires) }
  return { kid: kidOf(kid), privateKey, certificate, ...times }
}

function identityKeyOf(found: unknown): IdentityKey {
  const { kid, privateKey, created, retires } = record(found, 'a key of identities')
  if (typeof privateKey !== 'string') throw new Error('a key of identities is missing')
  let curve: string | undefined
  try {
    curve = createPrivateKey(privateKey).asymmetricKeyDetails?.namedCurve
  } catch {
    // What OpenSSL says of it may quote it.
  }
  if (curve !== 'prime256v1') throw new Error('a key of identities is not of P-256 in PEM')
  const times = { created: momentOf(created), retires: retiresOf(retires) }
  return { kid: kidOf(kid), privateKey, ...times }
}

function kidOf(found: unknown): string {
  if (typeof found === 'string' && /^[A-Za-z0-9_-]{1,64}$/.test(found)) return found
  throw new Error('a key has no usable "kid"')
}

function momentOf(found: unknown): Milliseconds {
  if (typeof found === 'number' && Number.isFinite(found)) return found
  throw new Error('a key does not say when it was made')
}

function retiresOf(found: unknown): Milliseconds | undefined {
  return found === undefined || found === null ? undefined : momentOf(found)
}

function record(found: unknown, what: string): Readonly<Record<string, unknown>> {
  if (typeof found === 'object' && found !== null && !Array.isArray(found)) return { ...found }
  throw new Error(`${what} is not an object`)
}
