/**
 * Ways through the edge besides the plain one: every path of ours, odd paths untouched, the opening of a WebSocket, heads as
 * large as sessions make them. Asked only when the plain way leads to this instance.
 */
import { Fields } from '../../../http/message/field.ts'
import { pathAndQuery, type TargetUri } from '../../../http/message/target.ts'
import { samlPaths } from '../../gate.ts'
import type { Outcome, Question } from '../ask.ts'
import { type Diagnosis, doubtful, right, wrong } from '../check.ts'
import type { Probe, Probed } from '../probing.ts'
import type { Sample } from './sessions.ts'

/** Octets two servers could read differently: what is signed and what is judged are these very bytes. */
const ODD = { path: '/doctor/a%2Fb/%C3%A4;v=1//c', query: 'x=%20&y=1+2' }
/** Bytes of a SAML response with many attributes, as a browser posts it. */
const FORM = 65_536

/** Asks for every path of SAML and for the application's. */
export async function examinePaths(base: TargetUri, probe: Probe): Promise<readonly Diagnosis[]> {
  const ways: ReadonlyArray<Omit<Question, 'fields'>> = [
    ...[...samlPaths, '/'].map(path => ({ uri: { ...base, path } })),
    { ...{ uri: { ...base, path: '/saml/acs' }, method: 'POST' }, content: form },
  ]
  const probed: Probed[] = []
  for (const way of ways) {
    const fields = Fields.of(['Content-Type', way.content === undefined ? undefined : FORM_TYPE])
    probed.push(await probe({ ...way, fields }))
  }
  const odd = await probe({ uri: { ...base, ...ODD }, fields: Fields.empty })
  const asked = ways.map(({ uri, method }) => `${method ?? 'GET'} ${uri.path}`)
  return [judgePaths(asked, probed), judgeOdd(odd)]
}

const FORM_TYPE = 'application/x-www-form-urlencoded'
// No SAMLResponse, though the size of one: if it went astray it would be no login of anybody's.
const form = { kind: 'bytes', bytes: Buffer.from(`doctor=${'x'.repeat(FORM - 7)}`) } as const

/** Whether all of them arrived here, and as what they were sent. */
export function judgePaths(asked: readonly string[], probed: readonly Probed[]): Diagnosis {
  const what = 'paths through the edge'
  const astray = asked.flatMap((text, index) => {
    const { answer, outcome } = probed[index] ?? {}
    if (answer !== undefined && `${answer.method} ${answer.target}` === text) return []
    if (answer !== undefined) return [`${text} arrives as ${answer.method} ${answer.target}`]
    return [`${text} ${outcome === undefined ? '' : instead(outcome)}`]
  })
  if (astray.length === 0) return right(what, `${asked.length} of ${asked.length} lead here`)
  return wrong(
    what,
    `${astray.join('; ')}`,
    'the edge has to hand every path on, /saml/acs and /__authproxy-redirect above all, POST included, and must not change them. nginx: location / { proxy_pass http://127.0.0.1:8080; } without anything behind the port',
  )
}

/** What came in place of an answer of ours. */
export function instead(outcome: Outcome): string {
  return outcome.ok ? `is answered ${outcome.status} by somebody else` : `fails: ${outcome.why}`
}

function judgeOdd({ answer, outcome }: Probed): Diagnosis {
  const what = 'odd paths through the edge'
  const sent = pathAndQuery(ODD)
  if (answer?.target === sent) return right(what, 'unchanged')
  return doubtful(
    what,
    answer === undefined ? `${sent} ${instead(outcome)}` : `${sent} arrives as ${answer.target}`,
    'the application may miss paths with encoded slashes or semicolons. nginx: no path behind the port in proxy_pass; Apache: AllowEncodedSlashes NoDecode and nocanon',
  )
}

/** Asks for a WebSocket, which nobody opens. */
export async function examineWebSocket(
  base: TargetUri,
  probe: Probe,
  random: (size: number) => Buffer,
): Promise<Diagnosis> {
  const fields = Fields.of(
    ['Sec-WebSocket-Version', '13'],
    ['Sec-WebSocket-Key', random(16).toString('base64')],
  )
  const { answer, outcome } = await probe({ uri: { ...base, path: '/' }, fields, upgrade: true })
  const what = 'WebSockets through the edge'
  if (answer?.upgrade) return right(what, 'they are asked for here')
  return doubtful(
    what,
    answer === undefined ? `the request ${instead(outcome)}` : 'Upgrade is lost on the way',
    'applications with live updates need it. nginx: proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection "upgrade"',
  )
}

/** Sends the cookies of a session, and has as many come back, as after a login. */
export async function examineHeads(
  base: TargetUri,
  probe: Probe,
  sample: Sample,
): Promise<readonly Diagnosis[]> {
  const uri = { ...base, path: '/' }
  const sent = await probe({ uri, fields: Fields.of(['Cookie', sample.field]) })
  const back = await probe({ uri, fields: Fields.empty, padding: sample.bytes })
  return [judgeRequestHead(sample, sent), judgeResponseHead(sample, back)]
}

/** Whether a request with the cookies of a session arrives whole. */
export function judgeRequestHead(
  { bytes, field, groups }: Pick<Sample, 'bytes' | 'field' | 'groups'>,
  { answer, outcome }: Probed,
): Diagnosis {
  const what = 'cookies of a session through the edge'
  const size = `${bytes} bytes (${groups} groups)`
  if (answer !== undefined && answer.cookies >= field.length) return right(what, `${size} arrive`)
  const mend =
    'users in many groups log in and are sent to log in again, or see 400 or 431. nginx: large_client_header_buffers 4 32k; Apache: LimitRequestFieldSize 32768; HAProxy: tune.bufsize 65536; or keep fewer groups with identity.groups'
  if (answer !== undefined) {
    return wrong(what, `of ${size} only ${answer.cookies} arrive`, mend)
  }
  return wrong(what, `a request with ${size} of them ${instead(outcome)}`, mend)
}

/** Whether a response that sets them arrives. */
export function judgeResponseHead(
  { bytes, groups }: Pick<Sample, 'bytes' | 'groups'>,
  { answer, outcome }: Probed,
): Diagnosis {
  const what = 'cookies of a login through the edge'
  const size = `${bytes} bytes (${groups} groups)`
  if (answer !== undefined) return right(what, `${size} come back`)
  return wrong(
    what,
    `a response with ${size} of fields ${instead(outcome)}`,
    'a login of somebody in many groups ends in an error of the edge, often 502. nginx: proxy_buffer_size 32k; proxy_buffers 8 32k; proxy_busy_buffers_size 64k',
  )
}
