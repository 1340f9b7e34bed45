/**
 * Passthrough tokens that are for some requests alone.
 */
import t from 'tap'
import { tokenField } from '../../../lib/auth/access/passthrough.ts'
import { isInScope, tokenScope } from '../../../lib/auth/access/token-scope.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import { arranged } from '../../fixtures/gateway/attacked.ts'
import { domain } from '../../fixtures/gateway/gateway.ts'

t.test('78: a token is for the paths, methods and clients it names', t => {
  const scope = tokenScope({
    paths: ['/api/', '/health'],
    methods: ['GET'],
    clients: ['192.0.2.0/24', '2001:db8::/32'],
  })
  if (scope === undefined) throw new Error('no scope')
  for (const [method, path, client, expected, override] of [
    ['GET', '/api/x', '192.0.2.7', true],
    ['HEAD', '/api', '192.0.2.7', true],
    ['GET', '/health', '2001:db8::1', true],
    ['GET', '/%61pi/x', '192.0.2.7', true],
    ['GET', '/health/', '192.0.2.7', false],
    ['GET', '/API/x', '192.0.2.7', false],
    ['GET', '/api-x', '192.0.2.7', false],
    ['GET', '/', '192.0.2.7', false],
    ['GET', '/api/..%2fx', '192.0.2.7', false],
    ['GET', '/api/%2e%2e/x', '192.0.2.7', false],
    ['GET', '/api/;/../x', '192.0.2.7', false],
    ['GET', '/api//x', '192.0.2.7', false],
    ['POST', '/api/x', '192.0.2.7', false],
    ['GET', '/api/x', '192.0.2.7', false, 'DELETE'],
    ['GET', '/api/x', '192.0.3.7', false],
    ['GET', '/api/x', 'unknown', false],
  ] as const) {
    const fields = Fields.of(['X-HTTP-Method-Override', override])
    t.equal(
      isInScope(scope, { method, path, client, fields }),
      expected,
      `${method} ${path} ${client}`,
    )
  }
  t.equal(tokenScope({ paths: undefined, methods: undefined, clients: undefined }), undefined)
  t.end()
})

t.test(
  '78: a request that a token is not for is refused as no token would be, and logged with its name',
  async t => {
    const token = '0123456789abcdef'
    const access = [{ path: '/', allow: 'nobody' }]
    const passthroughTokens = [{ name: 'monitoring', token, paths: ['/api/'], methods: ['GET'] }]
    const { send, backend, gateway } = await arranged(t, {
      settings: { access, passthroughTokens },
    })
    const head = (method: string, path: string) =>
      `${method} ${path} HTTP/1.1\nHost: ${domain}\n${tokenField}: Bearer ${token}\nContent-Length: 0\n\n`
    t.equal((await send(head('GET', '/api/x'))).status, 200, 'whatever the rules say')
    t.equal((await send(head('GET', '/admin'))).status, 401)
    t.equal((await send(head('POST', '/api/x'))).status, 401)
    const said = async (text: string) => JSON.parse((await send(text)).text).message
    const other = await said(head('GET', '/admin'))
    t.match(other, /^The token in X-Authproxy-Authorization is not valid for this request/)
    t.equal(
      await said(head('GET', '/admin').replace(token, 'ffff')),
      other,
      'nor does a wrong token',
    )
    t.equal((await send(head('GET', '/api/x?_method=DELETE'))).status, 401)
    t.equal((await send(head('GET', '/api/..%2fadmin'))).status, 401)
    t.same(
      backend.requests.map(({ target }) => target),
      ['/api/x'],
    )
    const logged = gateway.log.lines.filter(({ message }) => message === 'request')
    t.match(logged[1]?.facts, { because: 'token-scope', passthrough: 'monitoring' })
  },
)
