/**
 * Checks whether the backend answers, with a certificate that lasts, and does not lead back to this instance; and in which fields it
 * reads who asks.
 * The request looks like a forwarded one: public Host, forwarding fields, the name of the instance.
 */
import { day } from '../../../async/clock.ts'
import { explainError } from '../../../errors.ts'
import { offersBinding } from '../../../http/client/request.ts'
import { Fields } from '../../../http/message/field.ts'
import { formatUri } from '../../../http/message/target.ts'
import { forwardingFields } from '../../../http/proxy/forwarded.ts'
import { instanceField } from '../../access/instance-id.ts'
import { ownField } from '../../access/own-fields.ts'
import { targetAuthorities } from '../../backend/backend.ts'
import { readBackendCredential } from '../../backend/backend-credential.ts'
import { endOf, readClientIdentity } from '../../backend/client-identity.ts'
import type { Config } from '../../config/config.ts'
import { loadGroupTable } from '../../session/group-names.ts'
import { type AnsweredRequest, seeCertificate, type UnansweredRequest } from '../ask.ts'
import {
  type Answer,
  doubtfulFinding,
  type Finding,
  goodFinding,
  judgeEnd,
  wrongFinding,
} from '../check.ts'
import {
  directProbe,
  type Examination,
  handshakeFields,
  oncePerExamination,
  type ProbeResult,
  sendProbe,
} from '../facts.ts'

/** The settings in the files, or the reason why they cannot be read. */
function readFiles<T>(
  read: (config: Config) => T,
  { config }: Examination,
): { value?: T; problem?: string } {
  try {
    return { value: read(config) }
  } catch (error) {
    return { problem: explainError(error) }
  }
}

/** A probe to the backend for its first page; undefined when the authorities of its certificate are not known. */
const probed = oncePerExamination(async of => {
  const { value } = readFiles(readBackendCredential, of)
  return value && probeWith(of, value.fields)
})

/** A probe with further fields, or one that asks for a WebSocket. */
async function probeWith(
  of: Examination,
  further: Fields,
  upgrade = false,
): Promise<ProbeResult | undefined> {
  const { domain: host, target, targetVerify: verify, targetServerName: serverName } = of.config
  const { value: ca } = readFiles(targetAuthorities, of)
  const { value: identity, problem } = readFiles(readClientIdentity, of)
  if (ca === undefined || problem !== undefined) return undefined
  const { answer } = await directProbe(of)
  const fields = Fields.of(
    ...further,
    [instanceField, answer?.instance],
    ...forwardingFields({ client: '127.0.0.1', host, scheme: 'https' }),
  )
  return sendProbe(
    of,
    { uri: { ...target, path: '/' }, host, fields, upgrade },
    { ca, verify, identity, serverName },
  )
}

/** A field of our own, so that no application takes its value for a user. */
const TRIAL_FIELD = ownField('Doctor')

/**
 * Whether the application takes names beyond ASCII, in requests and in those that open a WebSocket. Some servers of WebSockets read fields
 * as ASCII alone and refuse the handshakes of these people. The question is compared with the same one in ASCII.
 */
export async function namesBeyondAscii(of: Examination): Promise<Answer> {
  if (of.config.identityFields.encoding === 'percent') return []
  const usual = await probed(of)
  if (!usual?.outcome.ok || circleIn(of, usual) !== undefined) return undefined
  const { value: credential } = readFiles(readBackendCredential, of)
  const ask = async (text: string, upgrade: boolean) => {
    const value = Buffer.from(text, 'utf8').toString('latin1')
    const handshake = upgrade ? handshakeFields(of) : []
    const fields = Fields.of(...(credential?.fields ?? []), [TRIAL_FIELD, value], ...handshake)
    const outcome = (await probeWith(of, fields, upgrade))?.outcome
    return outcome?.ok ? `${outcome.status}` : 'not'
  }
  for (const [upgrade, what] of [
    [false, 'a request'],
    [true, 'a request that opens a WebSocket'],
  ] as const) {
    const [plain, beyond] = [await ask('Celine', upgrade), await ask('Céline', upgrade)]
    if (plain === beyond) continue
    return doubtfulFinding(
      `${what} is answered ${plain} with a field in ASCII, and ${beyond} with “Céline” in it`,
      'set identity.encoding: percent, and let the application decode the values; or let its server take UTF-8 in fields',
    )
  }
  return goodFinding('it answers alike with a field in ASCII and with “Céline” in it')
}

