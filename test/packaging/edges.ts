/**
 * The examples of edges in docs/authproxy.md, run as they are written, but for ports and certificates, in front of a server that
 * tells what arrives.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import { request } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { packageRoot } from '../../lib/package.ts'
import { selfSignedCertificate } from '../../lib/x509/x509.ts'
import { lacking } from '../fixtures/process/command.ts'
import { accepts, freePort } from '../fixtures/process/ports.ts'
import { Child } from '../fixtures/sso/child.ts'
import { startNginx } from '../fixtures/sso/nginx.ts'

t.setTimeout(600_000)

const host = 'app.example.org'
const guide = await readFile(join(packageRoot(), 'docs/authproxy.md'), 'utf8')

/** The example with this test's ports, and the certificates in its directory. */
function example(language: string, place: Place): string {
  const found = new RegExp(`\`\`\`${language}\n([^]*?)\`\`\``).exec(guide)?.[1]
  if (found === undefined) throw new Error(`no example for ${language}`)
  return found
    .replaceAll('127.0.0.1:8080', `127.0.0.1:${place.backend}`)
    .replaceAll(/\/etc\/ssl\/(certs|private)/g, place.directory)
    .replace(/(listen |bind |\*)?:?443\b/, (_, word = '') => `${word}127.0.0.1:${place.port}`)
    .replace(/\*127/, '127')
}

interface Place {
  readonly directory: string
  readonly backend: number
  readonly port: number
}

type Start = (place: Place) => Promise<Child>

const edges: Readonly<Record<string, { readonly program: string; readonly start: Start }>> = {
  nginx: {
    program: 'nginx',
    start: place =>
      startNginx({
        directory: place.directory,
        http: example('nginx', place),
        ports: [place.port],
      }),
  },
  'Apache httpd': {
    program: 'apache2',
    async start(place) {
      const modules = ['mpm_event', 'authz_core', 'ssl', 'headers', 'proxy', 'proxy_http']
      const file = join(place.directory, 'httpd.conf')
      const lines = [
        ...modules.map(name => `LoadModule ${name}_module /usr/lib/apache2/modules/mod_${name}.so`),
        `ServerRoot ${place.directory}`,
        `PidFile ${join(place.directory, 'pid')}`,
        `DefaultRuntimeDir ${place.directory}`,
        `ErrorLog ${join(place.directory, 'error.log')}`,
        `ServerName ${host}`,
        `Listen 127.0.0.1:${place.port}`,
        ...(process.getuid?.() === 0 ? ['User www-data', 'Group www-data'] : []),
      ]
      await writeFile(file, `${lines.join('\n')}\n${example('apache', place)}`)
      const args = ['-f', file, '-DFOREGROUND']
      return Child.start({ program: 'apache2', args, ready: () => accepts(place.port) })
    },
  },
  HAProxy: {
    program: 'haproxy',
    async start(place) {
      const file = join(place.directory, 'haproxy.cfg')
      const head = 'global\n  tune.bufsize 32768\ndefaults\n  mode http\n  timeout connect 5s\n'
      await writeFile(file, `${head}${example('haproxy', place)}`)
      return Child.start({
        program: 'haproxy',
        args: ['-db', '-f', file],
        ready: () => accepts(place.port),
      })
    },
  },
}

/** Tells what arrives, sets a large cookie, and speaks to WebSockets. */
async function tellingBackend(t: { teardown(action: () => unknown): void }): Promise<number> {
  const server = createServer({ maxHeaderSize: 65_536 }, (arrived, response) => {
    response.setHeader('Set-Cookie', `session=${'s'.repeat(7000)}`)
    response.end(JSON.stringify(arrived.headers))
  })
  server.on('upgrade', (arrived, socket) => {
    // The answer to the key of RFC 6455 section 1.3, which HAProxy checks.
    const fields = `Upgrade: ${arrived.headers.upgrade}\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=`
    socket.end(`HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n${fields}\r\n\r\nhello`)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.closeAllConnections())
  t.teardown(() => server.close())
  return (server.address() as AddressInfo).port
}

interface Answer {
  readonly status: number | undefined
  readonly fields: IncomingHttpHeaders
  readonly content: string
}

function ask(port: number, headers: Record<string, string>): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const asked = request({
      ...{ host: '127.0.0.1', port, servername: host, rejectUnauthorized: false, agent: false },
      ...{ path: '/reports?page=2', headers: { Host: host, ...headers } },
    })
    asked.on('response', response => {
      let content = ''
      response.setEncoding('utf8').on('data', text => {
        content += text
      })
      response.on('end', () =>
        resolve({ status: response.statusCode, fields: response.headers, content }),
      )
    })
    asked.on('upgrade', (response, socket, head) => {
      socket.destroy()
      resolve({ status: response.statusCode, fields: response.headers, content: head.toString() })
    })
    asked.on('error', reject)
    asked.end()
  })
}

for (const [name, { program, start }] of Object.entries(edges)) {
  t.test(`the example for ${name}`, { skip: lacking(program) }, async t => {
    t.teardown(() => undefined)
    const directory = join(t.testdir(), 'edge')
    await mkdir(directory)
    const { privateKey, certificate } = await selfSignedCertificate({
      ...{ name: host, hosts: [host], modulusLength: 2048 },
      ...{ now: Date.now(), lifetime: 3_600_000 },
    })
    // HAProxy reads one file with both, the others two.
    await writeFile(join(directory, `${host}.pem`), `${certificate}${privateKey}`)
    await writeFile(join(directory, `${host}.key`), privateKey)
    const place = { directory, backend: await tellingBackend(t), port: await freePort() }
    const edge = await start(place)
    t.teardown(() => edge.stop())

    const cookie = `a=${'a'.repeat(20_000)}`
    const forged = { 'X-Forwarded-For': '192.0.2.66', 'X-Forwarded-Proto': 'http' }
    const { status, fields, content } = await ask(place.port, { ...forged, Cookie: cookie })
    t.equal(status, 200)
    t.match(JSON.parse(content), {
      host,
      cookie,
      'x-forwarded-proto': 'https',
      'x-forwarded-for': '127.0.0.1',
    })
    t.match(fields['set-cookie']?.[0], /^session=s{7000}$/)

    const socket = await ask(place.port, {
      ...{ Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Version': '13' },
      'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
    })
    t.equal(socket.status, 101)
  })
}
