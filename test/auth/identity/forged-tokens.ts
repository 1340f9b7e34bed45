/**
 * The verifiers that docs/identity-token.md shows accept the tokens of a gateway and refuse every one of docs/forged-tokens.json: jose and
 * PyJWT by the lines of the document, and what applications are built with by its settings: the middleware of express-oauth2-jwt-bearer,
 * Debian's Django REST framework, and Debian's Apache with mod_auth_openidc, which ignores `nbf`. Grafana is not on this machine: its lines
 * are held against what its manual says of them.
 */
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo, Server } from 'node:net'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { createRemoteJWKSet, decodeJwt, jwtVerify } from 'jose'
import t, { type Test } from 'tap'
import { packageRoot } from '../../../lib/package.ts'
import { forgedTokens, forgedTokensFile } from '../../../tools/forged-tokens.ts'
import { arranged } from '../../fixtures/gateway/attacked.ts'
import { domain } from '../../fixtures/gateway/gateway.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'
import { lacking } from '../../fixtures/process/command.ts'
import { accepts, freePort } from '../../fixtures/process/ports.ts'
import { rsaPair } from '../../fixtures/saml/keys.ts'
import { Child } from '../../fixtures/sso/child.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

t.setTimeout(120_000)

const corpus = forgedTokens()
const written = 'http://127.0.0.1:9080/__authproxy/jwks.json'
const document = readFileSync(join(packageRoot(), 'docs/identity-token.md'), 'utf8')

/** The block below a heading of the document. */
function blockOf(heading: string): string {
  const [, text = ''] = document.split(`\n### ${heading}\n`)
  return /```\w*\n([\s\S]*?)```/.exec(text)?.[1] ?? ''
}

/** Says who asks by these lines of the field of the token; undefined when the verifier refuses them. */
type Verifier = (lines: readonly string[]) => Promise<string | undefined>

/** A verifier that fetches its keys from an address, the setting with which a gateway sends what it verifies, and what it lacks here. */
interface Shown {
  readonly name: string
  readonly token: true | 'bearer'
  readonly lacks: string | false
  /** Forgeries that it accepts, as the document says. */
  readonly misses?: readonly string[]
  readonly start: (t: Test, jwks: string) => Promise<Verifier>
}

/** Asks a server with the lines of a field, each a line of its own. */
async function ask(t: Test, port: number, lines: readonly string[]) {
  const client = await RawClient.connect(t, port)
  const sent = lines.map(line => `${line}\r\n`).join('')
  await client.write(`GET / HTTP/1.1\r\nHost: app\r\nConnection: close\r\n${sent}\r\n`)
  const { status, text, fields } = await client.response()
  return status < 300 ? (fields.get('X-User') ?? text.trim()) : undefined
}

const bearer = (lines: readonly string[]) => lines.map(line => `Authorization: Bearer ${line}`)
const identity = (lines: readonly string[]) => lines.map(line => `X-Authproxy-Identity: ${line}`)

const python = '/usr/bin/python3'
const libraries = '/usr/lib/python3/dist-packages'
const modules = '/usr/lib/apache2/modules'
const absent = (...paths: readonly string[]) => {
  const missing = paths.filter(path => !existsSync(path))
  return missing.length > 0 && `SKIPPED: this machine has no ${missing.join(', no ')}`
}

