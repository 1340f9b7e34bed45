/** The proxy of the environment, which is named and not taken. */
import t from 'tap'
import { proxyVariable } from '../../lib/config/proxy-url.ts'

t.test('a variable counts for the schemes it is of, and its credentials are left out', t => {
  const value = 'http://ann:s3cret@proxy.example.org:3128/'
  const url = 'http://proxy.example.org:3128'
  for (const [name, http, https] of [
    ['http_proxy', true, false],
    ['HTTP_PROXY', true, false],
    ['https_proxy', false, true],
    ['HTTPS_PROXY', false, true],
    ['all_proxy', true, true],
    ['ALL_PROXY', true, true],
    ['no_proxy', false, false],
  ] as const) {
    const found = { name, url }
    t.strictSame(proxyVariable({ [name]: value }, ['http']), http ? found : undefined, name)
    t.strictSame(proxyVariable({ [name]: value }, ['https']), https ? found : undefined, name)
  }
  t.equal(proxyVariable({ http_proxy: '' }, ['http']), undefined)
  const odd = proxyVariable({ all_proxy: 'socks5://ann:s3cret@proxy.example.org' }, ['http'])
  t.equal(odd?.url, url, 'an example where it is no URL of an HTTP proxy')
  t.end()
})
