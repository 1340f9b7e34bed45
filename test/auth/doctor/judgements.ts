/** What the doctor makes of facts: no sockets, no files. */
import { randomBytes } from 'node:crypto'
import t from 'tap'
import { systemClock } from '../../../lib/async/clock.ts'
import {
  doubtfulFinding,
  type Finding,
  goodFinding,
  judgeClock,
  linesOf,
  sumUp,
  wrongFinding,
} from '../../../lib/auth/doctor/check.ts'
import {
  certificates,
  judgeIdpClock,
  judgeInForce,
  validity,
} from '../../../lib/auth/doctor/checks/idp.ts'
import { judgeCertificates } from '../../../lib/auth/doctor/checks/public-host.ts'
import { judgeReadiness } from '../../../lib/auth/doctor/checks/service.ts'
import {
  judgeSample,
  judgeUnread,
  largestSample,
  samples,
  size,
} from '../../../lib/auth/doctor/checks/sessions.ts'
import type { Examination } from '../../../lib/auth/doctor/facts.ts'
import { formatDate } from '../../../lib/http/message/date.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import type { IdpMetadata } from '../../../lib/saml/metadata/idp-metadata.ts'
import { gatewayConfig } from '../../fixtures/gateway/gateway.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const day = 86_400_000
const now = Date.UTC(2030, 0, 1)
const config = gatewayConfig({
  domain: 'app.example.org',
  idpMetadataURL: 'https://idp.example.org/metadata',
  configPath: '/var/lib/authproxy/app.json',
  proxy: { listenAddress: '127.0.0.1:8080', targetURL: 'http://127.0.0.1:3000' },
})

function dated(at: number, took = 0) {
  return {
    fields: Fields.of(['Date', formatDate(at)]),
    askedAt: now - took / 2,
    answeredAt: now + took / 2,
  }
}

t.test('the metadata read here is compared with that in use', t => {
  const key = (fingerprint: string) => ({ fingerprint, certificate: '', ends: now })
  const idp = { entityId: 'https://idp.example.org', keys: [key('aa'), key('bb')] }
  const { entityId } = idp
  const ofFile = gatewayConfig({
    domain: 'app.example.org',
    idpMetadataFile: '/etc/authproxy/idp.xml',
    proxy: { listenAddress: '127.0.0.1:8080', targetURL: 'http://127.0.0.1:3000' },
  })
  t.match(judgeInForce(config, { idp: entityId, idpKeys: ['bb', 'aa', 'cc'] }, idp), {
    state: 'right',
  })
  t.match(judgeInForce(ofFile, { idp: entityId, idpKeys: ['aa'] }, idp), {
    state: 'wrong',
    found: /does not know 1 of the 2 signing keys: bb/,
    mend: /reads idpMetadataFile at its start: systemctl restart/,
  })
  t.match(judgeInForce(config, { idp: entityId, idpKeys: ['aa'] }, idp), {
    state: 'doubtful',
    mend: /within half an hour/,
  })
  t.match(judgeInForce(ofFile, { idp: 'https://old.example.org', idpKeys: [] }, idp), {
    state: 'wrong',
    found: /uses that of https:\/\/old\.example\.org/,
  })
  t.same(judgeInForce(config, { idp: '', idpKeys: [] }, idp), [], 'an earlier version')
  t.end()
})

t.test('attributes that nothing reads are doubtful when they are like a known one', t => {
  t.same(judgeUnread([]), [])
  t.match(judgeUnread(['shoeSize']), { state: 'right', found: /nothing reads shoeSize/ })
  t.match(judgeUnread(['shoeSize', 'Groups (like groups)']), {
    state: 'doubtful',
    mend: /identity\.looseNames/,
  })
  t.end()
})

