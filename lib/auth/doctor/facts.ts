/**
 * Collects facts that several checks of `authproxy doctor` need, once for each examination.
 */
import { lookup as systemLookup } from 'node:dns/promises'
import type { Clock } from '../../async/clock.ts'
import { explainError } from '../../errors.ts'
import type { Lookup } from '../../http/client/dialling/name-lookup.ts'
import { Fields } from '../../http/message/field.ts'
import { isIpLiteral, parseUri, type TargetUri } from '../../http/message/target.ts'
import type { ListenAddress } from '../../http/server/listen.ts'
import { localIntroduction } from '../../http/server/proxy-protocol.ts'
import { AddressSet } from '../../ip.ts'
import type { Config } from '../config/config.ts'
import { checkSaveable, readDynamicConfig } from '../keys/dynamic-file.ts'
import {
  type ProbeAnswer,
  type ProbeQuestion,
  probeField,
  probeMember,
  probePath,
  readAnswer,
  type SeenCheck,
  sealQuestion,
} from '../probe/probe.ts'
import { ask, type Outcome, type Question, type Reach } from './ask.ts'

export interface Examination {
  readonly config: Config
  /** The source of the configuration, and the warnings about it. */
  readonly from: string
  readonly warnings: readonly string[]
  /** How many groups a user is in; undefined when not given. */
  readonly groups: number | undefined
  readonly clock: Clock
  readonly random: (size: number) => Buffer
  /** The resolver; the system's unless given. */
  readonly lookup?: Lookup
  /** Certificates (PEM) of authorities that are trusted in addition to those of the system. */
  readonly ca?: readonly string[]
}

/** A probe, its answer, and what this instance says arrived, when it is the one that answered. */
export interface ProbeResult {
  readonly outcome: Outcome
  readonly answer: ProbeAnswer | undefined
  /** The name of the question in the probe. */
  readonly nonce: string
}

/** Runs `find` when the first check asks, and once for each examination. */
export function oncePerExamination<T>(find: (of: Examination) => Promise<T>): typeof find {
  const known = new WeakMap<Examination, Promise<T>>()
  return of => {
    const found = known.get(of) ?? find(of)
    known.set(of, found)
    return found
  }
}

/** The keys of the instance, undefined when the file does not exist; or why they cannot be read or replaced. */
export const dynamicFile = oncePerExamination(async ({ config: { configPath, sharedKeys } }) => {
  try {
    await checkSaveable(configPath)
    return { dynamic: await readDynamicConfig(sharedKeys ?? configPath) }
  } catch (problem) {
    return { problem }
  }
})

/** Sends a probe: a sealed question (probe/probe.ts), or a plain request when the keys cannot be read. Never throws. */
export async function sendProbe(
  of: Examination,
  {
    padding = 0,
    about,
    fails,
    redirects,
    status,
    ...question
  }: Question & Partial<Omit<ProbeQuestion, 'nonce'>>,
  reach?: Reach,
): Promise<ProbeResult> {
  const { clock, random } = of
  const keys = (await dynamicFile(of)).dynamic?.sealing ?? []
  const nonce = random(16).toString('hex')
  const asked = { nonce, padding, about, fails, redirects, status }
  const value = keys.length === 0 ? undefined : sealQuestion(asked, clock.now(), { keys, random })
  const fields = Fields.of(
    ['Accept', '*/*'],
    ['User-Agent', 'authproxy-doctor'],
    ['Cache-Control', 'no-cache'],
    [probeField, value],
    ...question.fields,
  )
  const uri = withQuestion(question.uri, value)
  const outcome = await ask(of, { ...question, uri, fields }, reach)
  const answer = outcome.ok ? readAnswer(outcome.content, nonce, keys) : undefined
  return { outcome, answer, nonce }
}

/** The fields of a request that opens a WebSocket (RFC 6455 section 4.1), besides those of the upgrade. */
export function handshakeFields({ random }: Pick<Examination, 'random'>): [string, string][] {
  return [
    ['Sec-WebSocket-Version', '13'],
    ['Sec-WebSocket-Key', random(16).toString('base64')],
  ]
}

/** The question stands in the query as well, because the way of the application may drop its field. */
function withQuestion(uri: TargetUri, value: string | undefined): TargetUri {
  if (value === undefined || !uri.path.startsWith(probePath)) return uri
  const member = `${probeMember}=${value}`
  return { ...uri, query: uri.query === undefined ? member : `${uri.query}&${member}` }
}

/** The check of the edge for another probe; undefined when there was none, or when this machine cannot ask. */
export async function checkOf(of: Examination, nonce: string): Promise<SeenCheck | undefined> {
  return (await probeDirectly(of, nonce)).answer?.check
}

export const metadataPath = '/saml/metadata.xml'

/** A probe to the service at its own address. */
export const directProbe = oncePerExamination(of => probeDirectly(of))

function probeDirectly(of: Examination, about?: string): Promise<ProbeResult> {
  const { listen, domain, proxyProtocol, trustedProxies } = of.config
  const uri = addressOf(listen, metadataPath)
  const asBalancer = proxyProtocol && AddressSet.fromCidrs(trustedProxies).has(uri.host)
  const reach = asBalancer ? introducedReach : undefined
  const question = { uri, host: domain, fields: Fields.empty }
  return sendProbe(of, { ...question, about }, reach)
}

/** Reaches a listener that knows this machine as a proxy that begins with the PROXY protocol. */
const introducedReach: Reach = { introduction: localIntroduction }

/** A URI that reaches a listener from its own machine. */
export function addressOf({ address, port }: ListenAddress, path: string): TargetUri {
  const everywhere = address === undefined || address === '0.0.0.0'
  const host = everywhere ? '127.0.0.1' : address === '::' ? '::1' : address
  return { scheme: 'http', host, port, path }
}

/** Whether an answer without a seal is the metadata of an authproxy for this host. */
export function isOurMetadata({ saml }: Config, outcome: Outcome): boolean {
  return outcome.ok && outcome.status === 200 && outcome.content.includes(saml.entityId)
}

/** The public host and the addresses this machine knows for it, or why it knows none. */
export const publicHost = oncePerExamination(async ({ config, lookup = systemAddresses }) => {
  const parsed = parseUri(`${config.baseUrl}/`)
  const base: TargetUri =
    'problem' in parsed ? { scheme: 'https', host: config.domain, port: 443, path: '/' } : parsed
  if (isIpLiteral(base.host)) return { base, addresses: [base.host] }
  try {
    return { base, addresses: await lookup(base.host) }
  } catch (error) {
    return { base, addresses: [], problem: explainError(error) }
  }
})

const systemAddresses: Lookup = async host =>
  (await systemLookup(host, { all: true })).map(({ address }) => address)

/**
 * The edge shows any certificate: a check of its own judges that, and nothing a probe carries is a secret. So the other
 * checks still find something when the certificate is not right yet.
 */
export const edgeReach: Reach = { verify: false }

/** The claims of an attacker: an address from the range for documentation, and no TLS. */
export const claimedFields = { forwardedFor: '192.0.2.99', forwardedProto: 'http' } as const

/** A probe through the edge, with fields that an attacker would send; undefined when the host has no address. */
export const throughEdge = oncePerExamination(async of => {
  const { base, addresses } = await publicHost(of)
  if (addresses.length === 0) return undefined
  const fields = Fields.of(
    ['X-Forwarded-For', claimedFields.forwardedFor],
    ['X-Forwarded-Proto', claimedFields.forwardedProto],
  )
  return sendProbe(of, { uri: { ...base, path: metadataPath }, fields }, edgeReach)
})
