/**
 * Requests for the pictures of cachesvc: a script plays three archives, as the parent proxy that cachesvc asks, and the machines of a network.
 */
import { createServer, type Server } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { tinyArchive } from '../../test/fixtures/archive/tiny-archive.ts'

const debian = 'http://deb.example.org/debian'
const security = 'http://security.example.org/debian-security'
const vendor = 'http://packages.example.com/agent'

/** What a picture of `explain` asks about. */
export const explainedUrl = `${debian}/pool/main/c/curl/curl_8.14.1-2_amd64.deb`

const names: Readonly<Record<string, readonly string[]>> = {
  [debian]: [
    'pool/main/c/curl/curl_8.14.1-2_amd64.deb',
    'pool/main/g/git/git_2.47.3-0_amd64.deb',
    'pool/main/p/python3.13/python3.13_3.13.5-2_amd64.deb',
    'pool/main/n/nginx/nginx_1.26.3-3_amd64.deb',
  ],
  [security]: ['pool/updates/main/o/openssl/openssl_3.5.4-1_amd64.deb'],
  [vendor]: ['pool/a/agent/agent_4.2.0_amd64.deb'],
}

/** Packages that machines install in the course of the day, an hour each; some that are asked for once. */
const installed = (
  'htop tmux vim jq rsync curl strace tcpdump nmap zsh gdb cmake ninja-build redis-server postgresql-17 php8.4 ruby3.3 golang-1.24 rustc ' +
  'nodejs openjdk-21-jre ansible podman buildah'
)
  .split(' ')
  .map((name, index) => `pool/main/${name.slice(0, 1)}/${name}/${name}_${index + 1}.2-1_amd64.deb`)

/** Every file of the three archives by its URL. */
function archiveFiles(): ReadonlyMap<string, Buffer> {
  const urls = new Map<string, Buffer>()
  for (const [base, paths] of Object.entries(names)) {
    const all = base === debian ? [...paths, ...installed] : paths
    const packages = Object.fromEntries(
      all.map(path => [path, path.repeat(30_000 + 500 * path.length)]),
    )
    const files = tinyArchive({ base: 'dists/stable', packages, packings: ['.gz'] })
    for (const [path, content] of files) urls.set(`${base}/${path}`, content)
  }
  return urls
}

/** The archives, behind a parent proxy of this port. */
export async function playArchives(): Promise<{ server: Server; port: number }> {
  const urls = archiveFiles()
  const server = createServer(({ url = '' }, response) => {
    const content = urls.get(url)
    if (content === undefined) return void response.writeHead(404).end()
    const modified = new Date(Date.now() - 3_600_000).toUTCString()
    response.writeHead(200, { 'Content-Length': content.length, 'Last-Modified': modified })
    response.end(content)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return { server, port: portOf(server.address()) }
}

function portOf(address: AddressInfo | string | null): number {
  if (address === null || typeof address === 'string') throw new Error('the server does not listen')
  return address.port
}

/** The address of this machine that the balancer of the machines has. Connections from it name their client. */
export const balancer = '127.0.0.2'

const agent = 'Debian APT-HTTP/1.3 (3.0.3)'

/** How many machines update in an hour of the day, from midnight on: a few at night, most in the morning. */
const machinesInHour = [2, 1, 1, 1, 2, 3, 8, 10, 7, 6, 5, 6, 4, 6, 5, 5, 4, 3, 3, 2, 2, 3, 2, 2]

/**
 * A day of the network: each hour some machines update and upgrade, and a few install something. `begin` is called before each hour with
 * the hours that are left, so that the clock of the cache can follow.
 */
export async function sendDay(port: number, begin: (left: number) => void): Promise<void> {
  let machine = 0
  for (let hour = 0; hour < 24; hour += 1) {
    const left = 23 - hour
    begin(left)
    const now = new Date(Date.now() - left * 3_600_000).getUTCHours()
    const fresh = installed[hour] ?? ''
    for (let count = machinesInHour[now] ?? 1; count > 0; count -= 1) {
      machine += 1
      const client = `10.20.0.${11 + (machine % 40)}`
      const urls = Object.entries(names).flatMap(([base, paths]) => [
        ...['Release', 'main/binary-all/Packages.gz'].map(name => `${base}/dists/stable/${name}`),
        ...paths.filter((_, index) => (index + machine) % 3 !== 0).map(path => `${base}/${path}`),
      ])
      for (const url of [...urls, `${debian}/${fresh}`]) await ask(port, { url, client, agent })
    }
  }
  const gone = `${debian}/pool/main/c/curl/curl_8.14.1-1_amd64.deb`
  await ask(port, { url: gone, client: '10.20.0.14', agent })
}

interface Asked {
  readonly url: string
  readonly client: string
  readonly agent: string
}

/** One request, in a connection that begins with the PROXY protocol. */
function ask(port: number, { url, client, agent }: Asked): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', localAddress: balancer })
    socket.on('error', reject).on('close', () => resolve())
    socket.resume()
    socket.write(namingClient(client))
    const { host } = new URL(url)
    socket.write(
      `GET ${url} HTTP/1.1\r\nHost: ${host}\r\nUser-Agent: ${agent}\r\nConnection: close\r\n\r\n`,
    )
  })
}

/** The head of the PROXY protocol, version 2: a connection of TCP over IPv4. */
function namingClient(address: string): Buffer {
  const signature = Buffer.from('0d0a0d0a000d0a515549540a', 'hex')
  const addresses = [address, '10.20.0.2'].flatMap(text => text.split('.').map(Number))
  return Buffer.concat([
    signature,
    Buffer.from([0x21, 0x11, 0, 12, ...addresses, 0xc3, 0x50, 0x0c, 0x46]),
  ])
}