t.test('every address of the public host is judged by its certificate', t => {
  const good = { ends: now + 90 * day, problem: undefined }
  const [six, four] = ['2001:db8::1', '192.0.2.1']
  const judged = (
    ...shown: readonly (typeof good | { ends: number; problem: string } | string)[]
  ) =>
    judgeCertificates(
      shown.map((shown, i) => ({ address: [six, four][i] ?? '', shown })),
      now,
    )
  t.equal(judged('refused', 'refused'), undefined, 'the probe tells why')
  t.match(judged(good, good), [{ state: 'right', found: /^until 2030/ }])
  t.match(judged('connection refused', good), [
    { state: 'right', found: /^until/ },
    { state: 'doubtful', found: '2001:db8::1 does not answer: connection refused; 192.0.2.1 does' },
  ])
  const local = [
    { address: '::1', shown: 'connection refused' },
    { address: '127.0.0.1', shown: good },
  ]
  t.match(judgeCertificates(local, now), { length: 1 }, 'localhost with a second address')
  t.match(judged(good, { ends: now - day, problem: 'CERT_HAS_EXPIRED' }), [
    { state: 'right', found: /^2001:db8::1: until/ },
    { state: 'wrong', found: /^192\.0\.2\.1: expired on/ },
  ])
  t.end()
})

t.test('clocks are compared as closely as a Date allows, and no closer', t => {
  const limit = { doubtful: 30_000, wrong: 90_000, mend: 'NTP' }
  for (const [what, answer, state, found] of [
    ['the same second', dated(now), 'right', 'the same'],
    ['29 s behind us', dated(now - 29_000), 'right', 'ours is 28 s ahead'],
    ['a minute ahead of us', dated(now + 60_000), 'doubtful', 'ours is 60 s behind'],
    ['two minutes behind us', dated(now - 120_000), 'wrong', 'ours is 119 s ahead'],
    ['an answer that took a minute', dated(now - 30_000, 60_000), 'right', 'the same'],
  ] as const) {
    t.match(judgeClock(answer, limit), { state, found }, what)
  }
  const cached = { ...dated(now - day), fields: Fields.of(['Date', formatDate(now)], ['Age', '9']) }
  for (const answer of [cached, { ...cached, fields: Fields.empty }]) {
    t.match(judgeClock(answer, limit), { state: 'doubtful', mend: /date -u/ })
  }
  t.end()
})

t.test('the clock of the identity provider is measured by saml.clockSkew', t => {
  const answered = (at: number) => ({ ok: true, status: 400, content: '', ...dated(at) }) as const
  t.match(judgeIdpClock(config, answered(now)), { state: 'right' })
  t.match(judgeIdpClock(config, answered(now - 45_000)), { state: 'doubtful' })
  t.match(judgeIdpClock(config, answered(now + 180_000)), { state: 'wrong', mend: /from 90 s on/ })
  const none = { ok: false, phase: 'connect', why: 'refused' } as const
  t.match(judgeIdpClock(config, none), { state: 'doubtful', found: /refused/ })
  t.end()
})

const metadata = (more: Partial<IdpMetadata> & { ends?: number }): IdpMetadata => ({
  entityId: 'https://idp.example.org',
  keys: [{ certificate: '', fingerprint: 'ab', ends: more.ends ?? now + 365 * day }],
  singleSignOn: [],
  cacheDuration: undefined,
  singleLogout: [],
  wantAuthnRequestsSigned: false,
  forDevelopment: false,
  validUntil: undefined,
  warnings: [],
  ...more,
})

t.test('metadata and certificates that end soon are told', t => {
  const of = (from: 'url' | 'file'): Examination => {
    const idpMetadata = from === 'url' ? config.saml.idpMetadata : { from, path: '/idp.xml' }
    return {
      ...{ from: 'app.yaml', warnings: [], groups: undefined, random: randomBytes },
      clock: new ManualClock(now),
      config: { ...config, saml: { ...config.saml, idpMetadata } },
    }
  }
  for (const [ends, from, state, found] of [
    [now + 365 * day, 'url', 'right', /^one, the last until 2031-01-01, 365 days$/],
    [now + 10.5 * day, 'url', 'doubtful', /^one, the last until .*, 10 days$/],
    [
      now - day,
      'file',
      'doubtful',
      /^one, the last expired on 2029-12-31; it is used all the same$/,
    ],
  ] as const) {
    t.match(certificates(of(from), metadata({ ends })), { state, found })
  }
  for (const [left, from, expected] of [
    [undefined, 'url', []],
    [day, 'url', []],
    [7_200_000, 'url', { state: 'doubtful', found: 'in 2 h' }],
    [5 * day, 'file', { state: 'doubtful', found: 'in 5 days' }],
  ] as const) {
    const validUntil = left === undefined ? undefined : now + left
    t.match(validity(of(from), metadata({ validUntil })), expected, `${left} ${from}`)
  }
  const { mend } = certificates(of('file'), metadata({ ends: now + day }))
  t.match(mend, /idpMetadataFile is replaced/)
  t.end()
})

