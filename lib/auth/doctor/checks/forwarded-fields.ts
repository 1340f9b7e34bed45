/**
 * What the edge makes of the fields that say who the client is and how it came. Pure: what was sent on one side, what arrived
 * on the other.
 */

import { parseAuthority } from '../../../http/message/target.ts'
import { forwardedAddress } from '../../../http/proxy/forwarded.ts'
import type { Config } from '../../config/config.ts'
import { type Diagnosis, doubtful, right, wrong } from '../check.ts'
import type { ProbeAnswer } from '../probe.ts'

/** What a client of bad intent would send along: an address of the documentation, and no TLS. */
export const claimed = {
  forwardedFor: '192.0.2.99',
  forwardedProto: 'http',
} as const

export function judgeForwarding(config: Config, answer: ProbeAnswer): readonly Diagnosis[] {
  return [judgeHost(config, answer), judgeProto(answer), judgeFor(answer)]
}

/** Specification, section 4: the edge must preserve the public Host. */
function judgeHost({ domain }: Config, { host }: ProbeAnswer): Diagnosis {
  const what = 'Host through the edge'
  const [own, seen] = [parseAuthority(domain, 443), parseAuthority(host, 443)]
  const same =
    !('problem' in own) && !('problem' in seen) && own.host === seen.host && own.port === seen.port
  return same
    ? right(what, `${host}, preserved`)
    : wrong(
        what,
        `${host === '' ? 'none' : host} arrives in place of ${domain}`,
        'nobody can log in like this. nginx: proxy_set_header Host $http_host; Apache: ProxyPreserveHost On; HAProxy and Caddy preserve it unless told otherwise',
      )
}

/** Section 4 again: and overwrite X-Forwarded-Proto with https. */
function judgeProto({ forwardedProto }: ProbeAnswer): Diagnosis {
  const what = 'X-Forwarded-Proto through the edge'
  const mend =
    'the edge has to set it, whatever the client says. nginx: proxy_set_header X-Forwarded-Proto https; Apache: RequestHeader set X-Forwarded-Proto https; HAProxy: http-request set-header X-Forwarded-Proto https'
  if (forwardedProto === 'https') return right(what, 'https')
  if (forwardedProto === '') return doubtful(what, 'it does not arrive', mend)
  const passed = forwardedProto.split(',').some(word => word.trim() === claimed.forwardedProto)
  return wrong(
    what,
    passed
      ? `${forwardedProto}: what a client claims is handed on`
      : `${forwardedProto} in place of https`,
    mend,
  )
}

/** The first forwarded address counts as the client's, when the peer may speak for others. */
function judgeFor({ forwardedFor, peer, trusted }: ProbeAnswer): Diagnosis {
  const what = 'X-Forwarded-For through the edge'
  const [first = ''] = forwardedFor.split(',')
  const forged = first.trim() === claimed.forwardedFor
  if (trusted && forged) {
    return wrong(
      what,
      `${forwardedFor}: a client can claim any address, for the first one counts and ${peer} is trusted`,
      'the edge has to overwrite the field, not to append to it. nginx: proxy_set_header X-Forwarded-For $remote_addr; HAProxy: http-request set-header X-Forwarded-For %[src]; Apache: RequestHeader unset X-Forwarded-For',
    )
  }
  if (forwardedFor === '') {
    return doubtful(
      what,
      `it does not arrive: every client looks like ${peer}`,
      'nginx: proxy_set_header X-Forwarded-For $remote_addr; HAProxy: http-request set-header X-Forwarded-For %[src]',
    )
  }
  if (!trusted) {
    return doubtful(
      what,
      `it is not believed, because it comes from ${peer}: every client looks like that`,
      `when ${peer} is the edge, add it to proxy.trustedProxies`,
    )
  }
  if (forwardedAddress(first) === undefined) {
    return doubtful(
      what,
      `${forwardedFor} begins with no address`,
      'the edge has to write the address of the client, and nothing before it',
    )
  }
  return right(what, `${first.trim()} by way of ${peer}`)
}
