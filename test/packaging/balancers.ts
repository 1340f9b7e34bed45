/**
 * packaging/balancers/haproxy.cfg and the lines for nginx in the guide as they are written, but for addresses and ports, with the real programs
 * and the real apt in front of two nodes: each file is fetched by one of them. One is killed while apt runs.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { packageRoot } from '../../lib/package.ts'
import {
  directoryFor,
  fetchThrough,
  type Lab,
  noLab,
  report,
  setUp,
} from '../fixtures/cache/lab.ts'
import { ProxyProcess } from '../fixtures/cache/proxy-process.ts'
import { RawClient } from '../fixtures/http/raw-client.ts'
import { lacking } from '../fixtures/process/command.ts'
import { accepts, eventually, freePort } from '../fixtures/process/ports.ts'
import { Child } from '../fixtures/sso/child.ts'

t.setTimeout(600_000)

const skip = noLab || lacking('haproxy')

const guide = await readFile(join(packageRoot(), 'docs/several-machines.md'), 'utf8')

t.test('the lines for HAProxy in the guide are those of the file', async t => {
  const [, block = ''] = /```\n(backend nodes\n[\s\S]*?)```/.exec(guide) ?? []
  const file = await readFile(join(packageRoot(), 'packaging/balancers/haproxy.cfg'), 'utf8')
  const lines = block.trimEnd().split('\n')
  t.ok(lines.length > 5)
  for (const line of lines) t.match(`${file}\n`, `\n${line}\n`)
})

t.test('two nodes behind HAProxy, one killed while apt runs', { skip }, async t => {
  const { directory, lab, nodes } = await twoNodes(t)
  const port = await freePort()
  const text = (await readFile(join(packageRoot(), 'packaging/balancers/haproxy.cfg'), 'utf8'))
    .replace('bind :3142', `bind 127.0.0.1:${port}`)
    .replace('192.0.2.11:3142', `127.0.0.1:${nodes[0].port} source 127.0.0.9`)
    .replace('192.0.2.12:3142', `127.0.0.1:${nodes[1].port} source 127.0.0.9`)
  const file = join(directory, 'haproxy.cfg')
  await writeFile(file, text)
  const haproxy = await Child.start({
    program: 'haproxy',
    args: ['-db', '-f', file],
    ready: () => accepts(port),
  })
  t.teardown(() => haproxy.stop())

  const allowed = await fetchThrough(port, '/_cachesvc/allowed')
  t.equal(allowed.status, 200, 'the node sees the client, which is allowed, and not the balancer')
  const proxy = `http://127.0.0.1:${port}`
  lab.origin.forget()
  for (const name of ['first', 'second']) {
    const apt = await lab.apt(name, { proxy })
    const update = await apt.update()
    t.strictSame([update.code, update.errors, update.warnings], [0, [], []], report(update))
    const download = await apt.download('alpha', 'beta++', 'gamma')
    t.strictSame([download.code, download.errors], [0, []], report(download))
  }
  fetchedOnce(t, lab)
  await eachIsAsked(t, { port, lab, nodes })
  const tunnel = await RawClient.connect(t, port)
  await tunnel.write(
    `CONNECT ${lab.origin.authority} HTTP/1.1\r\nHost: ${lab.origin.authority}\r\n\r\n`,
  )
  t.equal((await tunnel.head()).status, 200, 'a tunnel')
  await tunnel.write('GET /none HTTP/1.1\r\nHost: origin\r\n\r\n')
  t.equal((await tunnel.head()).status, 404, 'leads to the origin')
  tunnel.end()

  lab.origin.behaviour = 'stall'
  lab.origin.forget()
  const apt = await lab.apt('third', { proxy, deadline: 20_000 })
  // apt 2.6 now and then never asks again for the file whose connection broke, and waits without an end. Then nothing is said of it here.
  const running = apt.update().catch((error: unknown) => String(error))
  t.ok(await eventually(async () => lab.origin.seen(/./).length > 0, 30_000))
  const isAsking = async (node: ProxyProcess): Promise<boolean> => {
    const { content } = await fetchThrough(node.port, '/_cachesvc/metrics')
    return /^cachesvc_fetches_under_way [1-9]/m.test(content.toString())
  }
  const [used, other] = (await isAsking(nodes[0])) ? nodes : [nodes[1], nodes[0]]
  const before = await requests(other)
  // The request that waits goes on waiting; the next ones are answered.
  lab.origin.behaviour = 'serve'
  await used.stop('SIGKILL')
  const update = await running
  if (typeof update === 'string') t.match(update, 'did not end within')
  else {
    t.strictSame([update.code, update.errors], [0, []], report(update))
    t.notMatch(update.warnings.join('\n'), /Failed to fetch/, report(update))
  }
  t.ok((await requests(other)) > before, 'the running apt went on at the other node')
  const next = await (await lab.apt('fourth', { proxy })).update()
  t.strictSame([next.code, next.errors, next.warnings], [0, [], []], report(next))
})

t.test('two nodes behind nginx', { skip: noLab || lacking('nginx') }, async t => {
  const { directory, lab, nodes } = await twoNodes(t)
  const port = await freePort()
  const [, block = ''] = /```\n(upstream nodes \{\n[\s\S]*?)```/.exec(guide) ?? []
  const servers = block
    .replace('listen 3142', `listen 127.0.0.1:${port}`)
    .replace('192.0.2.11:3142', `127.0.0.1:${nodes[0].port}`)
    .replace('192.0.2.12:3142', `127.0.0.1:${nodes[1].port}`)
  const places = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    name => `${name}_temp_path ${directory}/${name};\n`,
  )
  const file = join(directory, 'nginx.conf')
  await writeFile(
    file,
    `daemon off;\npid ${directory}/nginx.pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n${places.join('')}${servers}}\n`,
  )
  const nginx = await Child.start({
    program: 'nginx',
    args: ['-e', 'stderr', '-c', file],
    ready: () => accepts(port),
  })
  t.teardown(() => nginx.stop())
  const sources = [
    {
      uri: `http://127.0.0.1:${port}/${lab.origin.authority}/debian`,
      suite: 'test',
      components: ['main'],
    },
  ]
  for (const name of ['first', 'second']) {
    const apt = await lab.apt(name, { proxy: 'DIRECT', sources })
    const update = await apt.update()
    t.strictSame([update.code, update.errors, update.warnings], [0, [], []], report(update))
    const download = await apt.download('alpha', 'beta++', 'gamma')
    t.strictSame([download.code, download.errors], [0, []], report(download))
  }
  fetchedOnce(t, lab)
  await eachIsAsked(t, { port, lab, nodes })
})

function fetchedOnce(t: Test, { origin }: Lab): void {
  const debs = origin.requests.filter(({ target }) => target.endsWith('.deb'))
  t.ok(debs.length >= 3)
  t.equal(new Set(debs.map(({ target }) => target)).size, debs.length, 'a file is fetched once')
}

/** A few files may well all belong to one node: so many names do not. */
async function eachIsAsked(
  t: Test,
  { port, lab, nodes }: { port: number; lab: Lab; nodes: readonly ProxyProcess[] },
): Promise<void> {
  for (let n = 0; n < 50; n += 1) {
    await fetchThrough(port, `/${lab.origin.authority}/debian/none-${n}`)
  }
  for (const node of nodes) t.ok((await requests(node)) > 0, 'each node is asked')
}

/** Two nodes before one origin. They believe a balancer at 127.0.0.9, so that the test itself reaches them without it. */
async function twoNodes(t: Test) {
  const directory = directoryFor(t)
  const settings = { proxy_protocol: ['127.0.0.9'], clients: ['127.0.0.1'] }
  const lab = await setUp(t, { directory, settings })
  const second = await ProxyProcess.start({
    directory: join(directory, 'second'),
    domains: [`127.0.0.1:${lab.origin.port}`],
    settings: { ...settings, freshness: { floor: '0s', negative: '0s' } },
  })
  t.teardown(() => second.stop())
  return { directory, lab, nodes: [lab.proxy, second] as const }
}

async function requests(node: ProxyProcess): Promise<number> {
  const { content } = await fetchThrough(node.port, '/_cachesvc/api/stats')
  return JSON.parse(content.toString()).totals.requests
}
