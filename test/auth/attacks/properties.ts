/**
 * Properties of what reads forms, queries, cookies and RelayState of strangers: no crash, no session, and no more work than the
 * size allows.
 */
import fc from 'fast-check'
import t from 'tap'
import { systemClock } from '../../../lib/async/clock.ts'
import { isOwnCookie, ownCookies, withoutOwnCookies } from '../../../lib/auth/access/own-cookies.ts'
import { relayedTarget, safeReturn } from '../../../lib/auth/login/addresses.ts'
import { readPost } from '../../../lib/auth/login/bindings.ts'
import { flowIdIn } from '../../../lib/auth/login/cookies.ts'
import { tokensIn, writeToken } from '../../../lib/auth/session/cookie.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import { Allowance } from '../../../lib/http/server/gather.ts'
import { readRedirect } from '../../../lib/saml/binding/redirect.ts'
import { messageLimits } from '../../../lib/saml/xml/message.ts'
import { PLENTY, settings, textOf, within } from '../../fixtures/chance/properties.ts'
import { makeRequest } from '../../fixtures/saml/browser.ts'
import { SamlLab } from '../../fixtures/saml/lab.ts'

const formPieces = [
  ...[
    'SAMLResponse',
    'SAMLRequest',
    'RelayState',
    'Signature',
    'SigAlg',
    'SAMLEncoding',
    '=',
    '&',
    '%',
    '%3d',
  ],
  ...[
    '%26',
    '+',
    'PGEvPg==',
    'S0xKAQA=',
    'a',
    '%00',
    '%ff',
    ';',
    '#',
    'SAML%52equest',
    'SAMLResponse[]',
  ],
]

t.test('query: what a signature is over stands in the query, each parameter once', t => {
  fc.assert(
    fc.property(textOf(formPieces), query => {
      const read = within(() => readRedirect(query))
      if (read === undefined || typeof read === 'string') return true
      const names = query.split('&').map(piece => piece.split('=', 1)[0])
      const once = names.filter(name => name === read.name).length === 1
      return (
        once &&
        (read.signature?.signedText ?? '')
          .split('&')
          .every(piece => piece === '' || query.split('&').includes(piece))
      )
    }),
    settings(10),
  )
  t.end()
})

t.test('form: it has one message, or a reason', async t => {
  const room = new Allowance(1 << 24)
  const type = ['Content-Type', 'application/x-www-form-urlencoded'] as const
  await fc.assert(
    fc.asyncProperty(textOf(formPieces), async content => {
      const request = makeRequest('POST', '/saml/acs', { fields: Fields.of(type), content })
      const read = await readPost(request, { clock: systemClock, room }, messageLimits)
      if (read === undefined || typeof read === 'string') return true
      // Counted as any reader would: decoded.
      const names = [...new URLSearchParams(content).keys()]
      return names.filter(name => name === read.name).length === 1
    }),
    settings(5),
  )
  for (const piece of [...formPieces, 'a&', '&', 'a=b&', '%41']) {
    const content = piece.repeat((messageLimits.size * 3) / 2 / piece.length)
    const request = makeRequest('POST', '/saml/acs', { fields: Fields.of(type), content })
    const before = process.cpuUsage().user
    await readPost(request, { clock: systemClock, room }, messageLimits)
    t.ok((process.cpuUsage().user - before) / 1e6 < PLENTY, piece)
  }
})

const cookiePieces = [
  ...[
    '__authproxy_session',
    '__authproxy_session.1',
    '__Host-authproxy_last',
    '__Host-authproxy_browser',
    'authproxy',
  ],
  ...[
    '__Secure-authproxy-x',
    '=',
    ';',
    '; ',
    ' ',
    '"',
    ',',
    '\t',
    'a',
    '2:t:x',
    't:y',
    'AUTHPROXY_x',
    '__HOST-authproxy.y',
  ],
]

