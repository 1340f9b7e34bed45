/**
 * Reads and writes the file of the dynamic configuration, JSON at `configPath` with mode 0600, and checks its owner.
 *
 * # Format, version 2
 *     { "version": 2, "entityId": "https://app.example.org/saml/metadata",
 *       "session": [{ "kid", "key" (base64url, 32 bytes), "created", "retires"? }],
 *       "sealing": [the same], "saml": [{ "kid", "privateKey" (PEM), "certificate" (PEM), "created", "signs"?, "retires"? }],
 *       "identity": [{ "kid", "privateKey" (PEM), "created", "signs"?, "retires"? }] }
 * Newest first. Moments are milliseconds since the epoch.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { constants, type Stats } from 'node:fs'
import { access, chmod, stat } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import type { Milliseconds } from '../../async/clock.ts'
import { attempt, explainError, Failure, systemCode, unreadableReason } from '../../errors.ts'
import { writeFileAtomically } from '../../files/atomic-file.ts'
import { readBounded } from '../../files/bounded-file.ts'
import { isRecord, type JsonObject, jsonText, parsedJson } from '../../json.ts'
import type { DynamicConfig, IdentityKey, Key, SamlKeyPair, SecretKey } from './dynamic-config.ts'

/** The largest file that is read, in bytes. */
const LARGEST = 1024 * 1024

const code = 'DYNAMIC_CONFIG'

/** Reads the file; undefined when there is none. Throws a Failure that names the file and what is wrong with it. */
export async function readDynamicConfig(path: string): Promise<DynamicConfig | undefined> {
  try {
    const { bytes, stats } = await readBounded(path, LARGEST)
    await checkOwner(path, stats)
    return contentOf(bytes)
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined
    const why = unreadableReason(error)
    const sentence = `failed to load dynamic configuration ${path}: ${why}`
    throw new Failure(sentence, { code, cause: error })
  }
}

/** The sockets that lock the file: the process that holds the lock answers there. */
export function lockOf(path: string): { readonly directory: string; readonly lock: string } {
  return { directory: dirname(path), lock: `${basename(path)}.lock` }
}

/** A user who can write the file can sign in as any user. The owner of the directory can replace it in any case. */
async function checkOwner(path: string, { uid, mode }: Stats): Promise<void> {
  if ((mode & 0o022) !== 0) {
    const octal = (mode & 0o777).toString(8)
    throw new Error(
      `others may write it (mode ${octal}), and so make sessions of their own; if none of them has, chmod 600 ${path}`,
    )
  }
  const trusted = [process.geteuid?.() ?? uid, 0, (await stat(dirname(path))).uid]
  if (!trusted.includes(uid)) {
    throw new Error(
      `it belongs to another user (${uid}), who could make sessions of their own; if they have not, give it to the service user`,
    )
  }
}

/** Whether other users than the owner could read the keys; takes that permission away, where this process may. */
export async function closeToOthers(path: string): Promise<boolean> {
  const { mode } = await stat(path)
  if ((mode & 0o077) === 0) return false
  await chmod(path, 0o600).catch(() => undefined)
  return true
}

/**
 * Writes the file, whole or not at all; with `exclusive` only where there is none. Throws a Failure that names the file. When
 * root rotates the keys of a service, the file gets the owner of the directory: the service could not read a file of root's.
 */