const shown: readonly Shown[] = [
  {
    name: 'Node',
    token: true,
    lacks: false,
    start: async (t, jwks) => {
      // Below the package, so that the import of jose is found.
      const file = join(t.testdir(), 'verifier.mjs')
      await writeFile(file, blockOf('Node').replace(written, jwks))
      const { whoIsAsking } = await import(pathToFileURL(file).href)
      const server = createServer((request, response) => {
        whoIsAsking(request).then(
          ({ user }: { user: string }) => response.end(user),
          () => response.writeHead(401).end(),
        )
      })
      const port = await listening(t, server)
      return lines => ask(t, port, identity(lines))
    },
  },
  {
    name: 'Python',
    token: true,
    lacks: absent(python, `${libraries}/jwt`),
    start: async (t, jwks) => {
      const file = join(t.testdir(), 'verifier.py')
      const port = await freePort()
      const served = `
import http.server
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        # As a server for WSGI joins the lines of a field.
        headers = {"X-Authproxy-Identity": ",".join(self.headers.get_all("X-Authproxy-Identity", []))}
        try:
            user, status = who_is_asking(headers)[0], 200
        except jwt.PyJWTError as error:
            user, status = str(error), 401
        self.send_response(status)
        self.end_headers()
        self.wfile.write(user.encode())
http.server.HTTPServer(("127.0.0.1", ${port}), Page).serve_forever()
`
      await writeFile(file, blockOf('Python').replace(written, jwks) + served)
      const args = [file]
      const server = await Child.start({ program: python, args, ready: () => accepts(port) })
      t.teardown(() => server.stop())
      return lines => ask(t, port, identity(lines))
    },
  },
  {
    name: 'Express',
    token: 'bearer',
    lacks: absent(join(packageRoot(), 'node_modules/express-oauth2-jwt-bearer')),
    start: async (t, jwks) => {
      const file = join(t.testdir(), 'middleware.mjs')
      const app = 'export let middleware\nconst app = { use: given => { middleware = given } }\n'
      await writeFile(file, app + blockOf('Express').replace(written, jwks))
      const { middleware } = await import(pathToFileURL(file).href)
      const server = createServer((request, response) => {
        // What Express adds to a request, as far as the middleware asks for it.
        const asked = Object.assign(request, {
          ...{ protocol: 'http', query: {}, auth: undefined },
          get: () => domain,
          is: () => false,
        })
        middleware(asked, response, (error?: { readonly status: number }) => {
          const { payload } = Object(asked.auth)
          response.writeHead(error?.status ?? 200).end(payload?.sub)
        })
      })
      const port = await listening(t, server)
      return lines => ask(t, port, bearer(lines))
    },
  },
  {
    name: 'Apache',
    token: 'bearer',
    misses: ['not yet'],
    lacks: lacking('apache2') || absent(`${modules}/mod_auth_openidc.so`),
    start: async (t, jwks) => {
      const directory = t.testdir()
      const port = await freePort()
      const loaded = ['authn_core', 'authz_core', 'authz_user', 'auth_openidc', 'alias', 'headers']
      await writeFile(
        join(directory, 'apache.conf'),
        `ServerRoot ${directory}
ServerName ${domain}
PidFile ${directory}/apache.pid
Mutex posixsem default
Listen 127.0.0.1:${port}
LoadModule mpm_prefork_module ${modules}/mod_mpm_prefork.so
${loaded.map(name => `LoadModule ${name}_module ${modules}/mod_${name}.so`).join('\n')}
StartServers 1
ErrorLog ${directory}/error.log
${process.getuid?.() === 0 ? 'User www-data\nGroup www-data' : ''}
<Location />
  Redirect 204 /
  Header always set X-User "expr=%{REMOTE_USER}"
</Location>
${blockOf('Apache').replace(/https:.*jwks.json/, await overTls(t, jwks))}
OIDCOAuthSSLValidateServer Off
`,
      )
      const apache = await Child.start({
        program: 'apache2',
        args: ['-f', join(directory, 'apache.conf'), '-DNO_DETACH'],
        ready: () => accepts(port),
      })
      t.teardown(() => apache.stop())
      return lines => ask(t, port, bearer(lines))
    },
  },
  {
    name: 'Django REST framework',
    token: 'bearer',
    lacks: lacking('gunicorn') || absent(python, `${libraries}/rest_framework_simplejwt`),
    start: async (t, jwks) => {
      const directory = t.testdir()
      const settings = blockOf('Django REST framework').replace(written, jwks)
      await writeFile(
        join(directory, 'pages.py'),
        `import django
from django.conf import settings
exec(${JSON.stringify(settings)})
settings.configure(REST_FRAMEWORK=REST_FRAMEWORK, SIMPLE_JWT=SIMPLE_JWT, ROOT_URLCONF="pages", ALLOWED_HOSTS=["*"],
    SECRET_KEY="x" * 50, INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "rest_framework"])
django.setup()
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path
from rest_framework.decorators import api_view
@api_view(["GET"])
def page(request):
    return HttpResponse(request.user.id)
urlpatterns = [path("", page)]
application = get_wsgi_application()
`,
      )
      await mkdir(join(directory, 'home'))
      const port = await freePort()
      const server = await Child.start({
        program: 'gunicorn',
        args: ['-b', `127.0.0.1:${port}`, 'pages:application'],
        env: { PYTHONPATH: directory, PYTHONDONTWRITEBYTECODE: '1', HOME: join(directory, 'home') },
        cwd: directory,
        ready: () => accepts(port),
      })
      t.teardown(() => server.stop())
      return lines => ask(t, port, bearer(lines))
    },
  },
]