/** Whether the file of the credential can be used, by the service alone. */
export function credentialFile(of: Examination): Answer {
  const { value, problem = '' } = readFiles(readBackendCredential, of)
  if (value === undefined) {
    const mend =
      'the service does not start without it: a file with a value of openssl rand -hex 32, readable for the service user'
    return wrongFinding(problem, mend)
  }
  const { file } = of.config.backendCredential ?? {}
  return value.isReadableByOthers
    ? doubtfulFinding(`${file} can be read by every user of this machine`, `chmod o-r ${file}`)
    : []
}

/** Tries the application without the credential, as a request that comes past this service. */
export async function withoutCredential(of: Examination): Promise<Answer> {
  const { field } = of.config.backendCredential ?? {}
  if (field === undefined) return []
  const usual = await probed(of)
  if (!usual?.outcome.ok || circleIn(of, usual) !== undefined) return undefined
  const outcome = (await probeWith(of, Fields.empty))?.outcome
  if (outcome === undefined) return undefined
  if (!outcome.ok) return goodFinding(`a request without ${field} is not answered: ${outcome.why}`)
  const [before, status] = [usual.outcome.status, outcome.status]
  const found = `a request without ${field} is answered ${status}`
  if (status >= 400 && status < 500 && status !== before) return goodFinding(found)
  if (status < 300 || (status < 400 && status === before)) {
    return wrongFinding(
      `${found}: what reaches the application past authproxy is served`,
      `the application, or the server before it, has to refuse requests whose ${field} is not the value of backendCredential.valueFile`,
    )
  }
  return doubtfulFinding(
    `${found}, and one with it ${before}`,
    'this does not show whether the application compares the value: try a path that it answers with 200',
  )
}

/** Whether the certificate for the backend can be read and lasts. */
export function clientCertificate(of: Examination): Answer {
  const { value: identity, problem } = readFiles(readClientIdentity, of)
  if (problem !== undefined) {
    const mend =
      'the service does not start without them: PEM files with a certificate and its key, readable for the service user'
    return wrongFinding(problem, mend)
  }
  if (identity === undefined) return []
  const mend =
    'renew proxy.targetClientCertificate: once it has expired the backend refuses every connection'
  return judgeEnd(endOf(identity), { now: of.clock.now(), warnWithin: 14 * day, mend })
}

export function authorities(of: Examination): Answer {
  const { problem } = readFiles(targetAuthorities, of)
  const mend =
    'the service does not start without it: a PEM file with the authority of the backend’s certificate, readable for the service user'
  return problem === undefined ? [] : wrongFinding(problem, mend)
}

export async function application(of: Examination): Promise<Answer> {
  const { outcome, answer } = (await probed(of)) ?? {}
  if (outcome === undefined) return undefined
  if (!outcome.ok) {
    return wrongFinding(`${urlOf(of)} does not answer: ${outcome.why}`, mendOf(of.config, outcome))
  }
  return circleIn(of, { outcome, answer }) === undefined ? judgeAnswer(of, outcome) : undefined
}

export async function loop(of: Examination): Promise<Answer> {
  const seen = await probed(of)
  if (!seen?.outcome.ok) return undefined
  const circle = circleIn(of, seen)
  if (circle !== undefined) {
    return wrongFinding(
      `${urlOf(of)} ${circle}`,
      'proxy.targetURL has to be the address of the application itself, and not one that the edge forwards to this instance: name the host and port the application listens on',
    )
  }
  if ((await directProbe(of)).answer !== undefined)
    return goodFinding(`${urlOf(of)} does not lead back here`)
  return doubtfulFinding(
    `${urlOf(of)} does not seem to lead back here`,
    'only a running service can tell for certain: start it',
  )
}

