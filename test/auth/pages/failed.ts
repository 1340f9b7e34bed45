/** Which page, or none, answers an error that was thrown while a request was under way; and what is answered by documents of our own. */

import t from 'tap'
import { Lifetime } from '../../../lib/async/lifetime.ts'
import { errorResponse } from '../../../lib/auth/pages/failure-page.ts'
import { ownDocument } from '../../../lib/auth/pages/own-document.ts'
import { Failure } from '../../../lib/errors.ts'
import { OriginFailure } from '../../../lib/http/client/errors.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import { textResponse } from '../../../lib/http/message/reply.ts'
import { ContentTooSlow } from '../../../lib/http/proxy/forward.ts'
import { ClientGone } from '../../../lib/http/server/gather.ts'
import { MalformedContent } from '../../../lib/http/server/request-content.ts'
import { makeRequest } from '../../fixtures/saml/browser.ts'

const request = makeRequest('GET', '/')
const origin = 'http://127.0.0.1:1'

t.test('an error has the page of its cause', t => {
  const aborted = (cause: Error) => new OriginFailure('ORIGIN_ABORTED', origin, { cause })
  const failure = (code: string) =>
    new Failure('odd', { code, fault: 'internal', publicText: 'Odd.' })
  for (const [error, code, text] of [
    [new ContentTooSlow(5), 'client_too_slow'],
    [aborted(new ContentTooSlow(5)), 'client_too_slow'],
    [new MalformedContent('x'), 'content_malformed'],
    [aborted(new MalformedContent('x')), 'content_malformed'],
    [new OriginFailure('ORIGIN_REQUEST_UNFIT', origin, {}), 'request_unfit'],
    [new OriginFailure('ORIGIN_CLOSED', origin, {}), 'backend_closed', 'backend'],
    [new OriginFailure('ORIGIN_MALFORMED', origin, {}), 'backend_malformed', 'backend_answer'],
    [
      new OriginFailure('ORIGIN_HEAD_TOO_LARGE', origin, {}),
      'backend_head_too_large',
      'backend_answer',
    ],
    [aborted(new Error('other')), 'backend_aborted'],
    [failure('DISK_FULL'), 'disk_full'],
    [new Error('bug'), 'internal'],
    ['bug', 'internal'],
  ] as const) {
    const codes: string[] = []
    errorResponse(request, error, report => {
      codes.push(report.code)
      if (text !== undefined) t.equal('as' in report && report.as, text)
      return textResponse(500, '')
    })
    t.same(codes, [code])
  }
  t.end()
})

t.test('a client that has gone gets no page, and nothing has failed', t => {
  const never = () => t.fail('a page') as never
  const gone = { status: 499, facts: { outcome: 'client-gone' } }
  t.match(errorResponse(request, new ClientGone(), never), gone)
  const aborted = { ...request, lifetime: Lifetime.until(AbortSignal.abort()) }
  t.match(errorResponse(aborted, new OriginFailure('ORIGIN_CLOSED', origin, {}), never), gone)
  t.end()
})

t.test('a document of ours is answered to GET and HEAD, while there is one', async t => {
  let document: { type: string; bytes: Buffer } | undefined
  const handle = ownDocument(() => document)
  const answer = async (method: string, fields = Fields.empty) => {
    const { status, content } = await handle(makeRequest(method, '/logo', { fields }))
    return `${status} ${content.kind === 'bytes' ? content.bytes : content.kind}`
  }
  t.match(await answer('GET'), /^404/)
  document = { type: 'text/plain', bytes: Buffer.from('hello') }
  t.equal(await answer('GET'), '200 hello')
  t.notMatch(await answer('HEAD'), 'hello')
  t.match(await answer('POST'), /^405/)
  const { fields } = await handle(makeRequest('GET', '/logo'))
  t.match(await answer('GET', Fields.of(['If-None-Match', fields.get('ETag')])), /^304/)
})