t.test('cookies: none of ours goes on, and what is not ours keeps its place', t => {
  fc.assert(
    fc.property(fc.array(textOf(cookiePieces), { maxLength: 3 }), lines => {
      const fields = Fields.of(...lines.map(line => ['Cookie', line] as const))
      const left = within(() => withoutOwnCookies(fields))
      const pairsOf = (from: Fields) =>
        from.all('Cookie').flatMap(line =>
          line
            .split(';')
            .map(pair => pair.trim())
            .filter(pair => pair !== ''),
        )
      const nameIn = (pair: string) => (pair.split('=', 1)[0] ?? '').trim()
      const expected = pairsOf(fields).filter(pair => !isOwnCookie(nameIn(pair)))
      return (
        ownCookies(left).length === 0 &&
        tokensIn(left).length === 0 &&
        tokensIn(fields).length <= 12 &&
        JSON.stringify(pairsOf(left)) === JSON.stringify(expected)
      )
    }),
    settings(10),
  )
  t.end()
})

t.test('cookies: a token is found among whatever else a browser holds', t => {
  const pieces = cookiePieces.filter(piece => !piece.includes('session'))
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 12_000 }),
      textOf(pieces),
      textOf(pieces),
      (size, before, behind) => {
        const token = 'x'.repeat(size)
        const written = writeToken(token, {
          limit: 20_000,
          maxAge: 60,
          tag: 't0',
          requestFields: Fields.empty,
        })
        if ('tooLarge' in written) return false
        const ours = written.all('Set-Cookie').map(line => line.slice(0, line.indexOf(';')))
        return tokensIn(Fields.of(['Cookie', [before, ...ours, behind].join('; ')])).includes(token)
      },
    ),
    settings(1),
  )
  t.end()
})

t.test('cookies: a megabyte of anything costs no more than its size', t => {
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom(...cookiePieces), { minLength: 1, maxLength: 3 }),
      pieces => {
        const piece = pieces.join('')
        const fields = Fields.of(['Cookie', piece.repeat(Math.floor((1 << 20) / piece.length))])
        within(() => withoutOwnCookies(fields))
        within(() => tokensIn(fields))
        return true
      },
    ),
    settings(0.2),
  )
  t.end()
})

const pathPieces = [
  ...[
    '/',
    '//',
    '\\',
    '.',
    '..',
    '/./',
    '%2f',
    '%5c',
    '?',
    '#',
    '@',
    ':',
    'http:',
    'evil.example',
    '\t',
    '\n',
    '\0',
  ],
  ...['/saml/', '/saml/acs', '/__authproxy-redirect', 'a', '\u2025', '\uff0f', '%09', ' '],
]

t.test('RelayState and the way back: a browser stays with us', t => {
  fc.assert(
    fc.property(textOf(pathPieces), text => {
      const to = safeReturn(text)
      const { path } = relayedTarget('https://app.example.org', text)
      return (
        safeReturn(path) === path &&
        new URL(to, 'https://app.example.org').origin === 'https://app.example.org' &&
        !/^\/(?:\/|saml\/|__authproxy-redirect$)/.test(
          new URL(to, 'https://app.example.org').pathname,
        ) &&
        /^[\x21-\x7e]+$/.test(to) &&
        (flowIdIn(text) === undefined || /^[\w.-]+$/.test(text))
      )
    }),
    settings(20),
  )
  t.end()
})

t.test('RelayState: none makes a session of a response that was not asked for', async t => {
  const lab = await SamlLab.open(t, 'entra')
  const response = lab.idp.respond({ inResponseTo: '_unknown' })
  const state = fc.oneof(textOf(pathPieces), fc.stringMatching(/^(again\.)?[\w-]{27}$/))
  await fc.assert(
    fc.asyncProperty(state, async relayState => {
      await lab.browser.deliver(response, relayState)
      return lab.subjects.length === 0
    }),
    settings(0.2),
  )
})
