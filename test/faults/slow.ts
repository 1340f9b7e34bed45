/**
 * Five hundred clients that take their time: half never finish a head, half never read their answer. Everybody else is served
 * as before, and the slow ones are cut in the end.
 */
import { readFile } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'
import { type Lab, noLab, setUp } from '../fixtures/cache/lab.ts'
import { peerUnderTest } from '../fixtures/cache/proxy-process.ts'
import { eventually } from '../fixtures/process/ports.ts'

const each = 250

/** Never ends its head; does not read and says nothing; does not read and sends empty lines. */
type Kind = 'dripping' | 'silent' | 'talking'

/** Seconds; the settings below cut slow clients after these. */
const patience = 5
const hits = 100

t.setTimeout(600_000)

t.test(`${2 * each} slow clients`, { skip: noLab }, async t => {
  const lab = await setUp(t, {
    settings: { timeouts: { client_head: `${patience}s`, client_stalled: `${patience}s` } },
  })
  const small = `${lab.origin.url}/debian/pool/main/a/alpha/alpha_1.0_amd64.deb`
  const blob = await lab.archive.blob('large', 16)
  const large = lab.origin.url + blob.path
  const expected = (await lab.fetch(small)).content
  t.equal((await lab.fetch(large)).content.length, 16 << 20)

  const serve = async (title: string) => {
    const times: number[] = []
    let wrong = 0
    for (let i = 0; i < hits; i += 1) {
      const started = performance.now()
      const answer = await lab.fetch(small)
      times.push(performance.now() - started)
      if (answer.status !== 200 || !answer.content.equals(expected)) wrong += 1
    }
    times.sort((a, b) => a - b)
    const at = (part: number) => (times[Math.floor((times.length - 1) * part)] ?? 0).toFixed(1)
    t.equal(wrong, 0, `${title}: ${hits} hits, all right`)
    t.comment(`${title}: median ${at(0.5)} ms, 99 % ${at(0.99)} ms, longest ${at(1)} ms`)
  }

  await serve('alone')
  const memory = await lab.proxy.memory()

  const slow = { dripping: [], silent: [], talking: [] } as Record<Kind, Socket[]>
  const all = () => Object.values(slow).flat()
  t.teardown(() => {
    for (const socket of all()) socket.destroy()
  })
  for (let i = 0; i < each; i += 1) {
    slow.dripping.push(dripping(lab, large))
    if (i % 2 === 0) slow.silent.push(notReading(lab, large))
    else slow.talking.push(talking(notReading(lab, large)))
    // Not all in one burst: listen queues are not what is tested.
    if (i % 50 === 49) await pause(20)
  }
  await eventually(() => all().every(socket => !socket.connecting))
  await serve('among the slow')
  t.comment(`${await established(lab, all())} of ${2 * each} slow connections still stand`)
  const grown = ((await lab.proxy.memory()) - memory) / 2 ** 20
  // A slow reader may hold a piece or two of its file in memory, not the file.
  t.ok(grown < each * 1.2, `they cost ${grown.toFixed(0)} MiB`, { skip: peerUnderTest })

  if (peerUnderTest === false) {
    // What the kernel of a client has taken counts as read, and pays for up to six times the limit.
    const end = performance.now() + 8 * patience * 1000
    for (const [kind, sockets] of Object.entries(slow)) {
      const standing = () => established(lab, sockets)
      await eventually(async () => (await standing()) === 0, end - performance.now())
      t.equal(await standing(), 0, `${kind} clients are cut in the end`)
    }
    await serve('afterwards')
  }
})

/** Sends a head one byte at a time and never its end. */
function dripping(lab: Lab, url: string): Socket {
  const text = `GET ${url} HTTP/1.1\r\nHost: ${lab.origin.authority}\r\nUser-Agent: slow\r\n`
  let at = 0
  const socket = open(lab)
  const timer = setInterval(() => socket.write(text.charAt(at++ % text.length)), 500)
  socket.on('close', () => clearInterval(timer))
  return socket
}

/** Asks for much, takes the first bytes, then reads no more. */
function notReading(lab: Lab, url: string): Socket {
  const socket = open(lab)
  socket.write(`GET ${url} HTTP/1.1\r\nHost: ${lab.origin.authority}\r\n\r\n`)
  socket.once('data', () => socket.pause())
  return socket
}

/** Sends empty lines all the while, which may stand before a request: a connection that looks alive. */
function talking(socket: Socket): Socket {
  const timer = setInterval(() => socket.write('\r\n'), 1000)
  socket.on('close', () => clearInterval(timer))
  return socket
}

/** How many of these connections the proxy still holds: our own end of a paused socket does not notice. */
async function established(lab: Lab, sockets: readonly Socket[]): Promise<number> {
  const ours = new Set(sockets.map(socket => socket.localPort))
  const lines = (await readFile('/proc/net/tcp', 'utf8')).trim().split('\n').slice(1)
  const ends = lines.map(line => {
    const [, local = '', remote = '', state] = line.trim().split(/\s+/)
    return { local: portOf(local), remote: portOf(remote), state }
  })
  return ends.filter(
    ({ local, remote, state }) => local === lab.proxy.port && ours.has(remote) && state === '01',
  ).length
}

/** The port in `0100007F:1F90`. */
function portOf(address: string): number {
  return Number.parseInt(address.slice(address.indexOf(':') + 1), 16)
}

function open(lab: Lab): Socket {
  const socket = connect(lab.proxy.port, '127.0.0.1')
  socket.on('error', () => socket.destroy())
  socket.on('end', () => socket.destroy())
  return socket
}