export async function saveDynamicConfig(
  path: string,
  config: DynamicConfig,
  { exclusive = false } = {},
): Promise<void> {
  try {
    const owner = process.geteuid?.() === 0 ? await stat(dirname(path)) : undefined
    await writeFileAtomically(path, encode(config), { mode: 0o600, exclusive, owner })
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

/** The Failure of a file that cannot be written, with a remedy. An error that already is a Failure stays as it is. */
export function cannotSave(path: string, error: unknown): Failure {
  if (error instanceof Failure) return error
  const directory = dirname(path)
  const mend: Readonly<Record<string, string>> = {
    ENOENT: `the directory ${directory} does not exist; make it and give it to the service user`,
    EACCES: `the directory ${directory} is not writable for the service user`,
    EROFS: `the directory ${directory} is on a read-only file system`,
    EISDIR: 'a directory of that name is in the way',
    ENOSPC: 'the disk is full',
    EEXIST: 'a link of that name leads nowhere; fix or remove it',
  }
  const why = mend[systemCode(error) ?? ''] ?? explainError(error)
  const sentence = `failed to save dynamic configuration ${path}: ${why}`
  return new Failure(sentence, { code, cause: error })
}

function encode(config: DynamicConfig): string {
  const secret = ({ key, ...rest }: SecretKey) => ({ ...rest, key: key.toString('base64url') })
  const [session, sealing] = [config.session.map(secret), config.sealing.map(secret)]
  return jsonText({ version: 2, ...config, session, sealing })
}

/** The content of the file. Only damaged content brings the advice to delete the file, so that no usable keys are lost. */
function contentOf(bytes: Buffer): DynamicConfig {
  // The text that JSON.parse quotes in an error may be a key.
  const found = parsedJson(bytes.toString())
  const version = isRecord(found) ? found['version'] : undefined
  if (typeof version === 'number' && version > 2) {
    throw new Error(`it has version ${version}, which a newer authproxy has written`)
  }
  try {
    if (found === undefined) throw new Error('it is not JSON')
    return decode(found)
  } catch (error) {
    throw new Error(`${explainError(error)}; delete it to have new keys made`)
  }
}

function decode(found: unknown): DynamicConfig {
  const file = record(found, 'it')
  const { version, entityId } = file
  if (version !== 2) throw new Error('it is not of version 2')
  return {
    entityId: typeof entityId === 'string' ? entityId : '',
    session: list(file, 'session').map(secretOf),
    sealing: list(file, 'sealing').map(secretOf),
    saml: list(file, 'saml').map(pairOf),
    identity: list(file, 'identity').map(identityKeyOf),
  }
}

function list(file: JsonObject, name: string): readonly JsonObject[] {
  const found = file[name]
  if (Array.isArray(found) && found.length > 0 && found.length <= 100) {
    return found.map(key => record(key, `a key of "${name}"`))
  }
  throw new Error(`"${name}" is not a list of keys`)
}

/** The members that every key has. */
function keyOf({ kid, created, retires }: JsonObject): Key {
  if (typeof kid !== 'string' || !/^[A-Za-z0-9_-]{1,64}$/.test(kid)) {
    throw new Error('a key has no usable "kid"')
  }
  const end = retires === undefined ? undefined : momentOf(retires)
  return { kid, created: momentOf(created), retires: end }
}

function momentOf(found: unknown): Milliseconds {
  if (typeof found === 'number' && Number.isFinite(found)) return found
  throw new Error('a key does not say when it was made, when it signs or when it retires')
}

function secretOf(found: JsonObject): SecretKey {
  const key = Buffer.from(textOf(found['key']), 'base64url')
  if (key.length !== 32) throw new Error('a secret key does not have 32 bytes')
  return { ...keyOf(found), key }
}

function pairOf(found: JsonObject): SamlKeyPair {
  const [privateKey, certificate] = [textOf(found['privateKey']), textOf(found['certificate'])]
  if (!privateKey.startsWith('-----BEGIN PRIVATE KEY-----')) {
    throw new Error('a private key of SAML is not PKCS #8 in PEM')
  }
  const signs = signsOf(found)
  // The error may quote a key.
  const fits = attempt(() =>
    new X509Certificate(certificate).checkPrivateKey(createPrivateKey(privateKey)),
  )
  if (fits !== true) throw new Error('a key pair of SAML cannot be read, or does not fit together')
  return { ...keyOf(found), ...signs, privateKey, certificate }
}

function identityKeyOf(found: JsonObject): IdentityKey {
  const privateKey = textOf(found['privateKey'])
  const details = attempt(() => createPrivateKey(privateKey).asymmetricKeyDetails)
  if (details?.namedCurve !== 'prime256v1') {
    throw new Error('a key of identities is not of P-256 in PEM')
  }
  return { ...keyOf(found), ...signsOf(found), privateKey }
}

function signsOf({ signs }: JsonObject): Pick<IdentityKey, 'signs'> {
  return signs === undefined ? {} : { signs: momentOf(signs) }
}

function textOf(found: unknown): string {
  return typeof found === 'string' ? found : ''
}

function record(found: unknown, what: string): JsonObject {
  if (isRecord(found)) return found
  throw new Error(`${what} is not an object`)
}
