/**
 * The backend: does it answer, and is it really the backend? The request looks as one of ours does: public Host, forwarded
 * fields, the name of the instance. When it comes back to this instance, every request would.
 */
import { Fields } from '../../../http/message/field.ts'
import { formatUri } from '../../../http/message/target.ts'
import { forwardingFields } from '../../../http/proxy/forwarded.ts'
import { instanceField } from '../../access/instance-id.ts'
import type { Config } from '../../config/config.ts'
import type { Unanswered } from '../ask.ts'
import { type Diagnosis, doubtful, right, wrong } from '../check.ts'
import { judgeBackendCertificate, seeCertificate } from '../peer-certificate.ts'
import type { Probe, Probed } from '../probing.ts'

const what = 'backend'
const loop = 'loop'

/** Asks the backend for its first page. `instance` is the name of the running service, when it is known. */
export async function examineBackend(
  config: Config,
  probe: Probe,
  instance: string | undefined,
): Promise<readonly Diagnosis[]> {
  const { domain: host, target } = config
  const fields = Fields.of(
    [instanceField, instance],
    ...forwardingFields({ client: '127.0.0.1', host, scheme: 'https' }),
  )
  const probed = await probe({ uri: { ...target, path: '/' }, host, fields })
  return judgeBackend(config, probed, instance !== undefined)
}

/** The end of the backend's certificate, where it has one that is checked. */
export async function examineBackendCertificate(
  { target, targetVerify }: Config,
  now: number,
): Promise<readonly Diagnosis[]> {
  if (target.scheme === 'http' || !targetVerify) return []
  const { host, port } = target
  const seen = await seeCertificate({ address: host, port, host })
  // Why there is no connection was told by the request.
  if (typeof seen === 'string' || seen.ends <= now) return []
  return [judgeBackendCertificate('certificate of the backend', seen, now)]
}

/** What the address of the backend answered; `named` says whether the request carried the name of the service. */
export function judgeBackend(
  config: Config,
  { outcome, answer }: Probed,
  named: boolean,
): readonly Diagnosis[] {
  const at = formatUri({ ...config.target, path: '/' })
  if (!outcome.ok) {
    return [wrong(what, `${at} does not answer: ${outcome.why}`, mendOf(config, outcome))]
  }
  const { status, fields } = outcome
  const circle = circleIn(config, { outcome, answer })
  if (circle !== undefined) {
    return [
      wrong(
        loop,
        `${at} ${circle}`,
        'proxy.targetURL has to be the address of the application itself, not one that the edge sends back here: name the host and port the application listens on',
      ),
    ]
  }
  const known = named
    ? right(loop, `${at} does not lead back here`)
    : doubtful(
        loop,
        `${at} does not seem to lead back here`,
        'it can be told for certain once the service runs',
      )
  return [judgeAnswer(config, at, status, fields), known]
}

/** How the answer shows that the way leads back to an authproxy; undefined when it does not. */
function circleIn(config: Config, { outcome, answer }: Probed): string | undefined {
  if (answer !== undefined)
    return 'leads back to this very service: every request would run in a circle'
  if (!outcome.ok) return undefined
  const { status, fields } = outcome
  if (status === 508) return 'answers 508 (Loop Detected): every request would run in a circle'
  const login = fields.get('X-Authproxy-Login') ?? ''
  if (login.startsWith(`${config.baseUrl}/`)) {
    return `wants a login at ${config.baseUrl}: it is this service, or another one in front of the same host`
  }
  return undefined
}

function judgeAnswer(config: Config, at: string, status: number, fields: Fields): Diagnosis {
  const found = `${at} answers ${status}`
  if (fields.has('X-Authproxy-Login')) {
    return doubtful(
      what,
      `${found}: it is another authproxy`,
      'is proxy.targetURL the application, or the address of another instance?',
    )
  }
  if (status === 421 || status === 400) {
    return doubtful(
      what,
      `${found} for the Host ${config.domain}`,
      'the public Host is handed on: the application has to know itself by this name',
    )
  }
  if (status >= 500) return doubtful(what, found, 'see the log of the application')
  if (config.target.scheme === 'https' && !config.targetVerify) {
    return doubtful(
      what,
      `${found}, and could be anybody: its certificate is not checked`,
      'name its authority in proxy.targetCertificates and leave out proxy.targetDisableSSLVerify',
    )
  }
  return right(what, found)
}

function mendOf({ target }: Config, { phase }: Unanswered): string {
  switch (phase) {
    case 'dns':
      return `the name ${target.host} of proxy.targetURL has to be known on this machine`
    case 'tls':
      return target.scheme === 'https'
        ? 'its certificate has to be for the host of proxy.targetURL; a private authority is named in proxy.targetCertificates'
        : 'is it http?'
    case 'connect':
      return 'is the application running, and are host and port of proxy.targetURL its own?'
    default:
      return 'does the application speak HTTP/1.1 there, with the scheme of proxy.targetURL?'
  }
}