t.test('sessions grow with their groups, and what a browser would be given is known', async t => {
  const of = (groups?: number): Examination => ({
    ...{ config, from: 'app.yaml', warnings: [], groups },
    ...{ clock: systemClock, random: randomBytes },
  })
  const examples = of()
  const all = await samples(examples)
  t.match(all, [
    { groups: 20, cookies: 1 },
    { groups: 150, cookies: 2 },
  ])
  const [few, many] = all
  const [most] = await samples(of(500))
  if (few === undefined || many === undefined || most === undefined) throw new Error('three')
  t.ok(few.bytes < many.bytes && many.bytes < most.bytes)
  t.equal(few.field.length, few.bytes, 'what is counted is what is sent')
  t.equal(many.field.length, many.bytes + 2, 'and a separator')
  t.match(judgeSample(config, few), { state: 'right', found: /\d+ bytes of cookies in 1$/ })
  t.match(judgeSample(config, most), { state: 'doubtful', mend: /identity\.groups/ })
  t.equal(await largestSample(examples), many)
  t.match(await samples(of(1)), [{ groups: 1, cookies: 1 }])
  const absurd = of(5000)
  t.equal(await largestSample(absurd), undefined)
  t.match(await size(absurd), [{ state: 'doubtful' }])
})

t.test('readiness is told in the service’s own words', t => {
  const uri = { scheme: 'http', host: '127.0.0.1', port: 9080, path: '/readyz' } as const
  const answered = (status: number, content: string) =>
    ({ ok: true, status, content, fields: Fields.empty, askedAt: 0, answeredAt: 0 }) as const
  t.match(judgeReadiness(uri, answered(200, 'ready\n')), { state: 'right' })
  t.match(judgeReadiness(uri, answered(503, 'not ready\nthe metadata has expired\n')), {
    state: 'wrong',
    found: '503 not ready: the metadata has expired',
  })
  const none = { ok: false, phase: 'connect', why: 'refused' } as const
  t.match(judgeReadiness(uri, none), { state: 'wrong', mend: /admin\.listenAddress/ })
  t.end()
})

t.test('a report is for a terminal and for scripts', t => {
  const clock = { what: 'clock' }
  t.same(linesOf({ ...clock, ...goodFinding('the same') }), ['ok     clock: the same'])
  t.same(linesOf({ ...clock, ...doubtfulFinding('odd', 'look') }), [
    'doubt  clock: odd',
    '       look',
  ])
  t.same(linesOf({ ...clock, ...wrongFinding('bad', 'mend it') }), [
    'WRONG  clock: bad',
    '       mend it',
  ])
  const unasked = { state: 'not asked', found: 'is it right?' } as const
  t.same(linesOf({ ...clock, ...unasked }), ['-      clock: is it right?'])
  t.same(linesOf({ ...clock, ...goodFinding('a\x1b[31m\nb') }), [
    'ok     clock: a\\u001b[31m\\u000ab',
  ])
  t.ok((linesOf({ ...clock, ...goodFinding('y'.repeat(10_000)) })[0]?.length ?? 0) < 700)
  const summed = (...found: readonly Finding[]) => sumUp(found.map(one => ({ ...clock, ...one })))
  t.same(summed(goodFinding('')), { line: 'Nothing is wrong: 1 checks.', exitCode: 0 })
  t.same(summed(goodFinding(''), doubtfulFinding('', '')), {
    line: '0 wrong, 1 doubtful, 1 right.',
    exitCode: 0,
  })
  t.same(summed(wrongFinding('', ''), goodFinding(''), unasked), {
    line: '1 wrong, 0 doubtful, 1 right, 1 not asked.',
    exitCode: 1,
  })
  t.end()
})
