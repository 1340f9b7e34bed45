import t from 'tap'
import { arranged } from '../fixtures/gateway/attacked.ts'
import { domain } from '../fixtures/gateway/gateway.ts'

const navigation =
  'Sec-Fetch-Mode: navigate\nSec-Fetch-Dest: document\nSec-Fetch-Site: none\nAccept: text/html'

t.test('who opens a page is sent to log in and comes back to the very address', async t => {
  const { gateway, backend, send } = await arranged(t)
  for (const fields of [
    navigation,
    'Accept: text/html,application/xhtml+xml',
    'Accept: application/xhtml+xml',
  ]) {
    const answer = await send(
      `GET /deep/%20link?x=1&y=%2F HTTP/1.1\nHost: ${domain}\n${fields}\n\n`,
    )
    t.equal(answer.status, 302, fields)
    t.match(gateway.logins.pop(), { returnTo: '/deep/%20link?x=1&y=%2F', signedIn: false })
  }
  t.equal(backend.requests.length, 0)
})

t.test(
  'whoever can make nothing of a page gets 401 with the address to log in, and leaves no state',
  async t => {
    const { gateway, send } = await arranged(t)
    const cases = {
      fetch: 'Sec-Fetch-Mode: cors\nSec-Fetch-Dest: empty\nAccept: text/html',
      'an event stream': 'Accept: text/event-stream',
      'an old script': 'Accept: text/html\nX-Requested-With: XMLHttpRequest',
      'a program': 'Accept: */*',
      'nobody in particular': 'User-Agent: none',
      'an image': 'Sec-Fetch-Mode: no-cors\nSec-Fetch-Dest: image',
      'a page fetched ahead': `${navigation}\nSec-Purpose: prefetch;prerender`,
      'a wrong token': `${navigation}\nX-Authproxy-Authorization: Bearer nothing-we-know`,
    }
    for (const [who, fields] of Object.entries(cases)) {
      const answer = await send(`GET /api HTTP/1.1\nHost: ${domain}\n${fields}\n\n`)
      t.equal(answer.status, 401, who)
      const told = JSON.parse(answer.text)
      t.match(told.login, `https://${domain}/__authproxy-redirect`, who)
      t.equal('fields' in answer && answer.fields.get('X-Authproxy-Login'), told.login)
      t.notOk('fields' in answer && answer.fields.has('Set-Cookie'), who)
    }
    for (const method of ['PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
      t.equal(
        (await send(`${method} / HTTP/1.1\nHost: ${domain}\n${navigation}\n\n`)).status,
        401,
        method,
      )
    }
    t.same(gateway.logins, [])
  },
)

t.test('a script’s user comes back to the page the script ran in', async t => {
  const { send } = await arranged(t)
  const loginOf = async (referer: string) => {
    const answer = await send(
      `GET /api/data HTTP/1.1\nHost: ${domain}\nSec-Fetch-Mode: cors\nReferer: ${referer}\n\n`,
    )
    return new URL(JSON.parse(answer.text).login).searchParams.get('to')
  }
  t.equal(await loginOf(`https://${domain}/app/page?x=1#part`), '/app/page?x=1')
  t.equal(await loginOf('https://evil.example/'), '/')
  t.equal(await loginOf(`https://${domain}//evil.example/`), '/')
  t.equal(await loginOf(`https://${domain}.evil.example/`), '/')
})

const known = 'Cookie: __Host-authproxy_last=somebody'

t.test('a form without a session is kept when it is ours and small, and only then', async t => {
  const { gateway, backend, send } = await arranged(t, {
    settings: { saml: { replaySize: '1K' } },
  })
  const post = (fields: string, content: string) =>
    send(
      `POST /form HTTP/1.1\nHost: ${domain}\nSec-Fetch-Mode: navigate\nSec-Fetch-Dest: document\n${fields}\nContent-Length: ${content.length}\n\n${content}`,
    )
  const own = `Sec-Fetch-Site: same-origin\nOrigin: https://${domain}\n${known}`
  const form = 'Content-Type: application/x-www-form-urlencoded'
  for (const fields of [
    `${form}\n${own}`,
    `${form}\nOrigin: https://${domain}\n${known}`,
    `${form}\nOrigin: https://${domain}`,
    `Content-Type: text/plain\n${own}`,
    `Content-Type: multipart/form-data; boundary=x\n${own}`,
  ]) {
    t.equal((await post(fields, 'a=1&b=2')).status, 302, fields)
    const login = gateway.logins.pop()
    t.equal(login?.returnTo, '/form')
    t.equal(login?.form?.content.toString(), 'a=1&b=2')
  }
  for (const [fields, content, because] of [
    [`Content-Type: application/json\n${own}`, '{}', 'type'],
    [own, 'a=1', 'type'],
    [`${form}\n${own}`, 'x'.repeat(2000), 'too-large'],
    [`${form}\n${own}`, `__authproxy_form=${'A'.repeat(27)}`, 'spent'],
  ] as const) {
    const answer = await post(`${fields}\nReferer: https://${domain}/page`, content)
    t.equal(answer.status, 401, because)
    t.match(answer.text, /What you sent was not kept/)
    t.match(answer.text, 'redirect?to=%2Fpage')
    t.match('fields' in answer && answer.fields.get('WWW-Authenticate'), /^Authproxy login=/)
    t.equal(gateway.log.lines.at(-2)?.facts['because'], because)
  }
  for (const fields of [
    `${form}\nSec-Fetch-Site: cross-site\nOrigin: https://evil.example\n${known}`,
    `${form}\nSec-Fetch-Site: same-site\nOrigin: https://x.example.org\n${known}`,
    `${form}\n${known}`,
  ]) {
    t.match((await post(fields, 'a=1')).text, /send this form\?/, 'asked, not sent')
  }
  t.same(gateway.logins, [])
  t.same(backend.requests, [])
})

t.test(
  'with a replay size of 0 no form is kept; one without content has nothing to keep',
  async t => {
    const { gateway, send } = await arranged(t, { settings: { saml: { replaySize: 0 } } })
    const head = `POST /form HTTP/1.1\nHost: ${domain}\n${navigation}\nOrigin: https://${domain}\n${known}\n`
    t.equal((await send(`${head}Content-Length: 3\n\na=1`)).status, 401)
    t.equal((await send(`${head}Content-Length: 0\n\n`)).status, 302)
    t.match(gateway.logins, [{ returnTo: '/form', form: undefined, signedIn: false }])
  },
)

t.test('a script is told that what it sent was not kept', async t => {
  const { send } = await arranged(t)
  for (const [method, kept] of [
    ['GET', undefined],
    ['POST', false],
    ['PUT', false],
    ['DELETE', false],
  ] as const) {
    const answer = await send(
      `${method} /api HTTP/1.1\nHost: ${domain}\nSec-Fetch-Mode: cors\nContent-Type: application/json\nContent-Length: 2\n\n{}`,
    )
    t.equal(answer.status, 401)
    t.equal(JSON.parse(answer.text).kept, kept, method)
  }
})

t.test(
  'a login under another host name is not begun, because it could not be finished',
  async t => {
    const { gateway, send } = await arranged(t)
    for (const host of [
      'other.example.org',
      '127.0.0.1:8080',
      `${domain}:8443`,
      `evil-${domain}`,
    ]) {
      const answer = await send(`GET / HTTP/1.1\nHost: ${host}\n${navigation}\n\n`)
      t.equal(answer.status, 421, host)
      t.match(answer.text, domain)
    }
    t.equal(
      (await send(`GET / HTTP/1.1\nHost: ${domain.toUpperCase()}:443\n${navigation}\n\n`)).status,
      302,
    )
    t.equal(gateway.logins.length, 1)
  },
)

t.test('the paths of SAML are answered here, whoever asks and whatever passes', async t => {
  const { backend, cookie, send } = await arranged(t, {
    settings: { passthroughPaths: ['/saml/'] },
  })
  for (const path of [
    '/saml/metadata.xml',
    '/saml/metadata',
    '/saml/certificate.crt',
    '/saml/acs',
    '/__authproxy-redirect',
  ]) {
    t.equal((await send(`GET ${path} HTTP/1.1\nHost: ${domain}\n\n`)).text, `SAML: ${path}\n`)
  }
  t.equal(backend.requests.length, 0)
  const out = await send(`GET /saml/slo HTTP/1.1\nHost: ${domain}\nCookie: ${cookie}\n\n`)
  t.match('fields' in out && out.fields.get('Set-Cookie'), /^__authproxy_session=; .*Max-Age=0/)
  await send(`GET /saml/other HTTP/1.1\nHost: ${domain}\nCookie: ${cookie}\n\n`)
  t.equal(backend.requests.length, 1, 'other paths below /saml/ are the backend’s')
})

t.test(
  '69: failure pages are pages for people and data for programs, with the ID of the log',
  async t => {
    const { gateway, send } = await arranged(t)
    const page = await send(`GET / HTTP/1.1\nHost: other.example.org\n${navigation}\n\n`)
    t.match(page.text, /<html lang="en">/)
    t.match(page.text, /<main>\s*<p class="application">[^<]+<\/p>\s*<h1>/)
    t.notMatch(page.text, /<script|src=|https?:\/\/(?!app\.example\.org)/)
    const fields = 'fields' in page ? page.fields : undefined
    t.equal(fields?.get('Cache-Control'), 'no-store')
    t.match(
      fields?.get('Content-Security-Policy'),
      /^default-src 'none'; style-src 'nonce-[^']+'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'$/,
    )
    const line = gateway.log.lines.find(({ facts }) => facts['code'] === 'wrong_host')
    t.equal(line?.message, 'PROXY-ERROR wrong_host')
    t.match(page.text, `PROXY-ERROR ${line?.facts['id']}`)
  },
)
