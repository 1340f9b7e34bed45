/**
 * Edges that put pages of their own in the place of error pages, real ones, and logins that begin behind them.
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { WholeBrowser } from '../../fixtures/gateway/whole-browser.ts'
import { ownDirectory, startWhole } from '../../fixtures/gateway/whole-gateway.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'
import { lacking } from '../../fixtures/process/command.ts'
import { accepts, freePort } from '../../fixtures/process/ports.ts'
import { hrefOf, htmlOf, pathOf } from '../../fixtures/saml/browser.ts'
import { sp } from '../../fixtures/saml/idp.ts'
import { Child } from '../../fixtures/sso/child.ts'
import { startNginx } from '../../fixtures/sso/nginx.ts'

type Edge = (t: Test, directory: string, to: number) => Promise<number>

const nginx: Edge = async (t, directory, to) => {
  const port = await freePort()
  const edge = await startNginx({
    directory: join(directory, 'nginx'),
    http: `server {
      listen 127.0.0.1:${port};
      proxy_intercept_errors on;
      error_page 401 403 404 500 502 503 504 /error.html;
      location = /error.html { internal; return 200 "Sorry, something went wrong"; }
      location / {
        proxy_pass http://127.0.0.1:${to};
        proxy_set_header Host $http_host;
        proxy_set_header X-Forwarded-Proto https;
        proxy_buffer_size 32k; proxy_buffers 8 32k;
      }
    }`,
    ports: [port],
  })
  t.teardown(() => edge.stop())
  return port
}

const MODULES = '/usr/lib/apache2/modules'

const apache: Edge = async (t, directory, to) => {
  const port = await freePort()
  const module = (name: string) => `LoadModule ${name}_module ${MODULES}/mod_${name}.so`
  const modules = ['mpm_event', 'authz_core', 'proxy', 'proxy_http', 'headers'].map(module)
  const file = join(directory, 'apache.conf')
  await writeFile(
    file,
    [
      ...[`ServerName ${sp.domain}`, `ServerRoot ${directory}`, `PidFile ${directory}/apache.pid`],
      ...[`Listen 127.0.0.1:${port}`, `ErrorLog ${directory}/apache.log`],
      ...modules,
      ...['ProxyErrorOverride On', 'ProxyPreserveHost On'],
      'RequestHeader set X-Forwarded-Proto https',
      `ProxyPass / http://127.0.0.1:${to}/ nocanon`,
    ].join('\n'),
  )
  const edge = await Child.start({
    program: 'apache2',
    args: ['-f', file, '-DFOREGROUND'],
    ready: () => accepts(port),
  })
  t.teardown(() => edge.stop())
  return port
}

for (const [name, program, edge, sorry] of [
  ['nginx with proxy_intercept_errors', 'nginx', nginx, /Sorry, something went wrong/],
  ['Apache with ProxyErrorOverride', 'apache2', apache, /401 Unauthorized/],
] as const) {
  const skip = lacking(program)
  t.test(`${name}: nobody can sign in, and with login.status: 302 they can`, { skip }, async t => {
    const before = await startWhole(t, { profile: 'entra' })
    const lost = new WholeBrowser(t, await edge(t, await ownDirectory(t), before.port))
    t.match(htmlOf(await lost.navigate('/deep')), sorry)

    const { idp, port, backend } = await startWhole(t, {
      profile: 'entra',
      settings: { login: { status: 302 } },
    })
    const at = await edge(t, await ownDirectory(t), port)
    const browser = new WholeBrowser(t, at)
    const first = await browser.navigate('/deep?a=b')
    t.equal(first.status, 302)
    t.equal(
      first.fields.get('Location'),
      `${sp.baseUrl}/__authproxy-redirect?login=%2Fdeep%3Fa%3Db`,
    )
    const page = await browser.navigate(pathOf(first.fields.get('Location') ?? ''))
    t.equal(page.status, 200, 'a page, so that the fragment of the address is kept')
    t.match(htmlOf(page), /SAMLRequest/)
    const { back } = await browser.signIn(idp, { to: '/deep?a=b' })
    t.equal(pathOf(hrefOf(back ?? page)), '/deep?a=b')
    await browser.navigate('/deep?a=b')
    t.equal(backend.seen('/deep?a=b').length, 1)

    const script = await RawClient.connect(t, port)
    await script.request('GET', '/data', { Host: sp.domain, 'Sec-Fetch-Mode': 'cors' })
    t.equal((await script.response()).status, 401, 'a script is answered as before')
  })
}

t.test('with login.status: 302 no head is larger than an edge takes by default', async t => {
  const { browser } = await startWhole(t, {
    profile: 'entra',
    settings: { login: { status: 302 } },
  })
  for (const length of [900, 1500, 4000]) {
    const { status, fields } = await browser.navigate(`/?${'%'.repeat(length)}`)
    const head = [...fields].reduce((sum, line) => sum + line.join(': ').length + 2, 0)
    t.ok(head < 4000, `${length}: ${head} bytes`)
    t.equal(status, length > 1000 ? 200 : 302)
  }
})

t.test('with login.status: 302 a form is kept, and its page has status 200', async t => {
  const { browser } = await startWhole(t, {
    profile: 'entra',
    settings: { login: { status: 302 } },
  })
  const page = await browser.post('/form', 'a=b', {
    Origin: sp.baseUrl,
    'Sec-Fetch-Site': 'same-origin',
  })
  t.equal(page.status, 200)
  t.match(htmlOf(page), /SAMLRequest/)
})
