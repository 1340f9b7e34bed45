/** The application behind the gateway, a process of its own: tells its port, then, when asked, how many of each kind have arrived. */
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

const arrived = { events: 0, uploads: 0, downloads: 0 }
const streams = new Set<ServerResponse>()
const piece = Buffer.alloc(50_000, 'x')

/** Ten megabytes, a piece a turn of the event loop, so that a new request never waits for many bytes of others. */
function download(response: ServerResponse, left = 200): void {
  if (left === 0) response.end()
  else if (response.write(piece)) setImmediate(download, response, left - 1)
  else response.once('drain', () => setImmediate(download, response, left - 1))
}

const server = createServer((request, response) => {
  request.on('error', () => undefined)
  if (request.url === '/open/events') {
    arrived.events += 1
    response.writeHead(200, { 'Content-Type': 'text/event-stream' })
    response.write('data: first\n\n')
    streams.add(response.on('close', () => streams.delete(response)))
  } else if (request.url === '/open/upload') {
    arrived.uploads += 1
    request.resume().on('end', () => response.end('taken'))
  } else if (request.url === '/open/download') {
    arrived.downloads += 1
    response.writeHead(200, { 'Content-Length': 10_000_000 })
    download(response)
  } else response.end('the application')
}).listen(0, '127.0.0.1')

setInterval(() => {
  for (const stream of streams) stream.write('data: more\n\n')
}, 5000)

await once(server, 'listening')
process.send?.((server.address() as AddressInfo).port)
process.on('message', () => process.send?.(arrived))
process.on('disconnect', () => process.exit())
