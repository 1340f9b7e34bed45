/**
 * Application servers that obey fields of a client, behind real edges with the files of packaging/edges: what such a server would serve at
 * another path, by another method, or as a file, stays behind the rules.
 */
import t, { type Test } from 'tap'
import {
  lackingServer,
  type ServerName,
  startApplicationServer,
} from '../../fixtures/edges/application-servers.ts'
import { startBehindEdge } from '../../fixtures/edges/behind-edge.ts'
import { type EdgeName, realEdges } from '../../fixtures/edges/real-edge.ts'
import { ownDirectory } from '../../fixtures/gateway/whole-gateway.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'
import { lacking } from '../../fixtures/process/command.ts'

t.setTimeout(300_000)

/** What a client sends, and what the server serves then. */
type Attack = readonly [
  server: ServerName,
  method: string,
  path: string,
  fields: Readonly<Record<string, string>>,
  /** What comes of it where nothing protects the server; undefined where that takes an edge. */
  unprotected: RegExp | undefined,
]

const attacks: readonly Attack[] = [
  ['daphne', 'GET', '/public/admin/', { 'Daphne-Root-Path': '/public' }, /^ADMIN serves GET/],
  ['daphne', 'GET', '/public/admin/', { 'DAPHNE-ROOT-PATH': '/public' }, /^ADMIN serves GET/],
  ['gunicorn', 'GET', '/public/admin/', { SCRIPT_NAME: '/public' }, /^ADMIN serves GET/],
  ['puma', 'POST', '/public/x', { 'X-HTTP-Method-Override': 'DELETE' }, /^OTHER serves DELETE/],
  ['puma', 'GET', '/public/doc.txt', { 'X-Accel-Mapping': '/=/admin/' }, undefined],
  // The application itself leads nginx to another of its pages.
  ['puma', 'GET', '/public/elsewhere', {}, undefined],
]

const settings = {
  access: [
    { path: '/public/', methods: ['GET', 'POST'], allow: 'anyone' },
    { path: '/', allow: [{ groups: ['ops'] }] },
  ],
}

async function textOf(client: RawClient, [, method, path, fields]: Attack) {
  const own = { Host: 'app.example.org', 'Content-Length': '0', ...fields }
  await client.request(method, path, own)
  const { status, content } = await client.response()
  client.end()
  return { status, text: content.toString() }
}

for (const server of ['daphne', 'gunicorn', 'puma'] as const) {
  const skip = lackingServer(server)
  t.test(`${server} itself obeys each field`, { skip }, async t => {
    const { port } = await startApplicationServer(t, server, await ownDirectory(t))
    for (const attack of attacks.filter(([name]) => name === server)) {
      const [, , path, fields, unprotected] = attack
      if (unprotected === undefined) continue
      const { text } = await textOf(await RawClient.connect(t, port), attack)
      t.match(text, unprotected, `${path} with ${Object.keys(fields)}`)
    }
  })
  for (const edge of realEdges) {
    const skip = lackingServer(server) || lacking(edge)
    t.test(`49, 74, 95, 96: ${server} behind ${edge}`, { skip }, async t => {
      await protects(t, edge, server)
    })
  }
}

async function protects(t: Test, name: EdgeName, server: ServerName) {
  const { port } = await startApplicationServer(t, server, await ownDirectory(t))
  const { edge } = await startBehindEdge(t, name, { settings, server: port })
  const get = async (path: string) =>
    textOf(await edge.connect(t), [server, 'GET', path, {}, undefined])
  t.match((await get('/public/page')).text, /^OTHER serves GET \/public\/page/)
  t.equal((await get('/admin/')).status, 401)
  for (const attack of attacks.filter(([name]) => name === server)) {
    const [, , path, fields] = attack
    const { status, text } = await textOf(await edge.connect(t), attack)
    const about = `${path} with ${Object.keys(fields)}: ${status} ${text.slice(0, 60)}`
    t.notMatch(text, /ADMIN|serves DELETE/, about)
    t.ok([200, 400, 401, 403].includes(status), about)
  }
}
