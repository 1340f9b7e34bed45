/**
 * Checks the fields by which the edge tells the client and the way it came (Host, X-Forwarded-Proto, X-Forwarded-For).
 */
import { parseAuthority } from '../../../http/message/target.ts'
import { forwardedAddress } from '../../../http/proxy/forwarded.ts'
import { doubtful, type Finding, right, wrong } from '../check.ts'
import { claimed, type Examination } from '../facts.ts'
import type { ProbeAnswer } from '../probe.ts'

/** Specification, section 4: the edge must preserve the public Host. */
export function host({ config: { domain } }: Examination, { host }: ProbeAnswer): Finding {
  const [own, seen] = [parseAuthority(domain, 443), parseAuthority(host, 443)]
  const same =
    !('problem' in own) && !('problem' in seen) && own.host === seen.host && own.port === seen.port
  return same
    ? right(`${host}, preserved`)
    : wrong(
        `${host === '' ? 'none' : host} arrives in place of ${domain}`,
        'logins fail like this. nginx: proxy_set_header Host $http_host; Apache: ProxyPreserveHost On; HAProxy and Caddy preserve it unless configured otherwise',
      )
}

/** Section 4 again: the edge must overwrite X-Forwarded-Proto with https. */
export function proto(_: Examination, { forwardedProto }: ProbeAnswer): Finding {
  if (forwardedProto === 'https') return right('https')
  const mend =
    'the edge has to set it, whatever the client sends. nginx: proxy_set_header X-Forwarded-Proto https; Apache: RequestHeader set X-Forwarded-Proto https; HAProxy: http-request set-header X-Forwarded-Proto https'
  if (forwardedProto === '') return doubtful('it does not arrive', mend)
  const passed = forwardedProto.split(',').some(word => word.trim() === claimed.forwardedProto)
  return wrong(
    passed
      ? `${forwardedProto}: the edge forwards what a client claims`
      : `${forwardedProto} in place of https`,
    mend,
  )
}

/** The first forwarded address counts as the client's, when proxy.trustedProxies has the peer. */
export function client(_: Examination, answer: ProbeAnswer): Finding {
  const { forwardedFor, peer, trusted } = answer
  const first = (forwardedFor.split(',')[0] ?? '').trim()
  const mend =
    'nginx: proxy_set_header X-Forwarded-For $remote_addr; HAProxy: http-request set-header X-Forwarded-For %[src]'
  if (trusted && first === claimed.forwardedFor) {
    return wrong(
      `${forwardedFor}: a client can claim any address, because the first one counts and ${peer} is trusted`,
      `the edge has to overwrite the field, not to append to it. ${mend}; Apache: RequestHeader unset X-Forwarded-For`,
    )
  }
  if (forwardedFor === '') {
    return doubtful(`it does not arrive: every client appears as ${peer}`, mend)
  }
  if (!trusted) {
    return doubtful(
      `it is ignored, because ${peer} is not trusted: every client appears as that address`,
      `if ${peer} is the edge, add it to proxy.trustedProxies`,
    )
  }
  return forwardedAddress(first) === undefined
    ? doubtful(
        `${forwardedFor} does not begin with an address`,
        'the edge has to write the address of the client, and nothing before it',
      )
    : right(`${first} by way of ${peer}`)
}
