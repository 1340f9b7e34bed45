/**
 * The public host through the edge: its name, its certificate, whether it leads to this instance, its clock, and then whatever
 * the edge does to requests on the way (forwarded.ts, edge-ways.ts).
 *
 * Its certificate is looked at apart and then taken whatever it is: nothing a probe carries is a secret, and the other
 * findings help as well when the certificate is not right yet.
 */
import { explainError } from '../../../errors.ts'
import type { Lookup } from '../../../http/client/name-lookup.ts'
import { Fields } from '../../../http/message/field.ts'
import {
  formatAuthority,
  formatUri,
  isIpLiteral,
  parseUri,
  type TargetUri,
} from '../../../http/message/target.ts'
import type { Config } from '../../config/config.ts'
import type { Answered, Unanswered } from '../ask.ts'
import { type Diagnosis, doubtful, right, wrong } from '../check.ts'
import { clockOf, judgeClock } from '../clocks.ts'
import { judgePublicCertificate, seeCertificate } from '../peer-certificate.ts'
import type { ProbeAnswer } from '../probe.ts'
import type { Probe, Probed } from '../probing.ts'
import { claimed } from './forwarded-fields.ts'

const what = 'public host'
const clock = 'clock against the edge'

/** The addresses of the public host, as this machine knows them. */
export async function examineName(
  { baseUrl, domain }: Config,
  lookup: Lookup,
): Promise<{ readonly diagnosis: Diagnosis; readonly addresses: readonly string[] }> {
  const about = 'name of the public host'
  const uri = parseUri(baseUrl)
  const host = 'problem' in uri ? domain : uri.host
  if (isIpLiteral(host)) {
    const mend = 'browsers keep cookies for it, certificates seldom name it: give it a name'
    return { diagnosis: doubtful(about, `${host} is an address`, mend), addresses: [host] }
  }
  try {
    const addresses = await lookup(host)
    return { diagnosis: right(about, `${host} is at ${addresses.join(', ')}`), addresses }
  } catch (error) {
    const mend =
      'browsers have to find it; this machine need not, but then nothing behind it can be looked at from here: an entry in /etc/hosts is enough'
    return { diagnosis: doubtful(about, explainError(error), mend), addresses: [] }
  }
}

/** The certificate shown for the public host at one of its addresses. */
export async function examineCertificate(
  uri: TargetUri,
  at: {
    readonly address: string
    readonly now: number
    readonly ca?: readonly string[] | undefined
  },
): Promise<readonly Diagnosis[]> {
  const { host, port } = uri
  const { address, now, ca } = at
  const seen = await seeCertificate({ address, port, host, ca })
  // Why there is no connection is told by the request that follows.
  return typeof seen === 'string'
    ? []
    : [judgePublicCertificate('certificate of the public host', seen, now)]
}

/** Asks for our metadata through the edge, as a client with bad intent would. */
export function askEdge(base: TargetUri, probe: Probe): Promise<Probed> {
  return probe({
    uri: { ...base, path: '/saml/metadata.xml' },
    fields: Fields.of(
      ['X-Forwarded-For', claimed.forwardedFor],
      ['X-Forwarded-Proto', claimed.forwardedProto],
    ),
  })
}

/**
 * Whether the public host leads here. `direct` is what the service said at its own address; `unreadable` says that it was asked
 * without the keys, which cannot be read.
 */
export function judgeEdge(
  config: Config,
  { outcome, answer, unreadable }: Probed & { readonly unreadable: boolean },
  direct: ProbeAnswer | undefined,
): readonly Diagnosis[] {
  const at = `${config.baseUrl}/saml/metadata.xml`
  if (!outcome.ok) return [unreachable(config, outcome)]
  if (answer === undefined)
    return [elsewhere(config, at, outcome, unreadable), clockOfEdge(outcome)]
  const another =
    direct !== undefined && direct.instance !== answer.instance
      ? doubtful(
          what,
          `${at} leads to another process with the same keys, not to the one at proxy.listenAddress`,
          'when several share the work that is well, but every replica has to be looked at by itself; else stop the other one',
        )
      : right(what, `${at} leads here`)
  const circle = answer.looped
    ? [
        wrong(
          'loop',
          `${at} has been here before it arrives`,
          'the edge sends requests in a circle',
        ),
      ]
    : []
  return [another, ...circle, clockOfEdge(outcome)]
}

function unreachable({ baseUrl }: Config, { phase, why }: Unanswered): Diagnosis {
  const mend =
    phase === 'dns' || phase === 'connect'
      ? 'browsers have to reach it over https; when they do and this machine does not (no way back in through the firewall), run this elsewhere or enter the edge in /etc/hosts. Otherwise start the edge'
      : 'the edge has to speak TLS and HTTP/1.1 on this port'
  return doubtful(what, `${baseUrl} does not answer: ${why}`, mend)
}

function elsewhere(
  config: Config,
  at: string,
  { status, fields, content }: Answered,
  unreadable: boolean,
): Diagnosis {
  const own = formatAuthority({
    host: config.listen.address ?? '127.0.0.1',
    port: config.listen.port,
  })
  if (status === 508) {
    return wrong(
      'loop',
      `${at} answers 508 (Loop Detected)`,
      'a route of the edge leads in a circle',
    )
  }
  if (status >= 502 && status <= 504) {
    return wrong(
      what,
      `${at} answers ${status}: the edge does not reach the service`,
      `it has to forward to ${own}; is the service running, and does a firewall, or SELinux (httpd_can_network_connect), stand between?`,
    )
  }
  const ours = status === 200 && content.includes(config.saml.entityId)
  if (ours && unreadable) {
    return doubtful(
      what,
      `${at} leads to an authproxy for this host`,
      'what the edge does on the way is told only to who can read its keys: run this as the service user',
    )
  }
  if (ours) {
    return wrong(
      what,
      `${at} leads to an authproxy for this host, but not to one with the keys of ${config.configPath}`,
      'an old instance, or one on another machine, or the copy of a cache: the edge has to forward to this one, and to cache nothing',
    )
  }
  const to = status >= 300 && status < 400 ? placeOf(fields.get('Location')) : ''
  return wrong(
    what,
    `${at} answers ${status}${to}, and not with our metadata`,
    `the edge has to forward every path of the public host to ${own}`,
  )
}

function placeOf(location: string | undefined): string {
  const uri = parseUri((location ?? '').split('#', 1)[0] ?? '')
  return 'problem' in uri
    ? ''
    : ` and leads to ${formatUri({ ...uri, path: '/' }).split('?', 1)[0]}`
}

/** Nobody is kept out by it; but whoever compares two logs is led astray. */
function clockOfEdge(outcome: Answered): Diagnosis {
  const mend = 'synchronise the clocks (NTP), so that logs can be compared'
  const limit = { doubtful: 30_000, wrong: Number.POSITIVE_INFINITY, mend }
  return judgeClock(clock, clockOf(outcome), limit)
}
