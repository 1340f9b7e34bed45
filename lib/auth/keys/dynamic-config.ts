/**
 * The dynamic configuration as a value: the keys of sessions, of login state, of SAML and of identities; how new ones are made, and
 * how they are rotated with an overlap. The file they live in is `dynamic-file.ts`; who uses them is told elsewhere.
 *
 * Newest first: the first of each signs, seals or is published for encryption, all verify, open or decrypt until they retire;
 * of `identity` the first waits until every backend knows it (identity-key.ts).
 */
import type { Milliseconds } from '../../async/clock.ts'
import { selfSigned } from '../../x509/self-signed.ts'
import { type IdentityKey, identityOverlap, newIdentityKey } from '../identity/identity-key.ts'

export interface SealingKey {
  readonly kid: string
  readonly key: Buffer
}

export interface SamlKeyPair {
  readonly kid: string
  /** PKCS #8 in PEM. Never log it. */
  readonly privateKey: string
  /** Self-signed certificate in PEM. */
  readonly certificate: string
  readonly created: Milliseconds
  /** When the pair leaves the file; undefined for the current one. */
  readonly retires: Milliseconds | undefined
}

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
