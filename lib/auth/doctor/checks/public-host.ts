/**
 * Checks the name and certificate of the public host, its clock, and whether it leads to this instance.
 */
import { day } from '../../../async/clock.ts'
import { formatAuthority, isIpLiteral, parseUri } from '../../../http/message/target.ts'
import { isLoopback } from '../../../ip.ts'
import { certificateProblem, isIssuerUnknown } from '../../../x509/certificate-problem.ts'
import type { Config } from '../../config/config.ts'
import { unaskedPaths } from '../../gate/gateway-paths.ts'
import { type AnsweredRequest, type SeenCertificate, seeCertificate } from '../ask.ts'
import {
  type Answer,
  dayOf,
  doubtfulFinding,
  type Finding,
  goodFinding,
  judgeClock,
  judgeEnd,
  wrongFinding,
} from '../check.ts'
import {
  directProbe,
  dynamicFile,
  type Examination,
  isOurMetadata,
  metadataPath,
  publicHost,
  throughEdge,
} from '../facts.ts'

/** Addresses of the public host whose certificates are looked at. */
const mostAddresses = 8

export async function name(of: Examination): Promise<Answer> {
  const { base, addresses, problem } = await publicHost(of)
  if (problem !== undefined) {
    return doubtfulFinding(
      problem,
      'browsers have to find it. This machine need not, but then nothing behind it can be examined from here: an entry in /etc/hosts is enough',
    )
  }
  if (!isIpLiteral(base.host)) return goodFinding(`${base.host} is at ${addresses.join(', ')}`)
  return doubtfulFinding(
    `${base.host} is an address`,
    'browsers store cookies for it, but certificates seldom name an address: give it a name',
  )
}

export async function certificate(of: Examination): Promise<Answer> {
  const { base, addresses } = await publicHost(of)
  const { port, host } = base
  const seen = await Promise.all(
    addresses.slice(0, mostAddresses).map(async address => {
      const shown = await seeCertificate({ address, port, host, ca: of.ca })
      return { address, shown }
    }),
  )
  return judgeCertificates(seen, of.clock.now())
}

/** Judges the certificate that each address of the public host shows, or the reason why there is none. */
export function judgeCertificates(
  seen: readonly { readonly address: string; readonly shown: SeenCertificate | string }[],
  now: number,
): Answer {
  const shown = seen.flatMap(({ address, shown }) =>
    typeof shown === 'string' ? [] : [{ address, finding: judgeCertificate(shown, now) }],
  )
  const [first] = shown
  // The probe that follows reports why there is no connection at all.
  if (first === undefined) return undefined
  const alike = shown.every(({ finding }) => finding.found === first.finding.found)
  const answering = shown.map(({ address }) => address).join(', ')
  const silent = seen.flatMap(({ address, shown }) =>
    // One of two loopback addresses is enough: no browser of another machine uses them.
    typeof shown === 'string' && !isLoopback(address)
      ? doubtfulFinding(
          `${address} does not answer: ${shown}; ${answering} does`,
          'browsers may try it first: have the edge listen there as well, or take the address out of DNS',
        )
      : [],
  )
  const judged = alike
    ? [first.finding]
    : shown.map(({ address, finding }) => ({ ...finding, found: `${address}: ${finding.found}` }))
  return [...judged, ...silent]
}

export async function instance(of: Examination): Promise<Answer> {
  const { outcome, answer } = (await throughEdge(of)) ?? {}
  if (outcome === undefined) return undefined
  if (!outcome.ok) {
    const { phase, why } = outcome
    const mend =
      phase === 'dns' || phase === 'connect'
        ? 'browsers have to reach it over https. If they do and this machine does not (the firewall lets no connection back in), run this elsewhere or enter the edge in /etc/hosts. Otherwise start the edge'
        : 'the edge has to speak TLS and HTTP/1.1 on this port'
    return doubtfulFinding(`${of.config.baseUrl} does not answer: ${why}`, mend)
  }
  if (answer === undefined) {
    // The check for a loop reports a 508.
    return outcome.status === 508 ? undefined : elsewhere(of, outcome)
  }
  const here = (await directProbe(of)).answer
  const at = metadataUrl(of.config)
  if (here === undefined || here.instance === answer.instance)
    return goodFinding(`${at} leads here`)
  return doubtfulFinding(
    `${at} leads to another process with the same keys, not to the one at proxy.listenAddress`,
    'right if several instances share the work, but then examine every one of them by itself; otherwise stop the other one',
  )
}