export async function certificate({ config, clock }: Examination): Promise<Answer> {
  const { target, targetVerify, targetServerName } = config
  if (target.scheme === 'http' || !targetVerify) return []
  const { host, port } = target
  const seen = await seeCertificate({ address: host, port, host: targetServerName ?? host })
  // When there is no certificate or it has ended, the probe has failed and reports the reason.
  if (typeof seen === 'string' || seen.ends <= clock.now()) return undefined
  const mend = 'renew it: once it has expired every request is answered 502'
  return judgeEnd(seen.ends, { now: clock.now(), warnWithin: 14 * day, mend })
}

function urlOf({ config }: Examination): string {
  return formatUri({ ...config.target, path: '/' })
}

/** How the answer shows that the address leads to an authproxy again; undefined when it does not. */
function circleIn(
  { config }: Examination,
  { outcome, answer }: Pick<ProbeResult, 'outcome' | 'answer'>,
): string | undefined {
  if (answer !== undefined) return 'leads back to this very service: every request would loop'
  if (!outcome.ok) return undefined
  if (outcome.status === 508) return 'answers 508 (Loop Detected): every request would loop'
  const login = outcome.fields.get('X-Authproxy-Login') ?? ''
  if (!login.startsWith(`${config.baseUrl}/`)) return undefined
  return `wants a login at ${config.baseUrl}: it is this service, or another one in front of the same host`
}

function judgeAnswer(of: Examination, { status, fields }: AnsweredRequest): Finding {
  const { domain, target, targetVerify } = of.config
  const found = `${urlOf(of)} answers ${status}`
  if (fields.has('X-Authproxy-Login')) {
    return doubtfulFinding(
      `${found}: it is another authproxy`,
      'is proxy.targetURL the application, or the address of another instance?',
    )
  }
  if (status === 421 || status === 400) {
    return doubtfulFinding(
      `${found} for the Host ${domain}`,
      'authproxy forwards the public Host: the application has to accept this name as its own',
    )
  }
  if (offersBinding(fields)) {
    return doubtfulFinding(
      `${found} and asks for NTLM, Negotiate or the like, which authenticate a connection`,
      `the edge has to keep one connection for each client: see "Windows authentication" in authproxy.md; an application that reads ${userField(of.config)} needs no Windows authentication`,
    )
  }
  if (status >= 500) return doubtfulFinding(found, 'see the log of the application')
  if (target.scheme === 'https' && !targetVerify) {
    return doubtfulFinding(
      `${found}, but another server could answer in its place: its certificate is not checked`,
      'name its authority in proxy.targetCertificates and leave out proxy.targetDisableSSLVerify',
    )
  }
  return goodFinding(found)
}

function mendOf({ target }: Config, { phase }: UnansweredRequest): string {
  switch (phase) {
    case 'dns':
      return `this machine has to resolve the name ${target.host} of proxy.targetURL`
    case 'tls':
      return 'its certificate has to be for the host of proxy.targetURL; name a private authority in proxy.targetCertificates; or is it http?'
    case 'connect':
      return 'is the application running, and does it listen on the host and port of proxy.targetURL?'
    default:
      return 'does the application speak HTTP/1.1 there, with the scheme of proxy.targetURL?'
  }
}

/** The field in which the backend reads the user. */
function userField({ identityFields: { names }, identityToken }: Config): string {
  if (names.authproxy) return 'X-Authproxy-User'
  const named = names.others.find(({ from }) => from.includes('user'))?.field
  return named ?? identityToken?.field ?? 'X-Authproxy-Identity'
}

/** Reports the field names when the settings choose others than our own. */
export function names({ config }: Examination): Answer {
  const { authproxy, others } = config.identityFields.names
  if (others.length === 0) return []
  const all = [
    ...(authproxy ? ['X-Authproxy-User and its relatives'] : []),
    ...others.map(({ field }) => field),
  ]
  return goodFinding(`the application learns who asks from ${all.join(', ')}`)
}

export async function groupNames({ config: { groupNames: path } }: Examination): Promise<Answer> {
  if (path === undefined) return []
  const mend =
    'a line for each group: what the identity provider sends, a tab or " => ", the name; readable for the service user. A running instance keeps its earlier names'
  return loadGroupTable(path).then(
    table => goodFinding(`${path}: ${table.names.size} groups have a name`),
    error => wrongFinding(explainError(error), mend),
  )
}
