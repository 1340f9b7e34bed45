/** The note about `http_proxy` and its like. */
import t from 'tap'
import { ignoredProxyNote } from '../../../lib/cache/cli/serve.ts'

t.test('a proxy of the environment is ignored, and the log says what to set', async t => {
  const none = { parentProxy: undefined }
  t.equal(ignoredProxyNote(none, {}), undefined)
  t.equal(ignoredProxyNote(none, { http_proxy: '' }), undefined)
  const parentProxy = { host: 'proxy.example.org', port: 3128 }
  t.equal(ignoredProxyNote({ parentProxy }, { http_proxy: 'http://a.example.org' }), undefined)
  for (const name of ['http_proxy', 'HTTPS_PROXY', 'all_proxy']) {
    const note = ignoredProxyNote(none, { [name]: 'http://ann:s3cret@proxy.example.org:3128/' })
    t.match(note, `sets ${name}, which is ignored`)
    t.match(note, 'parent_proxy: http://proxy.example.org:3128')
    t.notMatch(note, /ann|s3cret/)
  }
  const odd = ignoredProxyNote(none, { http_proxy: 'socks5://ann:s3cret@proxy.example.org' })
  t.match(odd, 'parent_proxy: http://')
  t.notMatch(odd, /ann|s3cret/)
})