/** The address of these keys by https, which mod_auth_openidc insists on. */
async function overTls(t: Test, jwks: string): Promise<string> {
  const { privateKey: key, certificate: cert } = rsaPair('keys')
  const server = createTlsServer({ key, cert }, async (_, response) => {
    response.end(await (await fetch(jwks)).text())
  })
  return `https://127.0.0.1:${await listening(t, server)}/jwks.json`
}

async function listening(t: Test, server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return (server.address() as AddressInfo).port
}

/** The keys of the corpus at an address. */
async function keysOfCorpus(t: Test): Promise<string> {
  const server = createServer((_, response) => {
    response.setHeader('Content-Type', 'application/jwk-set+json')
    response.end(JSON.stringify(corpus.jwks))
  })
  return `http://127.0.0.1:${await listening(t, server)}/jwks.json`
}

t.test('the file is what the tool writes, and has forty forgeries', t => {
  const [path, text] = forgedTokensFile()
  t.equal(readFileSync(join(packageRoot(), path), 'utf8'), text, 'npm run manual')
  t.equal(corpus.forged.length, 40)
  t.equal(new Set(corpus.forged.map(({ name }) => name)).size, 40)
  t.equal(new Set(corpus.forged.map(({ lines }) => lines.join())).size, 40)
  t.end()
})

for (const { name, token, lacks, start, misses = [] } of shown) {
  t.test(`${name}: what is good is accepted, and no forgery`, { skip: lacks }, async t => {
    const verify = await start(t, await keysOfCorpus(t))
    for (const { name, lines } of corpus.good) t.equal(await verify(lines), 'ada@example.org', name)
    for (const { name, lines } of corpus.forged) {
      const user = misses.includes(name) ? 'ada@example.org' : undefined
      t.equal(await verify(lines), user, name)
    }
    t.equal(await verify([]), undefined, 'no line')
    t.equal(await verify(['']), undefined, 'an empty line')
    const [{ lines } = { lines: [] }] = corpus.good
    t.equal(await verify(lines), 'ada@example.org', 'and still what is good')
  })

  t.test(`${name}: a token of a gateway is accepted, and no forgery`, { skip: lacks }, async t => {
    const { admin, tokenOf } = await signing(t, { token })
    const verify = await start(t, `http://127.0.0.1:${admin}/__authproxy/jwks.json`)
    t.equal(await verify([await tokenOf()]), 'ada@example.org')
    for (const { name, lines } of [...corpus.good, ...corpus.forged]) {
      t.equal(await verify(lines), undefined, name)
    }
  })
}

/** A gateway that signs identities now, with these settings: the port of its keys, and the value of the field that its backend gets. */
async function signing(t: Test, identity: object) {
  const { gateway, backend, send, cookie } = await arranged(t, {
    clock: new ManualClock(Date.now()),
    settings: { identity, admin: { listenAddress: '127.0.0.1:0' } },
  })
  const { field = '' } = gateway.config.identityToken ?? {}
  const tokenOf = async () => {
    await send(`GET / HTTP/1.1\nHost: ${domain}\nCookie: ${cookie}\n\n`)
    return (backend.requests.at(-1)?.fields.get(field) ?? '').replace(/^Bearer /, '')
  }
  return { admin: gateway.service.adminPort, field, tokenOf }
}

t.test('Grafana: the lines fit the token, by its manual of JWT authentication', async t => {
  const { field, tokenOf, admin } = await signing(t, {
    token: 'bearer',
    tokenField: 'X-JWT-Assertion',
  })
  const lines = [...blockOf('Grafana').matchAll(/^(\w+) = (.*)$/gm)]
  const settings = new Map(lines.map(([, name = '', value = '']) => [name, value]))
  t.equal(settings.get('header_name'), field)
  const { pathname } = new URL(settings.get('jwk_set_url') ?? '')
  const claims = decodeJwt(await tokenOf())
  await verified(await tokenOf(), `http://127.0.0.1:${admin}${pathname}`)
  // Each claim that is expected has to be equal; of `aud` one has to be in the list.
  const { aud, ...expected } = JSON.parse(settings.get('expect_claims') ?? '')
  t.match(claims, expected)
  t.ok(aud.includes(claims.aud))
  t.type(claims.sub, 'string', 'mandatory')
  t.type(claims[settings.get('username_claim') ?? ''], 'string')
  t.type(claims[settings.get('email_claim') ?? ''], 'string')
  t.ok(Array.isArray(claims[settings.get('groups_attribute_path') ?? '']))
})

function verified(token: string, keys: string) {
  return jwtVerify(token, createRemoteJWKSet(new URL(keys)))
}