export async function loop(of: Examination): Promise<Answer> {
  const { outcome, answer } = (await throughEdge(of)) ?? {}
  if (!outcome?.ok) return undefined
  const at = metadataUrl(of.config)
  if (answer?.looped) {
    const found = `a request for ${at} passes this instance twice`
    return wrongFinding(found, 'the edge sends requests in a circle')
  }
  if (answer !== undefined || outcome.status !== 508) return []
  return wrongFinding(`${at} answers 508 (Loop Detected)`, 'a route of the edge leads in a circle')
}

export async function clock(of: Examination): Promise<Answer> {
  const { outcome } = (await throughEdge(of)) ?? {}
  if (!outcome?.ok) return undefined
  const mend = 'synchronise the clocks (NTP), so that logs can be compared'
  return judgeClock(outcome, { doubtful: 30_000, wrong: Number.POSITIVE_INFINITY, mend })
}

function metadataUrl({ baseUrl }: Config): string {
  return `${baseUrl}${metadataPath}`
}

function judgeCertificate({ ends, problem }: SeenCertificate, now: number): Finding {
  const mend = 'renew it and reload the edge; if renewal is automatic, find out why it has not run'
  if (problem === undefined || ends <= now)
    return judgeEnd(ends, { now, warnWithin: 14 * day, mend })
  // Browsers may know an issuer that this machine does not.
  if (isIssuerUnknown(problem)) {
    return doubtfulFinding(
      `until ${dayOf(ends)}, from an authority that is not known here`,
      'name a private authority in NODE_EXTRA_CA_CERTS=FILE; a public one is known when the edge sends the whole chain',
    )
  }
  return wrongFinding(
    certificateProblem(problem)?.replace(/^The origin's certificate/, 'it') ?? problem,
    'browsers refuse it: give the edge a certificate for this host from an authority they know',
  )
}

/** Judges an answer that did not come from this instance. */
async function elsewhere(of: Examination, outcome: AnsweredRequest): Promise<Finding> {
  const { config } = of
  const at = metadataUrl(config)
  const { status, fields } = outcome
  const { address = '127.0.0.1', port } = config.listen
  const own = formatAuthority({ host: address, port })
  if (status >= 502 && status <= 504) {
    return wrongFinding(
      `${at} answers ${status}: the edge does not reach the service`,
      `it has to forward to ${own}; is the service running, and does a firewall or SELinux (httpd_can_network_connect) block it?`,
    )
  }
  if (!isOurMetadata(config, outcome)) {
    const to = status >= 300 && status < 400 ? placeOf(fields.get('Location')) : ''
    return wrongFinding(
      `${at} answers ${status}${to}, and not with our metadata`,
      config.forwardAuth === undefined
        ? `the edge has to forward every path of the public host to ${own}`
        : `the edge has to route ${unaskedPaths(config)} to ${own}, without a check. nginx: location ^~ /saml/ { proxy_pass http://${own}; }`,
    )
  }
  if ((await dynamicFile(of)).problem !== undefined) {
    return doubtfulFinding(
      `${at} leads to an authproxy for this host`,
      'it says what the edge changes only to a user who can read its keys: run this as the service user',
    )
  }
  return wrongFinding(
    `${at} leads to an authproxy for this host, but not to one with the keys of ${config.configPath}`,
    'it is an old instance, one on another machine, or the copy of a cache: the edge has to forward to this instance and must not cache',
  )
}

function placeOf(location: string | undefined): string {
  const uri = parseUri((location ?? '').split('#', 1)[0] ?? '')
  return 'problem' in uri
    ? ''
    : ` and leads to ${uri.scheme}://${formatAuthority(uri, uri.scheme)}/`
}
