/**
 * The yardstick for gateways: what Node's own HTTP server and client do as a reverse proxy that checks nothing.
 *
 *     node dist/bench/bare/gateway.js PORT DIRECTORY
 *
 * ORIGIN_PORT is the backend, on the loopback.
 */
import { Agent, createServer, request } from 'node:http'
import { connect } from 'node:net'
import { pipeline } from 'node:stream'

const [, , ownPort = ''] = process.argv
const origin = { host: '127.0.0.1', port: Number(process.env['ORIGIN_PORT']) }
const agent = new Agent({ keepAlive: true, maxSockets: 512 })

const server = createServer((message, out) => {
  const { method, url, headers } = message
  const asked = request({ ...origin, agent, method, path: url, headers }, answer => {
    out.writeHead(answer.statusCode ?? 502, answer.rawHeaders)
    pipeline(answer, out, () => {})
  })
  asked.on('error', () => out.destroy())
  if (headers['content-length'] === undefined) asked.end()
  else pipeline(message, asked, () => {})
})
server.on('upgrade', (message, client) => {
  const { method, url, rawHeaders } = message
  const backend = connect(origin)
  const lines = [`${method} ${url} HTTP/1.1`]
  for (let i = 0; i < rawHeaders.length; i += 2)
    lines.push(`${rawHeaders[i]}: ${rawHeaders[i + 1]}`)
  backend.write(`${lines.join('\r\n')}\r\n\r\n`)
  pipeline(client, backend, client, () => {})
})
server.keepAliveTimeout = 120_000
server.listen(Number(ownPort), '127.0.0.1')
